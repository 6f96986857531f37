"""Which theme the application shows now.

It is kept on the QApplication object, so that painters can ask without a reference being handed through every
widget, and two applications in one test run do not share it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from PySide6.QtCore import QCoreApplication

from slipstream.ui.theme.tokens import LIGHT, Theme

_ATTRIBUTE = "slipstream_look"


@dataclass(frozen=True)
class Look:
    """How the application is dressed: its theme, motion, text size and whether its fonts are registered."""

    theme: Theme = LIGHT
    reduced_motion: bool = False
    text_scale: float = 1.0
    fonts_loaded: bool = False


def look() -> Look:
    """The present look; the plain one before any was applied."""
    found = getattr(QCoreApplication.instance(), _ATTRIBUTE, None)
    return found if isinstance(found, Look) else Look()


def change(**changes: object) -> None:
    """Change parts of the look. Does nothing without an application."""
    app = QCoreApplication.instance()
    if app is not None:
        setattr(app, _ATTRIBUTE, replace(look(), **changes))  # type: ignore[arg-type]


def current() -> Theme:
    """The theme shown now; light before any was applied."""
    return look().theme


def reduced_motion() -> bool:
    """Whether values should jump rather than glide."""
    return look().reduced_motion
