"""Stacked bars and their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QHelpEvent, QKeyEvent, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from slipstream.ui.theme import current, font, px
from slipstream.ui.widgets.painting import focus_ring, hatch

GAP, LEAST = 1.0, 1.5
OVERHANG = 0.075  # how far past the capacity a bar may grow, as a part of it


@dataclass(frozen=True)
class Segment:
    """A part of a bar. `value` in the bar's own unit, `text` its value in words. `round_key`: the draft's parts
    are round, everything else square. `hatched`: "" plain, "/" rising, "\\\\" falling, "o" an outline only (free)."""

    name: str
    value: float
    text: str
    token: str
    hatched: str = ""
    round_key: bool = False


def widths(values: Sequence[float], total: float, room: float) -> list[float]:
    """Pixel widths of segments in `room` pixels that stand for `total`; none that has a value is under 1.5 px.

    What the small ones gain is taken from the largest, so that the sum stays what it was.
    """
    if total <= 0 or room <= 0:
        return [0.0 for _ in values]
    made = [room * (max(0.0, value) / total) for value in values]
    gained = 0.0
    for index, value in enumerate(values):
        if value > 0 and made[index] < LEAST:
            gained += LEAST - made[index]
            made[index] = LEAST
    if gained and made:
        largest = max(range(len(made)), key=made.__getitem__)
        made[largest] = max(LEAST, made[largest] - gained)
    return made


class StackedBar(QWidget):
    """10 px high in the panel, 28 elsewhere. Arrow keys read its segments one after another."""

    def __init__(self, height: int = 10, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._thick = height
        self._segments: tuple[Segment, ...] = ()
        self._capacity = 0.0
        self._name = ""
        self._at = -1
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self._segments

    def show_segments(self, name: str, segments: Sequence[Segment], capacity: float = 0.0) -> None:
        """Show `segments` in order. `capacity` 0: the bar is full whatever they add up to."""
        self._segments = tuple(part for part in segments if part.value > 0)
        self._capacity, self._name = capacity, name
        self._at = min(self._at, len(self._segments) - 1)
        words = ", ".join(f"{part.name} {part.text}" for part in self._segments)
        self.setAccessibleName(f"{name}: {words}" if words else name)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(px(304), px(self._thick) + 6)  # 3 px above and below for the focus ring

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        bed = QRectF(self.rect()).adjusted(0, 3, 0, -3)
        radius = 3.0 if self._thick <= 12 else 4.0
        clip = QPainterPath()
        clip.addRoundedRect(bed, radius, radius)
        painter.save()
        painter.setClipPath(clip)
        painter.fillRect(bed, current().color("track"))
        for part, box in self._boxes():
            self._fill(painter, part, box)
        painter.restore()
        self._limit(painter, bed)
        if self.hasFocus():
            boxes = self._boxes()
            if 0 <= self._at < len(boxes):
                painter.setPen(QPen(current().color("text.1"), 1.5))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(boxes[self._at][1].adjusted(0.5, 0.5, -0.5, -0.5))
            focus_ring(painter, QRectF(self.rect()).adjusted(1, 1, -1, -1), 5)

    def _scale(self) -> float:
        """What the full width stands for."""
        used = sum(part.value for part in self._segments)
        if self._capacity <= 0:
            return used
        return min(max(used, self._capacity), self._capacity * (1 + OVERHANG))

    def _boxes(self) -> list[tuple[Segment, QRectF]]:
        sizes = widths([part.value for part in self._segments], self._scale(), float(self.width()))
        x, boxes = 0.0, []
        for part, size in zip(self._segments, sizes, strict=True):
            boxes.append((part, QRectF(x, 3, max(LEAST, size - GAP), self.height() - 6)))
            x += size
        return boxes

    def _fill(self, painter: QPainter, part: Segment, box: QRectF) -> None:
        theme = current()
        if part.hatched == "o":
            return  # free: the bed itself
        painter.fillRect(box, theme.color(part.token))
        if part.hatched:
            hatch(painter, box, theme.color("bg.window"), part.hatched == "/")

    def _limit(self, painter: QPainter, bed: QRectF) -> None:
        used = sum(part.value for part in self._segments)
        if self._capacity <= 0 or used <= self._capacity:
            return
        theme, x = current(), bed.width() * self._capacity / self._scale()
        over = QRectF(x, bed.top(), bed.right() - x, bed.height())
        painter.fillRect(over, theme.color("bad.tint"))
        hatch(painter, over, theme.color("bad"), True)
        painter.fillRect(QRectF(x - 1, bed.top() - 2, 2, bed.height() + 4), theme.color("text.1"))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if step is None or not self._segments:
            super().keyPressEvent(event)
            return
        self._at = max(0, min(len(self._segments) - 1, self._at + step))
        part = self._segments[self._at]
        self.setAccessibleDescription(f"{part.name}, {part.text}")
        box = self._boxes()[self._at][1]
        QToolTip.showText(self.mapToGlobal(box.bottomLeft().toPoint()), f"{part.name}: {part.text}", self)
        self.update()

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            for part, box in self._boxes():
                if box.left() <= event.pos().x() <= box.right() + GAP:
                    QToolTip.showText(event.globalPos(), f"{part.name}: {part.text}", self)
                    return True
            QToolTip.hideText()
            return True
        return super().event(event)


class Legend(QWidget):
    """Keys of a bar in columns: a sign of the part's shape and hatch, its name, its value."""

    def __init__(self, columns: int = 2, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._columns = columns
        self._segments: tuple[Segment, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_segments(self, segments: Sequence[Segment]) -> None:
        rows = self._rows()
        self._segments = tuple(segments)
        self.setAccessibleName(", ".join(f"{part.name} {part.text}" for part in segments))
        if rows != self._rows():
            self.updateGeometry()
        self.update()

    def _rows(self) -> int:
        return -(-len(self._segments) // self._columns)

    def sizeHint(self) -> QSize:
        return QSize(px(304), px(18) * self._rows() + 2)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme, line, gap = current(), float(px(18)), float(px(20))
        wide = (self.width() - gap * (self._columns - 1)) / self._columns
        painter.setFont(font("secondary", tabular=True))
        for index, part in enumerate(self._segments):
            # down the first column, then the next: the order of the bar
            column, row = divmod(index, self._rows())
            x, y = column * (wide + gap), row * line
            key_swatch(painter, QRectF(x + 0.5, y + line / 2 - 4.5, 9, 9), part)
            room = QRectF(x + px(16), y, wide - px(16), line)
            painter.setPen(theme.color("text.1"))
            painter.drawText(room, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, part.text)
            painter.setPen(theme.color("text.2"))
            taken = painter.fontMetrics().horizontalAdvance(part.text) + px(6)
            name = painter.fontMetrics().elidedText(part.name, Qt.TextElideMode.ElideRight, int(room.width() - taken))
            painter.drawText(room, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, name)


def key_swatch(painter: QPainter, box: QRectF, part: Segment) -> None:
    """The small sign that names a part: round for the draft, square for the rest."""
    theme = current()
    shape = QPainterPath()
    if part.round_key:
        shape.addEllipse(box)
    else:
        shape.addRoundedRect(box, 1.5, 1.5)
    if part.hatched == "o":
        painter.setPen(QPen(theme.color("line.control"), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPath(shape)
        return
    painter.save()
    painter.setClipPath(shape)
    painter.fillRect(box, theme.color(part.token))
    if part.hatched:
        hatch(painter, box, theme.color("bg.window"), part.hatched == "/")
    painter.restore()


def dot(painter: QPainter, centre: QPointF, radius: float, token: str) -> None:
    """A filled circle in a token's colour."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(current().color(token))
    painter.drawEllipse(centre, radius, radius)
