"""Buttons that follow the theme, and the switch."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QCheckBox, QToolButton, QWidget

from slipstream.ui.theme import current, font, icon, px
from slipstream.ui.widgets.painting import focus_ring


class IconButton(QToolButton):
    """A square button with an icon and a name, redrawn when the theme changes."""

    def __init__(
        self,
        name: str,
        text: str,
        token: str = "text.2",
        size: int = 18,
        small: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        """`text` is its tooltip and its accessible name."""
        super().__init__(parent)
        self._icon = (name, token, size)
        self.setProperty("kind", "icon")
        if small:
            self.setProperty("fit", "small")
        self.setToolTip(text)
        self.setAccessibleName(text)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setIconSize(QSize(size, size))
        self._draw()

    def show_icon(self, name: str, token: str | None = None) -> None:
        self._icon = (name, token or self._icon[1], self._icon[2])
        self._draw()

    def _draw(self) -> None:
        self.setIcon(icon(*self._icon))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._draw()


class Switch(QCheckBox):
    """A check box drawn as a switch, its text to the left."""

    TRACK = QSize(28, 16)

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFont(font("secondary"))

    def sizeHint(self) -> QSize:
        text = self.fontMetrics().horizontalAdvance(self.text()) + px(8) if self.text() else 0
        return QSize(text + px(self.TRACK.width()) + 8, max(px(24), self.fontMetrics().height() + 4))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def hitButton(self, pos: object) -> bool:
        return True

    def paintEvent(self, event: QPaintEvent) -> None:
        theme, painter = current(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        wide, high = float(px(self.TRACK.width())), float(px(self.TRACK.height()))
        track = QRectF(self.width() - wide - 4, (self.height() - high) / 2, wide, high)
        painter.setPen(theme.color("text.2" if self.isEnabled() else "text.3"))
        painter.drawText(
            QRectF(0, 0, track.left() - px(8), self.height()),
            Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter,
            self.text(),
        )
        inner = track.adjusted(0.5, 0.5, -0.5, -0.5)
        if self.isChecked():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color("accent" if self.isEnabled() else "line.control"))
        else:
            painter.setPen(QPen(theme.color("line.control"), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(inner, high / 2, high / 2)
        x = track.right() - high / 2 if self.isChecked() else track.left() + high / 2
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color("on.accent" if self.isChecked() else "line.control"))
        painter.drawEllipse(QPointF(x, track.center().y()), high / 2 - 3, high / 2 - 3)
        if self.hasFocus():
            focus_ring(painter, track.adjusted(-3, -3, 3, 3), high / 2 + 3)
