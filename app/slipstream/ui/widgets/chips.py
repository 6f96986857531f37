"""Labels with a role and a tone."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from slipstream.ui.theme import set_prop


def label(text: str = "", role: str = "body", tone: str = "", parent: QWidget | None = None) -> QLabel:
    """A plain-text label in one of the theme's roles; `tone` "1", "2", "3", "good", "warn" or "bad" colours it."""
    made = QLabel(text, parent)
    made.setTextFormat(Qt.TextFormat.PlainText)  # names of models and errors are never markup
    made.setProperty("role", role)
    if tone:
        made.setProperty("tone", tone)
    return made


class Badge(QLabel):
    """A small word on a tinted bed. Hidden while it has nothing to say."""

    def __init__(self, text: str = "", tone: str = "", role: str = "badge", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("role", role)
        self.setText(text)
        self.setProperty("tone", tone)
        if not text:  # never setVisible(True) here: without a parent yet it would open a window
            self.hide()

    def show_text(self, text: str, tone: str = "") -> None:
        if text != self.text():
            self.setText(text)
        set_prop(self, "tone", tone)
        self.setVisible(bool(text))
