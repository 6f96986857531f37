"""The round gauge: what the target does alone in slate, what the draft adds in teal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from slipstream.ui.theme import current, font, px
from slipstream.ui.widgets.motion import Glide, Motion
from slipstream.ui.widgets.painting import focus_ring

SIDE = 144
CENTRE = QPointF(72, 66)
RADIUS, PEN = 54.0, 8.0
START, SWEEP = 225.0, -270.0  # degrees, Qt's way: 0 at three o'clock, counter-clockwise


class Tone(Enum):
    """How the arc is coloured."""

    IDLE = "idle"  # no value
    SPLIT = "split"  # slate up to the reference, teal from there
    ACCENT = "accent"
    TARGET = "target"
    WARN = "warn"


@dataclass(frozen=True)
class GaugeState:
    """What a gauge shows. `value` and `reference` lie on the scale 0..`maximum`; None hides them. Texts are
    ready to paint: `number` with its `suffix` ("%"), the line under it, the words of the reference mark."""

    value: float | None = None
    maximum: float = 100.0
    reference: float | None = None
    tone: Tone = Tone.IDLE
    number: str = "–"
    suffix: str = ""
    unit: str = ""
    reference_text: str = ""


def angle(value: float, maximum: float) -> float:
    """Where `value` lies on the arc, in Qt degrees; values outside the scale stay at its ends."""
    part = min(1.0, max(0.0, value / maximum)) if maximum > 0 else 0.0
    return START + SWEEP * part


class Gauge(QWidget):
    """144×144, focusable. `surface` is the token of the colour behind it, which the reference mark cuts with."""

    def __init__(self, motion: Motion, parent: QWidget | None = None, surface: str = "bg.window") -> None:
        super().__init__(parent)
        self._surface = surface
        self._state = GaugeState()
        self._value = Glide(motion, self)
        self._value.moved.connect(self.update)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    @property
    def state(self) -> GaugeState:
        return self._state

    @property
    def shown_value(self) -> float:
        """Where the arc ends just now, on its way to the state's value."""
        return self._value.value

    def show_state(self, state: GaugeState, name: str, description: str = "") -> None:
        """Show `state`; `name` and `description` are what a screen reader says."""
        if state != self._state:
            rescaled = state.maximum != self._state.maximum or state.value is None
            self._state = state
            if rescaled:  # gliding across a change of scale would show values that never were
                self._value.jump(state.value or 0.0)
            else:
                self._value.set(state.value or 0.0)
            self.update()
        if self.accessibleName() != name:
            self.setAccessibleName(name)
        if self.accessibleDescription() != description:
            self.setAccessibleDescription(description)
            self.setToolTip(description)

    def sizeHint(self) -> QSize:
        return QSize(px(SIDE), px(SIDE))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._texts(painter)
        factor = self.width() / SIDE
        painter.scale(factor, factor)
        self._arcs(painter)
        self._ticks(painter)
        self._mark(painter)
        if self.hasFocus():
            focus_ring(painter, QRectF(1, 1, SIDE - 2, SIDE - 2))

    def _arcs(self, painter: QPainter) -> None:
        state, theme = self._state, current()
        _arc(painter, theme.color("track"), 0.0, state.maximum, state.maximum)
        if state.tone is Tone.IDLE or state.value is None:
            return
        value = min(self._value.value, state.maximum)
        if state.tone is Tone.SPLIT and state.reference is not None:
            plain = min(value, state.reference)
            if value > plain:
                _arc(painter, theme.color("accent"), plain, value, state.maximum)
            _arc(painter, theme.color("target"), 0.0, plain, state.maximum, end_cap=value <= plain)
            return
        token = {Tone.WARN: "warn", Tone.TARGET: "target"}.get(state.tone, "accent")
        _arc(painter, theme.color(token), 0.0, value, state.maximum)

    def _ticks(self, painter: QPainter) -> None:
        painter.setPen(QPen(current().color("line.control"), 1))
        for index in range(5):
            degrees = START + SWEEP * index / 4
            painter.drawLine(_point(degrees, 43), _point(degrees, 46))

    def _mark(self, painter: QPainter) -> None:
        state, theme = self._state, current()
        if state.reference is None:
            return
        degrees = angle(state.reference, state.maximum)
        for color, width in ((theme.color(self._surface), 6.0), (theme.color("text.1"), 2.0)):
            painter.setPen(QPen(color, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap))
            painter.drawLine(_point(degrees, 48), _point(degrees, 60))

    def _texts(self, painter: QPainter) -> None:
        """Painted unscaled, so that text is hinted for its real size."""
        state, theme, factor = self._state, current(), self.width() / SIDE
        middle = CENTRE.x() * factor

        def centred(text: str, role: str, token: str, x: float, y: float) -> None:
            painter.setFont(font(role, tabular=True))
            painter.setPen(theme.color(token))
            box = QRectF(x - 72 * factor, y * factor - 20 * factor, 144 * factor, 40 * factor)
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)

        big, small = font("gauge"), font("section")
        width, gap = QFontMetricsF(big).horizontalAdvance(state.number), 2 * factor
        extra = QFontMetricsF(small).horizontalAdvance(state.suffix) + gap if state.suffix else 0.0
        left, base = middle - (width + extra) / 2, 70 * factor
        painter.setFont(big)
        painter.setPen(theme.color("text.3" if state.value is None else "text.1"))
        painter.drawText(QPointF(left, base), state.number)
        if state.suffix:
            painter.setFont(small)
            painter.drawText(QPointF(left + width + gap, base), state.suffix)
        centred(state.unit, "caption", "text.2", middle, 84)
        centred("0", "caption", "text.2", middle - 38 * factor, 118)
        centred(f"{state.maximum:.0f}", "caption", "text.2", middle + 38 * factor, 118)
        if state.reference_text:
            painter.setFont(font("secondary", tabular=True))
            metrics = painter.fontMetrics()
            wide = metrics.horizontalAdvance(state.reference_text)
            start = middle - (wide + 7 * factor) / 2
            painter.fillRect(QRectF(start, 131 * factor, 2, 12 * factor), theme.color("text.1"))
            painter.setPen(theme.color("text.2"))
            line = QRectF(start + 7 * factor, 128 * factor, wide + 2, 16 * factor + 2)
            painter.drawText(line, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, state.reference_text)


def _point(degrees: float, radius: float) -> QPointF:
    turn = math.radians(degrees)
    return QPointF(CENTRE.x() + radius * math.cos(turn), CENTRE.y() - radius * math.sin(turn))


def _arc(painter: QPainter, color: QColor, low: float, high: float, maximum: float, *, end_cap: bool = True) -> None:
    """An arc from `low` to `high`. Its round ends are drawn as circles: Qt gives a near-zero arc no cap."""
    box = QRectF(CENTRE.x() - RADIUS, CENTRE.y() - RADIUS, 2 * RADIUS, 2 * RADIUS)
    first, last = angle(low, maximum), angle(high, maximum)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(color, PEN, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap))
    painter.drawArc(box, round(first * 16), round((last - first) * 16))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(color)
    if low <= 0:
        painter.drawEllipse(_point(first, RADIUS), PEN / 2, PEN / 2)
    if end_cap:
        painter.drawEllipse(_point(last, RADIUS), PEN / 2, PEN / 2)
