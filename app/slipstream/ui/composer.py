"""Where the next message is written."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QFontMetricsF, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from slipstream.ui.theme import current, font, icon, px, set_prop

_MOST_LINES = 8
_KEEP_MS = 300  # a pause in typing after which the draft of a message is saved


class Composer(QFrame):
    """Signals: `sent(text)` when a message is to go out (also while a reply runs: it is then queued),
    `stopAsked()`, `draftChanged(text)` when what is typed should be saved."""

    sent = Signal(str)
    stopAsked = Signal()
    draftChanged = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "composer")
        self._edit = _Edit()
        self._edit.enter.connect(self._send)
        self._edit.textChanged.connect(self._typed)
        self._edit.focused.connect(lambda on: set_prop(self, "focused", on))
        self._edit.setAccessibleName(self.tr("Message"))
        self._why = QLabel()
        self._why.setProperty("role", "secondary")
        self._why.setWordWrap(True)
        self._ring = ContextRing()
        self._stop = QPushButton(self.tr("Stop  Esc"))
        self._stop.setProperty("kind", "secondary")
        self._stop.setAccessibleName(self.tr("Stop this reply"))
        self._stop.clicked.connect(self.stopAsked)
        self._stop.hide()
        self._go = QPushButton()
        self._go.setProperty("kind", "primary")
        self._go.setAccessibleName(self.tr("Send"))
        self._go.setFixedWidth(px(32))
        self._go.clicked.connect(self._send)
        foot = QHBoxLayout()
        foot.setContentsMargins(0, 0, 0, 0)
        foot.setSpacing(px(8))
        foot.addWidget(self._why, 1)
        foot.addWidget(self._ring)
        foot.addWidget(self._stop)
        foot.addWidget(self._go)
        column = QVBoxLayout(self)
        column.setContentsMargins(px(14), px(10), px(8), px(8))
        column.setSpacing(px(6))
        column.addWidget(self._edit)
        column.addLayout(foot)
        self._ready, self._busy = False, False
        self._queued = ""
        self._reason = ""
        self._quiet = False
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.timeout.connect(lambda: self.draftChanged.emit(self.text))
        self.restyle()
        self._refresh()

    # ------------------------------------------------------------ state

    @property
    def text(self) -> str:
        return self._edit.toPlainText()

    @property
    def can_send(self) -> bool:
        return self._go.isEnabled()

    @property
    def reason(self) -> str:
        """Why nothing can be sent, or what happens when it is."""
        return self._why.text()

    def set_text(self, text: str) -> None:
        """Put a saved draft back, without reporting it as typed."""
        self._quiet = True
        self._edit.setPlainText(text)
        self._edit.moveCursor(self._edit.textCursor().MoveOperation.End)
        self._quiet = False
        self._pause.stop()
        self._refresh()

    def set_ready(self, ready: bool, reason: str = "") -> None:
        """Whether a message can go out, and why not. Typing is always possible."""
        self._ready, self._reason = ready, reason
        self._refresh()

    def set_busy(self, busy: bool) -> None:
        """Whether a reply is running: Stop appears, and sending queues."""
        self._busy = busy
        self._refresh()

    def set_queued(self, text: str) -> None:
        """The message that goes out when the running reply ends; "" for none."""
        self._queued = text
        self._refresh()

    def set_context(self, used: int, size: int) -> None:
        """Tokens of the context in use, of how many. 0 of 0 hides the ring."""
        self._ring.set(used, size)

    def focus(self) -> None:
        self._edit.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def save_now(self) -> None:
        """Report what is typed without waiting for a pause: before another chat is shown, or the window closes."""
        if self._pause.isActive():
            self._pause.stop()
            self.draftChanged.emit(self.text)

    def restyle(self) -> None:
        self._edit.setFont(font("transcript"))
        self._edit.fit()
        self._stop.setIcon(icon("square", "text.1", 14))
        self._refresh()

    # ------------------------------------------------------------ inside

    def _typed(self) -> None:
        self._edit.fit()
        self._refresh()
        if not self._quiet:
            self._pause.start(_KEEP_MS)

    def _refresh(self) -> None:
        has_text = bool(self.text.strip())
        may = self._ready and has_text and not self._queued
        self._go.setEnabled(may)
        self._go.setIcon(icon("arrow-up", "on.accent" if may else "line.control", 18))
        self._go.setToolTip(self.tr("Send when this reply ends (Enter)") if self._busy else self.tr("Send (Enter)"))
        self._stop.setVisible(self._busy)
        if not self._ready:
            why = self._reason
        elif self._queued:
            line = self._queued.strip().splitlines()[0]
            why = self.tr("Next: “{0}”").format(line if len(line) < 40 else line[:38] + "…")
        else:
            why = ""
        self._why.setText(why)
        self._go.setAccessibleDescription(why)
        self._edit.setPlaceholderText(
            self.tr("Write a message") if self._ready else self.tr("Write here; it is kept until a model is loaded")
        )

    def _send(self) -> None:
        if not self._go.isEnabled():
            return
        text = self.text
        self._pause.stop()
        self.set_text("")
        self.draftChanged.emit("")
        self.sent.emit(text)


class _Edit(QPlainTextEdit):
    """Enter sends, Shift+Enter makes a new line; as tall as its text, one to eight lines."""

    enter = Signal()
    focused = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("bare", True)
        self.setTabChangesFocus(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(2)
        self.document().documentLayout().documentSizeChanged.connect(lambda _: self.fit())

    def fit(self) -> None:
        line = QFontMetricsF(self.font()).lineSpacing()
        lines = max(1, min(_MOST_LINES, int(self.document().size().height())))  # in lines, for plain text
        self.setFixedHeight(int(line * lines + 2 * self.document().documentMargin() + 4))

    def sizeHint(self) -> QSize:
        return QSize(200, self.height())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                self.insertPlainText("\n")
            else:
                self.enter.emit()
            return
        super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focused.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.focused.emit(False)


class ContextRing(QWidget):
    """How full the context is: a ring of 20 px with its figure."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._used, self._size = 0, 0
        self.hide()

    @property
    def percent(self) -> int:
        return round(100 * self._used / self._size) if self._size else 0

    def set(self, used: int, size: int) -> None:
        if (used, size) == (self._used, self._size):
            return
        self._used, self._size = used, size
        self.setVisible(size > 0)
        self.setToolTip(self.tr("{0} of {1} tokens").format(f"{used:,}", f"{size:,}"))
        self.setAccessibleName(self._text())
        self.updateGeometry()
        self.update()

    def _text(self) -> str:
        return self.tr("{0} % of context").format(self.percent)

    def sizeHint(self) -> QSize:
        width = QFontMetricsF(font("secondary")).horizontalAdvance(self._text())
        return QSize(int(width) + px(30), px(24))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        theme = current()
        token = "bad" if self.percent >= 95 else "warn" if self.percent >= 80 else "accent"
        words = {"bad": "bad.text", "warn": "warn.text", "accent": "text.2"}[token]
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        side = px(17)
        box = QRectF(2, (self.height() - side) / 2, side, side)
        painter.setPen(QPen(theme.color("track"), 3))
        painter.drawEllipse(box)
        if self._used:
            painter.setPen(QPen(theme.color(token), 3, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap))
            painter.drawArc(box, 90 * 16, -int(min(1.0, self._used / self._size) * 360 * 16))
        painter.setPen(theme.color(words))
        painter.setFont(font("secondary"))
        painter.drawText(QRectF(px(27), 0, self.width(), self.height()), Qt.AlignmentFlag.AlignVCenter, self._text())
