"""Lucide icons in the theme's colours, and the Slipstream mark."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap, QPixmapCache
from PySide6.QtSvg import QSvgRenderer

from slipstream.ui.theme.paths import resource_path
from slipstream.ui.theme.state import current
from slipstream.ui.theme.tokens import Theme

_RATIOS = (1.0, 1.5, 2.0, 3.0)


def svg_text(name: str, color: str) -> str:
    """The icon's SVG source with `currentColor` replaced. Raises FileNotFoundError for an unknown icon."""
    return resource_path("icons", f"{name}.svg").read_text(encoding="utf-8").replace("currentColor", color)


def pixmap(
    name: str, token: str = "text.2", size: int = 18, *, ratio: float = 2.0, theme: Theme | None = None
) -> QPixmap:
    """The icon `size` pixels square in the colour of `token`. `ratio` is the device pixel ratio to draw for."""
    shown = theme or current()
    key = f"slipstream/{shown.css(token)}/{name}/{size}/{ratio}"
    found = QPixmap()
    if QPixmapCache.find(key, found):
        return found
    source = QByteArray(svg_text(name, shown.css(token)).encode())
    made = _blank(size, ratio)
    painter = QPainter(made)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    QSvgRenderer(source).render(painter, QRectF(0, 0, size, size))
    painter.end()
    QPixmapCache.insert(key, made)
    return made


def icon(name: str, token: str = "text.2", size: int = 18, *, theme: Theme | None = None) -> QIcon:
    """The icon for every usual device pixel ratio; greyed to `line.control` where disabled."""
    made = QIcon()
    for ratio in _RATIOS:
        made.addPixmap(pixmap(name, token, size, ratio=ratio, theme=theme), QIcon.Mode.Normal)
        made.addPixmap(pixmap(name, "line.control", size, ratio=ratio, theme=theme), QIcon.Mode.Disabled)
    return made


def logo_pixmap(size: int = 28, *, ratio: float = 2.0, theme: Theme | None = None) -> QPixmap:
    """The mark: the draft's dot and dash run ahead of the target's two bars."""
    shown = theme or current()
    made = _blank(size, ratio)
    painter = QPainter(made)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.scale(size / 28, size / 28)
    for token, x, y, width in (
        ("accent", 8, 4, 4),
        ("accent", 15, 4, 9),
        ("target", 3, 12, 22),
        ("target", 3, 20, 15),
    ):
        painter.setBrush(shown.color(token))
        painter.drawRoundedRect(QRectF(x, y, width, 4), 2, 2)
    painter.end()
    return made


def logo_icon(theme: Theme | None = None) -> QIcon:
    """The mark in the sizes window managers ask for."""
    made = QIcon()
    for size in (16, 24, 32, 48, 64, 128, 256):
        made.addPixmap(logo_pixmap(size, ratio=1.0, theme=theme))
    return made


def _blank(size: int, ratio: float) -> QPixmap:
    made = QPixmap(round(size * ratio), round(size * ratio))
    made.setDevicePixelRatio(ratio)
    made.fill(Qt.GlobalColor.transparent)
    return made
