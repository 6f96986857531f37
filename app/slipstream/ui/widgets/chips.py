"""Labels with a role and a tone."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QWidget

from slipstream.ui.theme import pixmap, px, set_prop

_TONES = {"good": "accent.text", "warn": "warn.text", "bad": "bad.text"}


def label(text: str = "", role: str = "body", tone: str = "", parent: QWidget | None = None) -> QLabel:
    """A plain-text label in one of the theme's roles; `tone` "1", "2", "3", "good", "warn" or "bad" colours it."""
    made = QLabel(text, parent)
    made.setTextFormat(Qt.TextFormat.PlainText)  # names of models and errors are never markup
    made.setProperty("role", role)
    if tone:
        made.setProperty("tone", tone)
    return made


class Badge(QLabel):
    """A small word on a tinted bed, with an icon before it where one is given. Hidden while it has nothing to say."""

    def __init__(self, text: str = "", tone: str = "", role: str = "badge", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self._icon = ""
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("role", role)
        self.setProperty("tone", tone)
        self.setProperty("iconic", False)
        if not text:  # never setVisible(True) here: without a parent yet it would open a window
            self.hide()

    def show_text(self, text: str, tone: str = "", icon: str = "") -> None:
        """Say `text` in `tone`; `icon` names a Lucide icon."""
        if text != self.text():
            self.setText(text)
        self._icon = icon
        set_prop(self, "tone", tone)
        set_prop(self, "iconic", bool(icon))
        self.setVisible(bool(text))

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self._icon:
            token = _TONES.get(str(self.property("tone")), "text.2")
            side = px(12)
            QPainter(self).drawPixmap(QPoint(6, (self.height() - side) // 2), pixmap(self._icon, token, side))
