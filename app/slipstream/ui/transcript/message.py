"""The widgets of single messages: what the user wrote, what the model answered, and cards between them."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent, QTextBlockFormat, QTextCursor
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from slipstream.domain.errors import ErrorInfo
from slipstream.domain.rounds import Totals
from slipstream.ui.theme import font, icon, pixmap, px
from slipstream.ui.transcript.markdown import MarkdownView
from slipstream.ui.transcript.prose import FlowText

_BUBBLE = 560
_REASONING_HEIGHT = 240


def button(text: str, kind: str, icon_name: str = "", tip: str = "") -> QPushButton:
    """A small push button; with an icon and no text it is square, and `tip` is its name."""
    made = QPushButton(f" {text}" if icon_name and text else text)  # Qt sets icon and text too close
    made.setAccessibleName(text)
    made.setProperty("kind", kind)
    made.setProperty("size", "small")
    made.setCursor(Qt.CursorShape.PointingHandCursor)
    if icon_name:
        made.setProperty("iconName", icon_name)
        made.setIcon(icon(icon_name, "on.accent" if kind == "primary" else "text.2", 16))
    if tip:
        made.setToolTip(tip)
        made.setAccessibleName(tip)
    return made


def repaint_icons(widget: QWidget) -> None:
    """Colour the icons of all buttons below `widget` for the present theme."""
    for one in widget.findChildren(QPushButton):
        name = one.property("iconName")
        if name:
            one.setIcon(icon(str(name), "on.accent" if one.property("kind") == "primary" else "text.2", 16))


class UserMessage(QWidget):
    """What the user wrote, as typed, in a bubble at the right."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._source = text
        self._bubble = QFrame()
        self._bubble.setProperty("surface", "sunken")
        self._text = FlowText(role="transcript")
        self._text.setAccessibleName(self.tr("You wrote"))
        inner = QVBoxLayout(self._bubble)
        self._inner = inner
        inner.setContentsMargins(px(14), px(9), px(14), px(9))
        inner.addWidget(self._text)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addStretch(1)
        row.addWidget(self._bubble)
        self._text.setPlainText(text)
        self.restyle()

    @property
    def source(self) -> str:
        return self._source

    def restyle(self) -> None:
        document = self._text.document()
        document.setDefaultFont(font("transcript"))
        cursor = QTextCursor(document)
        cursor.select(QTextCursor.SelectionType.Document)
        height = QTextBlockFormat()
        height.setLineHeight(128.0, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        cursor.mergeBlockFormat(height)
        self._narrow()

    def _narrow(self) -> None:
        margins = self._inner.contentsMargins()
        edges = margins.left() + margins.right()
        most = min(px(_BUBBLE), max(px(200), self.width() or px(_BUBBLE))) - edges
        document = self._text.document()
        document.setTextWidth(-1)
        ideal = int(document.idealWidth()) + 2
        width = max(px(12), min(most, ideal))
        self._text.setFixedWidth(width)
        document.setTextWidth(width)
        self._text.fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._narrow()


class Thought(QWidget):
    """What the model thought before its answer: one row, opened on demand."""

    linkAsked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._row = QPushButton()
        self._row.setProperty("kind", "ghost")
        self._row.setCheckable(True)
        self._row.setStyleSheet("padding-left: 0; padding-right: 8px; font-weight: 400;")
        self._row.toggled.connect(self._toggle)
        self._view = MarkdownView(role="body", tone="text.2")
        self._view.linkAsked.connect(self.linkAsked)
        self._area = QScrollArea()
        self._area.setWidgetResizable(True)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._area.setWidget(self._view)
        self._area.hide()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(px(4))
        column.addWidget(self._row, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self._area)
        self._text = ""
        self._shown = False
        self.set_running(0.0)
        self.restyle()

    @property
    def source(self) -> str:
        return self._text

    def append(self, text: str) -> None:
        self._text += text
        if self._shown:
            self._view.append(text)
            self._fit()

    def set_source(self, text: str) -> None:
        self._text = text
        self._shown = False
        if self._row.isChecked():
            self._toggle(True)

    def set_running(self, seconds: float) -> None:
        self._row.setText(" " + self.tr("Thinking, {0} s").format(int(seconds)))

    def set_done(self, seconds: float | None) -> None:
        if seconds is None:
            self._row.setText(" " + self.tr("Thought first"))
        else:
            self._row.setText(" " + self.tr("Thought for {0} s").format(f"{seconds:.1f}"))

    def restyle(self) -> None:
        self._row.setIcon(icon("chevron-down" if self._row.isChecked() else "chevron-right", "text.2", 16))
        self._view.restyle()

    def _toggle(self, open_: bool) -> None:
        if open_ and not self._shown:
            self._shown = True
            self._view.set_source(self._text)
            self._view.reopen()
        self._area.setVisible(open_)
        self._fit()
        self.restyle()

    def _fit(self) -> None:
        QTimer.singleShot(0, self, self._fit_now)

    def _fit_now(self) -> None:
        self._area.setFixedHeight(min(px(_REASONING_HEIGHT), self._view.sizeHint().height() + 2))


class Card(QFrame):
    """A sentence with its reason and what can be done: `tone` "bad", "warn", "good" or "sunken"."""

    def __init__(
        self,
        tone: str,
        icon_name: str,
        title: str,
        text: str,
        buttons: Sequence[QPushButton] = (),
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setProperty("surface", tone)
        self._icon_name, self._tone = icon_name, tone
        self._icon = QLabel()
        self._title = QLabel(title)
        self._title.setProperty("role", "strong")
        self._title.setWordWrap(True)
        self._body = QLabel(text)
        self._body.setTextFormat(Qt.TextFormat.PlainText)
        self._body.setProperty("role", "secondary")
        self._body.setWordWrap(True)
        self._body.setVisible(bool(text))
        self._body.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        row = QHBoxLayout(self)
        row.setContentsMargins(px(12), px(12), px(12), px(12))
        row.setSpacing(px(10))
        row.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout()
        column.setSpacing(px(4))
        column.addWidget(self._title)
        column.addWidget(self._body)
        if buttons:
            line = QHBoxLayout()
            line.setContentsMargins(0, px(4), 0, 0)
            line.setSpacing(px(8))
            for one in buttons:
                line.addWidget(one)
            line.addStretch(1)
            column.addLayout(line)
        row.addLayout(column, 1)
        self.setAccessibleName(title)
        self.setAccessibleDescription(text)
        self.restyle()

    @property
    def title(self) -> str:
        return self._title.text()

    @property
    def body(self) -> str:
        return self._body.text()

    def restyle(self) -> None:
        token = {"bad": "bad.text", "warn": "warn.text", "good": "accent.text"}.get(self._tone, "text.2")
        self._icon.setPixmap(pixmap(self._icon_name, token, 18))
        repaint_icons(self)


class AssistantMessage(QWidget):
    """A reply: thinking, text, what went wrong, and its figures with copy and again."""

    linkAsked = Signal(str)
    againAsked = Signal()
    continueAsked = Signal()
    recoverAsked = Signal()

    def __init__(self, message_id: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.message_id = message_id
        self._status = QLabel()
        self._status.setProperty("role", "body")
        self._status.setProperty("tone", "3")
        self._status.hide()
        self._thought: Thought | None = None
        self._view = MarkdownView()
        self._view.linkAsked.connect(self.linkAsked)
        self._view.hide()
        self._notices = QLabel()
        self._notices.setProperty("role", "secondary")
        self._notices.setWordWrap(True)
        self._notices.hide()
        self._card: Card | None = None
        self._figures = QLabel()
        self._figures.setProperty("role", "secondary")
        self._copy = button("", "icon", "copy", self.tr("Copy this reply"))
        self._again = button("", "icon", "refresh-cw", self.tr("Answer again (Ctrl+R)"))
        self._copy.clicked.connect(self.copy)
        self._again.clicked.connect(self.againAsked)
        self._foot = QWidget()
        foot = QHBoxLayout(self._foot)
        foot.setContentsMargins(0, 0, 0, 0)
        foot.setSpacing(px(4))
        foot.addWidget(self._figures, 1)
        foot.addWidget(self._copy)
        foot.addWidget(self._again)
        self._foot.hide()
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(px(8))
        for widget in (self._status, self._view, self._notices, self._foot):
            self._column.addWidget(widget)
        self._streaming = False

    # ------------------------------------------------------------ content

    @property
    def source(self) -> str:
        """The answer's Markdown, as copied."""
        return self._view.source

    @property
    def reasoning(self) -> str:
        return self._thought.source if self._thought else ""

    @property
    def card(self) -> Card | None:
        return self._card

    @property
    def figures(self) -> str:
        return self._figures.text()

    @property
    def status(self) -> str:
        return self._status.text() if not self._status.isHidden() else ""

    def set_stored(self, content: str, reasoning: str) -> None:
        if reasoning:
            self._need_thought().set_source(reasoning)
            self._need_thought().set_done(None)
        self._view.set_source(content)
        self._view.setVisible(bool(content))

    def begin(self, continued: bool = False) -> None:
        """A reply starts, or goes on where it stopped."""
        self._streaming = True
        self._drop_card()
        self._foot.hide()
        if continued:
            self._view.reopen()
        self.set_status(self.tr("Waiting for the first token"))

    def set_status(self, text: str) -> None:
        self._status.setText(text)
        self._status.setVisible(bool(text))

    def append(self, channel: str, text: str) -> None:
        if not text:
            return
        if channel == "reasoning":
            self._need_thought().append(text)
        else:
            self._view.show()
            self._view.append(text)
        if not self._status.isHidden():
            self.set_status("")

    def set_thinking(self, seconds: float, done: bool) -> None:
        if self._thought is not None:
            self._thought.set_done(seconds) if done else self._thought.set_running(seconds)

    def add_notice(self, text: str) -> None:
        have = self._notices.text()
        self._notices.setText(f"{have}\n{text}" if have else text)
        self._notices.show()

    # ------------------------------------------------------------ endings

    def end(self, figures: str) -> None:
        """The reply is over: its last block is closed and the figures appear."""
        self._streaming = False
        self.set_status("")
        self._view.finish()
        self._figures.setText(figures)
        self._foot.show()

    def show_stopped(self, text: str) -> None:
        """Stopped or cut short: offer to carry on."""
        go_on = button(self.tr("Continue"), "secondary", "play")
        go_on.clicked.connect(self.continueAsked)
        self._set_card(Card("sunken", "circle-pause", text, "", (go_on,)))

    def show_gone(self, error: ErrorInfo) -> None:
        """The engine went away in the middle."""
        go_on = button(self.tr("Load again and continue"), "primary", "play")
        go_on.clicked.connect(self.recoverAsked)
        text = f"{error.message} {self.tr('The text so far is saved.')}"
        self._set_card(Card("bad", "unplug", self.tr("The engine stopped in the middle of this reply"), text, (go_on,)))

    def show_failed(self, error: ErrorInfo) -> None:
        again = button(self.tr("Answer again"), "primary", "refresh-cw")
        again.clicked.connect(self.againAsked)
        self._set_card(Card("bad", "circle-alert", error.message, error.hint, (again,)))

    def copy(self) -> None:
        QApplication.clipboard().setText(self.source)

    def restyle(self) -> None:
        self._view.restyle()
        if self._thought:
            self._thought.restyle()
        if self._card:
            self._card.restyle()
        repaint_icons(self._foot)

    def _need_thought(self) -> Thought:
        if self._thought is None:
            self._thought = Thought()
            self._thought.linkAsked.connect(self.linkAsked)
            self._column.insertWidget(0, self._thought)
        return self._thought

    def _set_card(self, card: Card) -> None:
        self._drop_card()
        self._card = card
        self._column.addWidget(card)

    def _drop_card(self) -> None:
        if self._card is not None:
            self._column.removeWidget(self._card)
            self._card.hide()
            self._card.deleteLater()
            self._card = None


def figures_of(totals: Totals | None) -> str:
    """ "46.1 tokens/s · 1.77× · 68 % accepted · 402 tokens in 8.7 s": what is known of it."""
    if totals is None or not totals.tokens:
        return ""
    parts: list[str] = []
    if totals.tokens_per_second is not None:
        parts.append(f"{totals.tokens_per_second:.1f} tokens/s")
    if totals.speed_up is not None and totals.spec_rounds:
        parts.append(f"{totals.speed_up:.2f}×")
    if totals.acceptance is not None:
        parts.append(f"{totals.acceptance * 100:.0f} % accepted")
    seconds = totals.elapsed_s or totals.first_token_s + totals.decode_s  # a reply cut short has no whole time
    parts.append(f"{totals.tokens:,} tokens in {seconds:.1f} s")
    return "  ·  ".join(parts)
