"""Speed over the last minute."""

from __future__ import annotations

from collections import deque

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from slipstream.ui.theme import current, px
from slipstream.ui.widgets.painting import focus_ring

SPAN_S, STEP_S = 60.0, 0.75


class Sparkline(QWidget):
    """304×48; one point each 0.75 s, gaps between replies, the plain speed as a dashed line."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._points: deque[tuple[float, float | None]] = deque()  # None lifts the pen
        self._plain: float | None = None
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    @property
    def points(self) -> tuple[tuple[float, float | None], ...]:
        return tuple(self._points)

    def add(self, at_s: float, rate: float, plain: float | None) -> bool:
        """One more point at the clock time `at_s`, in tokens/s. False where the last one is too young for it."""
        self._plain = plain
        if self._points and self._points[-1][1] is not None and at_s - self._points[-1][0] < STEP_S:
            return False
        self._points.append((at_s, rate))
        while self._points and self._points[0][0] < at_s - SPAN_S:
            self._points.popleft()
        self.update()
        return True

    def pause(self, at_s: float) -> None:
        """Lift the pen: what follows is another reply."""
        if self._points and self._points[-1][1] is not None:
            self._points.append((at_s, None))

    def clear(self) -> None:
        self._points.clear()
        self._plain = None
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(px(304), px(48))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = current()
        box = QRectF(self.rect()).adjusted(1, 5, -4, -1)
        painter.setPen(QPen(theme.color("line.subtle"), 1))
        painter.drawLine(QPointF(0, box.bottom()), QPointF(self.width(), box.bottom()))
        rates = [rate for _, rate in self._points if rate is not None]
        top = max([*rates, (self._plain or 0.0) * 1.25, 1.0])
        for run in self._runs():
            self._draw(painter, box, run, top)
        if self._plain:
            y = box.bottom() - box.height() * self._plain / top
            painter.setPen(QPen(theme.color("text.2"), 1, Qt.PenStyle.DashLine))
            painter.drawLine(QPointF(0, y), QPointF(self.width(), y))
        if self.hasFocus():
            focus_ring(painter, QRectF(self.rect()).adjusted(1, 1, -1, -1))

    def _runs(self) -> list[list[tuple[float, float]]]:
        runs: list[list[tuple[float, float]]] = [[]]
        for at_s, rate in self._points:
            if rate is None:
                runs.append([])
            else:
                runs[-1].append((at_s, rate))
        return [run for run in runs if run]

    def _draw(self, painter: QPainter, box: QRectF, run: list[tuple[float, float]], top: float) -> None:
        latest = self._points[-1][0]
        spots = [
            QPointF(
                box.right() - box.width() * (latest - at_s) / SPAN_S,
                box.bottom() - box.height() * rate / top,
            )
            for at_s, rate in run
        ]
        accent = current().color("accent")
        line = QPainterPath(spots[0])
        for spot in spots[1:]:
            line.lineTo(spot)
        bed = QPainterPath(line)
        bed.lineTo(QPointF(spots[-1].x(), box.bottom()))
        bed.lineTo(QPointF(spots[0].x(), box.bottom()))
        accent.setAlphaF(0.13)
        painter.fillPath(bed, accent)
        accent.setAlphaF(1.0)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(accent, 1.5))
        painter.drawPath(line)
        if run[-1][0] == latest:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(accent)
            painter.drawEllipse(spots[-1], 2.5, 2.5)
