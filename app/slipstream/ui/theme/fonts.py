"""Bundled fonts and the text sizes of the window."""

from __future__ import annotations

from types import MappingProxyType

from PySide6.QtGui import QFont, QFontDatabase

from slipstream.ui.theme.paths import resource_path
from slipstream.ui.theme.state import change, look

SANS, MONO = "Inter", "JetBrains Mono"
_FILES = (
    "Inter-Regular.ttf",
    "Inter-Italic.ttf",
    "Inter-Medium.ttf",
    "Inter-SemiBold.ttf",
    "JetBrainsMono-Regular.ttf",
    "JetBrainsMono-Bold.ttf",
)
_W = QFont.Weight
# role: family, size in px at 100 %, weight
ROLES = MappingProxyType(
    {
        "caption": (SANS, 11.0, _W.Normal),
        "secondary": (SANS, 12.0, _W.Normal),
        "body": (SANS, 13.0, _W.Normal),
        "strong": (SANS, 13.0, _W.DemiBold),
        "transcript": (SANS, 14.0, _W.Normal),
        "section": (SANS, 14.0, _W.DemiBold),
        "verdict": (SANS, 16.0, _W.DemiBold),
        "page": (SANS, 20.0, _W.DemiBold),
        "gauge": (SANS, 26.0, _W.DemiBold),
        "welcome": (SANS, 28.0, _W.DemiBold),
        "headline": (SANS, 40.0, _W.DemiBold),
        "code": (MONO, 12.5, _W.Normal),
        "chip": (MONO, 11.0, _W.Normal),
    }
)
_LIVE = ("gauge", "headline")  # tabular figures: live numbers only, since they spread hyphens


def text_scale() -> float:
    """How much larger than designed text is drawn, 1.0..2.0."""
    return look().text_scale


def set_text_scale(scale: float) -> None:
    change(text_scale=min(2.0, max(0.8, scale)))


def px(size: float) -> int:
    """A measure that grows with the text, in device-independent pixels."""
    return round(size * text_scale())


def load_fonts() -> None:
    """Register the bundled fonts, once per application. A missing file leaves Qt's default in its place."""
    if look().fonts_loaded:
        return
    change(fonts_loaded=True)
    for name in _FILES:
        try:
            QFontDatabase.addApplicationFont(str(resource_path("fonts", name)))
        except FileNotFoundError:
            continue  # readable in another font: never a reason not to start


def font(role: str, *, tabular: bool = False) -> QFont:
    """The font of a role, at the present text scale. `tabular` gives figures one width, for live numbers.

    Raises KeyError for an unknown role.
    """
    family, size, weight = ROLES[role]
    made = QFont(family)
    made.setStyleHint(QFont.StyleHint.Monospace if family == MONO else QFont.StyleHint.SansSerif)
    made.setPixelSize(max(1, int(size * text_scale() + 0.5)))
    made.setWeight(weight)
    if family == MONO:
        made.setFeature(QFont.Tag("calt"), 0)  # ligatures would blur where one token ends and the next begins
    elif tabular or role in _LIVE:
        made.setFeature(QFont.Tag("tnum"), 1)
    return made
