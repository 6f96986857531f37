"""One token module feeds style sheet and painters; each theme is one generated style sheet."""

from __future__ import annotations

from slipstream.ui.theme.fonts import font, load_fonts, px, set_text_scale, text_scale
from slipstream.ui.theme.icons import icon, logo_icon, logo_pixmap, pixmap
from slipstream.ui.theme.manager import ThemeManager, palette, set_prop
from slipstream.ui.theme.paths import resource_path
from slipstream.ui.theme.state import current, reduced_motion
from slipstream.ui.theme.stylesheet import stylesheet
from slipstream.ui.theme.tokens import DARK, LIGHT, Theme, contrast

__all__ = [
    "DARK",
    "LIGHT",
    "Theme",
    "ThemeManager",
    "contrast",
    "current",
    "font",
    "icon",
    "load_fonts",
    "logo_icon",
    "logo_pixmap",
    "palette",
    "pixmap",
    "px",
    "reduced_motion",
    "resource_path",
    "set_prop",
    "set_text_scale",
    "stylesheet",
    "text_scale",
]
