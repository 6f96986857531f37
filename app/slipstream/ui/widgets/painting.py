"""What several painters share: the focus ring, hatched fills, keys."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from slipstream.ui.theme import current


def focus_ring(painter: QPainter, box: QRectF, radius: float = 6.0) -> None:
    """The 2 px ring of keyboard focus."""
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(current().color("focus"), 2))
    painter.drawRoundedRect(box, radius, radius)


def hatch(painter: QPainter, box: QRectF, color: QColor, rising: bool) -> None:
    """Diagonal lines over `box`, 4 px apart; `rising` to the right, or falling."""
    painter.save()
    painter.setClipRect(box, Qt.ClipOperation.IntersectClip)
    painter.setPen(QPen(color, 1.2))
    height = box.height()
    x = box.left() - height - (box.left() - height) % 4
    while x < box.right():
        low, high = QPointF(x, box.bottom()), QPointF(x + height, box.top())
        if not rising:
            low, high = QPointF(x, box.top()), QPointF(x + height, box.bottom())
        painter.drawLine(low, high)
        x += 4
    painter.restore()
