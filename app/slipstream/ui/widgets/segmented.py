"""A row of joined buttons of which exactly one is chosen."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QPushButton, QWidget


class Segmented(QWidget):
    """`picked(str)` carries the key of the segment the user chose; `choose` changes it silently."""

    picked = Signal(str)

    def __init__(self, segments: Sequence[tuple[str, str, str]], parent: QWidget | None = None) -> None:
        """`segments`: (key, text, description) of each, left to right."""
        super().__init__(parent)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        self._group = QButtonGroup(self)
        self._keys: list[str] = []
        for index, (key, text, description) in enumerate(segments):
            button = QPushButton(text)
            button.setCheckable(True)
            button.setProperty("kind", "segment")
            button.setProperty("place", "first" if index == 0 else "last" if index == len(segments) - 1 else "middle")
            button.setAccessibleDescription(description)
            button.setToolTip(description)
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            self._group.addButton(button, index)
            self._keys.append(key)
            row.addWidget(button)
        self._group.idClicked.connect(lambda index: self.picked.emit(self._keys[index]))
        self.choose(self._keys[0])

    @property
    def key(self) -> str:
        return self._keys[self._group.checkedId()]

    def choose(self, key: str) -> None:
        """Raises ValueError for a key it does not have."""
        self._group.button(self._keys.index(key)).setChecked(True)

    def button(self, key: str) -> QPushButton:
        made = self._group.button(self._keys.index(key))
        assert isinstance(made, QPushButton)
        return made
