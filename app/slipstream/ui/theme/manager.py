"""The theme as a whole: follows the system or the user's choice and dresses the application."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt, QTemporaryDir, Signal
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication, QStyleFactory, QWidget

from slipstream.ui.theme import fonts, state
from slipstream.ui.theme.icons import svg_text
from slipstream.ui.theme.stylesheet import GLYPHS, stylesheet
from slipstream.ui.theme.tokens import DARK, LIGHT, Theme

Preference = Literal["system", "light", "dark"]


class ThemeManager(QObject):
    """Owns which theme is shown. `changed(Theme)` comes after the application has been dressed anew;
    `motionChanged(bool)` when motion becomes reduced or full again."""

    changed = Signal(object)
    motionChanged = Signal(bool)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._preference: Preference = "system"
        self._reduce_motion = False
        self._app: QApplication | None = None
        self._glyphs = QTemporaryDir()
        hints = QGuiApplication.styleHints()
        if hints is not None:
            hints.colorSchemeChanged.connect(self._refresh)
            self._hints: Any = hints  # keeps the wrapper, and so the accessibility hints it hands out, alive
            access = hints.accessibility() if hasattr(hints, "accessibility") else None  # Qt 6.10
            for name in ("contrastPreferenceChanged", "motionPreferenceChanged"):
                signal = getattr(access, name, None)
                if signal is not None:
                    signal.connect(self._refresh)
        self._theme = self._wanted()

    @property
    def theme(self) -> Theme:
        return self._theme

    @property
    def preference(self) -> Preference:
        return self._preference

    @property
    def reduced_motion(self) -> bool:
        """The system's wish or the user's own setting."""
        return self._reduce_motion or _says("motionPreference", "ReducedMotion")

    def set_preference(self, preference: Preference) -> None:
        """Raises ValueError for anything but "system", "light" and "dark"."""
        if preference not in ("system", "light", "dark"):
            raise ValueError(f"unknown theme preference: {preference!r}")
        self._preference = preference
        hints = QGuiApplication.styleHints()
        if hints is not None and hasattr(hints, "setColorScheme"):  # also darkens the system's title bar
            scheme = Qt.ColorScheme
            hints.setColorScheme({"system": scheme.Unknown, "light": scheme.Light, "dark": scheme.Dark}[preference])
        self._refresh()

    def set_reduced_motion(self, on: bool) -> None:
        """The user's own setting; a system that asks for reduced motion always gets it."""
        self._reduce_motion = on
        self._refresh()

    def set_text_scale(self, scale: float) -> None:
        """Text size relative to the design, 0.8..2.0."""
        fonts.set_text_scale(scale)
        if self._app is not None:
            self.apply(self._app)
            self.changed.emit(self._theme)

    def apply(self, app: QApplication) -> None:
        """Dress the application: style, font, palette, style sheet. The font comes first, since a style sheet
        freezes the fonts it finds."""
        self._app = app
        self._theme = self._wanted()
        state.change(theme=self._theme, reduced_motion=self.reduced_motion)
        fonts.load_fonts()
        if app.style().objectName() != "fusion" and not app.styleSheet():
            app.setStyle(QStyleFactory.create("Fusion"))
        app.setFont(fonts.font("body"))
        app.setPalette(palette(self._theme))
        app.setStyleSheet(stylesheet(self._theme, self._write_glyphs()))

    def _wanted(self) -> Theme:
        chosen = self._preference
        if chosen == "system":
            hints = QGuiApplication.styleHints()
            dark = hints is not None and hints.colorScheme() == Qt.ColorScheme.Dark
            chosen = "dark" if dark else "light"
        return (DARK if chosen == "dark" else LIGHT).contrasted(_says("contrastPreference", "HighContrast"))

    def _refresh(self, *_: object) -> None:
        wanted = self._wanted()
        motion_before = state.reduced_motion()
        if wanted != self._theme:
            self._theme = wanted
            if self._app is not None:
                self.apply(self._app)
            self.changed.emit(wanted)
        if self.reduced_motion != motion_before:
            state.change(theme=self._theme, reduced_motion=self.reduced_motion)
            self.motionChanged.emit(self.reduced_motion)

    def _write_glyphs(self) -> dict[str, str]:
        """Coloured copies of the icons the style sheet needs: it takes them only as files. Empty where no
        temporary folder can be written: Qt then draws its own arrows."""
        written: dict[str, str] = {}
        if not self._glyphs.isValid():
            return written
        for key, (name, token) in GLYPHS.items():
            css = self._theme.css(token)
            path = Path(self._glyphs.path()) / f"{key}-{css[1:]}.svg"
            try:
                if not path.exists():
                    path.write_text(svg_text(name, css), encoding="utf-8")
            except OSError:
                continue
            written[key] = path.as_posix()
        return written


def palette(theme: Theme) -> QPalette:
    """The palette for what no style sheet reaches: placeholders, links, selections, native parts."""
    made = QPalette()
    role = QPalette.ColorRole
    for part, token in (
        (role.Window, "bg.window"),
        (role.WindowText, "text.1"),
        (role.Base, "bg.raised"),
        (role.AlternateBase, "bg.sunken"),
        (role.Text, "text.1"),
        (role.PlaceholderText, "text.3"),
        (role.Button, "bg.raised"),
        (role.ButtonText, "text.1"),
        (role.BrightText, "bad.text"),
        (role.ToolTipBase, "bg.raised"),
        (role.ToolTipText, "text.1"),
        (role.Highlight, "accent"),
        (role.HighlightedText, "on.accent"),
        (role.Link, "accent.text"),
        (role.LinkVisited, "accent.text"),
        (role.Light, "bg.hover"),
        (role.Midlight, "line.subtle"),
        (role.Mid, "line.control"),
        (role.Dark, "line.control"),
        (role.Shadow, "line.subtle"),
        (role.Accent, "accent"),
    ):
        made.setColor(part, theme.color(token))
    disabled = QColor(theme.css("text.3"))
    for part in (role.WindowText, role.Text, role.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, part, disabled)
    return made


def set_prop(widget: QWidget, name: str, value: object) -> None:
    """Set a dynamic property the style sheet looks at, and have the widget look again."""
    if widget.property(name) == value:
        return
    widget.setProperty(name, value)
    style = widget.style()
    style.unpolish(widget)
    style.polish(widget)
    QCoreApplication.sendEvent(widget, QEvent(QEvent.Type.StyleChange))  # frames and labels keep their old padding else
    widget.updateGeometry()
    widget.update()


def _says(question: str, answer: str) -> bool:
    """Whether the system's accessibility hint `question` reads `answer`; False where this Qt has no such hint."""
    # Both objects stay in local names: PySide invalidates the second as soon as the wrapper of the first goes.
    hints: Any = QGuiApplication.styleHints()
    access = hints.accessibility() if hasattr(hints, "accessibility") else None  # Qt 6.10
    getter = getattr(access, question, None)
    return getter is not None and getattr(getter(), "name", "") == answer
