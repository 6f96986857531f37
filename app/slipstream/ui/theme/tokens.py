"""Design tokens: every colour, radius and text size the window uses, for the light and the dark theme.

Style sheets and painters both read from here. `tests/ui/test_theme.py` checks the contrast of each pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from PySide6.QtGui import QColor

_TOKENS: tuple[tuple[str, str, str], ...] = (
    ("bg.window", "#F3F5F5", "#0F1415"),
    ("bg.canvas", "#FFFFFF", "#14191B"),
    ("bg.raised", "#FFFFFF", "#1A2123"),
    ("bg.sunken", "#F0F3F3", "#1B2224"),
    ("track", "#E1E7E7", "#2A3437"),
    ("bg.hover", "#E9EEEE", "#1F272A"),
    ("bg.selected", "#E0E9E8", "#203030"),
    ("line.subtle", "#E0E6E6", "#252E31"),
    ("line.control", "#7C888D", "#6B7B80"),
    ("text.1", "#11181A", "#E7EDED"),
    ("text.2", "#435055", "#B0BCBF"),
    ("text.3", "#5C696E", "#94A2A7"),
    ("accent", "#0B7A74", "#3BC7B8"),
    ("accent.hover", "#096A65", "#57D6C8"),
    ("accent.press", "#075954", "#2DAA9D"),
    ("accent.text", "#08645F", "#63D9CC"),
    ("accent.tint", "#DDF2EF", "#12302E"),
    ("on.accent", "#FFFFFF", "#04201D"),
    ("tok.tint", "#DAF2EE", "#153431"),
    ("target", "#34445B", "#71859E"),
    ("kv.target", "#8090A6", "#4C5C72"),
    ("kv.draft", "#35918A", "#2A8C82"),
    ("neutral.a", "#75838A", "#A9B5BA"),
    ("neutral.b", "#7D898F", "#66747A"),
    ("warn.text", "#7A4D00", "#F1BD58"),
    ("warn", "#B26F00", "#D99A2B"),
    ("warn.tint", "#FFF1D2", "#30260F"),
    ("bad.text", "#A3211A", "#FF9A90"),
    ("bad", "#C93A31", "#EE6A5F"),
    ("bad.tint", "#FDE8E5", "#3A1B18"),
    ("focus", "#0B7A74", "#63D9CC"),
    ("code.keyword", "#34445B", "#AFC0D6"),
    ("code.string", "#08645F", "#63D9CC"),
    ("code.number", "#7A4D00", "#F1BD58"),
    ("code.comment", "#5C696E", "#94A2A7"),
)

RADIUS_CHIP, RADIUS_CONTROL, RADIUS_CARD, RADIUS_COMPOSER = 4, 6, 8, 12
SPACE: tuple[int, ...] = (4, 8, 12, 16, 24, 32, 48)


@dataclass(frozen=True)
class Theme:
    """One theme. `name` is "light" or "dark"; `high_contrast` draws dividers as strongly as control edges."""

    name: str
    colors: Mapping[str, str] = field(hash=False, repr=False)
    high_contrast: bool = False

    def css(self, token: str) -> str:
        """The token's colour as "#RRGGBB". Raises KeyError for a name that is not a token."""
        if self.high_contrast and token == "line.subtle":
            token = "line.control"
        return self.colors[token]

    def color(self, token: str) -> QColor:
        """The token's colour, ready for a painter (a fresh object each time)."""
        return QColor(self.css(token))

    @property
    def dark(self) -> bool:
        return self.name == "dark"

    def contrasted(self, on: bool) -> Theme:
        """The same theme with or without high contrast."""
        return self if on == self.high_contrast else replace(self, high_contrast=on)


LIGHT = Theme("light", MappingProxyType({name: light for name, light, _ in _TOKENS}))
DARK = Theme("dark", MappingProxyType({name: dark for name, _, dark in _TOKENS}))
TOKEN_NAMES: tuple[str, ...] = tuple(name for name, _, _ in _TOKENS)


def luminance(color: str) -> float:
    """Relative luminance of "#RRGGBB", 0..1 (WCAG 2.2)."""

    def linear(value: int) -> float:
        part = value / 255
        return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)

    red, green, blue = (linear(int(color[i : i + 2], 16)) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, 1..21 (WCAG 2.2)."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
