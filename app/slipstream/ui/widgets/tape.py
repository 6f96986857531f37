"""The rounds tape: what became of each guess."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from slipstream.domain.rounds import Round
from slipstream.ui.theme import current, px
from slipstream.ui.widgets.painting import focus_ring

COLUMNS = 31
CELL_WIDTH, CELL_HEIGHT, GAP = 8.0, 5.0, 2.0
ROWS = 8  # at full cell height: the target's token and seven guesses; longer drafts get flatter cells


class RoundsTape(QWidget):
    """One column a round, newest right. Foot: the target's token; filled: kept; hollow: dropped."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rounds: deque[tuple[int, int]] = deque(maxlen=COLUMNS)  # kept, dropped
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        """(kept, dropped) guesses of each round shown, oldest first."""
        return tuple(self._rounds)

    def add(self, rounds: Iterable[Round]) -> None:
        for done in rounds:
            self._rounds.append((done.accepted, max(0, done.verified - done.accepted)))
        self.update()

    def clear(self) -> None:
        self._rounds.clear()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(px(304), round(px(1) * (ROWS * (CELL_HEIGHT + GAP) - GAP)) + 2)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = current()
        accent, slate, hollow = theme.color("accent"), theme.color("target"), theme.color("text.3")
        rows = max([ROWS, *(1 + kept + dropped for kept, dropped in self._rounds)])
        wide = px(1000) * CELL_WIDTH / 1000
        pitch_x = (self.width() - wide) / (COLUMNS - 1)
        pitch_y = (self.height() - 1 + GAP) / rows
        cell = max(1.5, pitch_y - GAP)
        first = COLUMNS - len(self._rounds)
        for index, (kept, dropped) in enumerate(self._rounds):
            x, y = (first + index) * pitch_x, self.height() - 0.5 - cell
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(slate)
            painter.drawRect(QRectF(x, y, wide, cell))
            painter.setBrush(accent)
            for guess in range(kept):
                box = QRectF(x, y - (guess + 1) * pitch_y, wide, cell)
                painter.drawRoundedRect(box, cell / 2, cell / 2)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(hollow, 1))
            for guess in range(kept, kept + dropped):
                box = QRectF(x + 0.5, y - (guess + 1) * pitch_y + 0.5, wide - 1, cell - 1)
                painter.drawRoundedRect(box, (cell - 1) / 2, (cell - 1) / 2)
        if not self._rounds:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color("track"))
            for index in range(COLUMNS):
                painter.drawRect(QRectF(index * pitch_x, self.height() - 0.5 - cell, wide, cell))
        if self.hasFocus():
            focus_ring(painter, QRectF(self.rect()).adjusted(1, 1, -1, -1))
