"""Which theme the application shows now.

It is kept on the QApplication itself, so that painters can ask without a reference being handed through every
widget, and two applications in one test run do not share it.
"""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication

from slipstream.ui.theme.tokens import DARK, LIGHT, Theme

_NAME, _CONTRAST, _MOTION = "slipstreamTheme", "slipstreamHighContrast", "slipstreamReducedMotion"


def current() -> Theme:
    """The theme shown now; light before any was applied."""
    app = QCoreApplication.instance()
    if app is None:
        return LIGHT
    theme = DARK if app.property(_NAME) == "dark" else LIGHT
    return theme.contrasted(bool(app.property(_CONTRAST)))


def reduced_motion() -> bool:
    """Whether values should jump rather than glide."""
    app = QCoreApplication.instance()
    return bool(app.property(_MOTION)) if app else False


def remember(theme: Theme, motion_reduced: bool) -> None:
    app = QCoreApplication.instance()
    if app is not None:
        app.setProperty(_NAME, theme.name)
        app.setProperty(_CONTRAST, theme.high_contrast)
        app.setProperty(_MOTION, motion_reduced)
