"""Tokens, fonts, icons and the manager that applies them."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFontInfo, QGuiApplication
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from slipstream.ui import theme
from slipstream.ui.theme import DARK, LIGHT, Theme, ThemeManager, contrast
from slipstream.ui.theme.fonts import ROLES
from slipstream.ui.theme.stylesheet import GLYPHS, stylesheet
from slipstream.ui.theme.tokens import TOKEN_NAMES

BACKGROUNDS = ("bg.window", "bg.canvas", "bg.raised", "bg.sunken")
UNDER_TEXT = (*BACKGROUNDS, "bg.hover", "bg.selected", "tok.tint")


@pytest.mark.parametrize("shown", [LIGHT, DARK], ids=lambda one: one.name)
@pytest.mark.parametrize("token", ["text.1", "text.2", "text.3", "accent.text", "warn.text", "bad.text"])
def test_text_is_readable_everywhere(shown: Theme, token: str) -> None:
    for under in UNDER_TEXT:
        assert contrast(shown.css(token), shown.css(under)) >= 4.45, under


@pytest.mark.parametrize("shown", [LIGHT, DARK], ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("token", "under"),
    [("on.accent", "accent"), ("accent.text", "accent.tint"), ("warn.text", "warn.tint"), ("bad.text", "bad.tint")],
)
def test_text_on_its_own_bed(shown: Theme, token: str, under: str) -> None:
    assert contrast(shown.css(token), shown.css(under)) >= 4.5


@pytest.mark.parametrize("shown", [LIGHT, DARK], ids=lambda one: one.name)
@pytest.mark.parametrize(
    "token",
    ["line.control", "accent", "target", "kv.draft", "neutral.a", "neutral.b", "warn", "bad", "focus"],
)
def test_graphics_stand_out(shown: Theme, token: str) -> None:
    for under in BACKGROUNDS:
        assert contrast(shown.css(token), shown.css(under)) >= 3.0, under


def test_draft_and_target_differ_in_lightness() -> None:
    assert contrast(LIGHT.css("accent"), LIGHT.css("target")) >= 1.8
    assert contrast(DARK.css("accent"), DARK.css("target")) >= 1.8


def test_contrast_of_black_and_white() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)


def test_unknown_token_is_refused() -> None:
    with pytest.raises(KeyError):
        LIGHT.css("bg.nowhere")


def test_color_is_fresh() -> None:
    first = LIGHT.color("accent")
    first.setAlpha(10)
    assert LIGHT.color("accent") == QColor(LIGHT.css("accent"))


def test_high_contrast_strengthens_dividers_only() -> None:
    strong = DARK.contrasted(True)
    assert strong.css("line.subtle") == DARK.css("line.control")
    assert all(strong.css(name) == DARK.css(name) for name in TOKEN_NAMES if name != "line.subtle")
    assert strong.contrasted(False) == DARK
    assert hash(strong) != hash(DARK)


@pytest.mark.parametrize("role", list(ROLES))
def test_fonts_are_the_bundled_ones(qapp: QApplication, role: str) -> None:
    theme.load_fonts()
    family, size, weight = ROLES[role]
    found = QFontInfo(theme.font(role))
    assert found.family() == family
    assert abs(found.pixelSize() - size) <= 0.5
    assert found.weight() == weight.value


def test_semibold_is_really_bolder(qapp: QApplication) -> None:
    theme.load_fonts()
    label = QLabel("Speculation")
    widths = []
    for role in ("body", "strong"):
        label.setFont(theme.font(role))
        widths.append(label.fontMetrics().horizontalAdvance(label.text()))
    assert widths[1] > widths[0]


def test_text_scale_grows_texts_and_measures(qapp: QApplication) -> None:
    try:
        theme.set_text_scale(1.5)
        assert theme.font("body").pixelSize() == 20
        assert theme.px(32) == 48
        assert f"min-height: {theme.px(30)}px" in stylesheet(LIGHT)
        theme.set_text_scale(9)
        assert theme.text_scale() == 2.0
    finally:
        theme.set_text_scale(1.0)


def test_icon_takes_the_tokens_colour(qapp: QApplication) -> None:
    image = theme.pixmap("square", "accent", 24, ratio=1.0, theme=DARK).toImage()
    strongest = max((image.pixelColor(x, y) for x in range(24) for y in range(24)), key=QColor.alpha)
    wanted = DARK.color("accent")
    assert strongest.alpha() > 200
    assert abs(strongest.red() - wanted.red()) < 8 and abs(strongest.green() - wanted.green()) < 8


def test_icon_is_sharp_on_dense_screens(qapp: QApplication) -> None:
    dense = theme.pixmap("check", "text.1", 18, ratio=2.0)
    assert (dense.width(), dense.devicePixelRatio()) == (36, 2.0)


def test_unknown_icon_is_refused(qapp: QApplication) -> None:
    with pytest.raises(FileNotFoundError):
        theme.icon("no-such-icon")


@pytest.mark.parametrize("shown", [LIGHT, DARK], ids=lambda one: one.name)
def test_style_sheet_is_complete(qapp: QApplication, shown: Theme) -> None:
    sheet = stylesheet(shown, {name: f"/somewhere/{name}.svg" for name in GLYPHS})
    assert shown.css("accent") in sheet
    assert 'url("/somewhere/down.svg")' in sheet
    for line in sheet.splitlines():  # nothing was left to fill in
        assert "{bg" not in line and "{text" not in line and "{img" not in line
    assert sheet.count("{") == sheet.count("}")


def test_preference_dresses_the_application(qapp: QApplication, qtbot: QtBot) -> None:
    manager = ThemeManager()
    before, sheet = qapp.palette(), qapp.styleSheet()
    try:
        manager.set_preference("light")
        manager.apply(qapp)
        assert theme.current() == manager.theme
        assert qapp.palette().window().color() == LIGHT.color("bg.window")
        with qtbot.waitSignal(manager.changed) as caught:
            manager.set_preference("dark")
        assert caught.args == [manager.theme]
        assert theme.current().name == "dark"
        assert qapp.palette().window().color() == DARK.color("bg.window")
        assert DARK.css("bg.window") in qapp.styleSheet()
    finally:
        manager.set_preference("system")
        qapp.setPalette(before)
        qapp.setStyleSheet(sheet)


def test_system_preference_follows_the_system(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = ThemeManager()
    hints = QGuiApplication.styleHints()
    monkeypatch.setattr(type(hints), "colorScheme", lambda _self: Qt.ColorScheme.Dark)
    hints.colorSchemeChanged.emit(Qt.ColorScheme.Dark)
    assert manager.theme.name == "dark"
    monkeypatch.setattr(type(hints), "colorScheme", lambda _self: Qt.ColorScheme.Unknown)
    hints.colorSchemeChanged.emit(Qt.ColorScheme.Unknown)
    assert manager.theme.name == "light"


def test_unknown_preference_is_refused(qapp: QApplication) -> None:
    with pytest.raises(ValueError, match="purple"):
        ThemeManager().set_preference("purple")  # type: ignore[arg-type]


def test_reduced_motion_is_told(qapp: QApplication, qtbot: QtBot) -> None:
    manager = ThemeManager()
    manager.apply(qapp)
    try:
        with qtbot.waitSignal(manager.motionChanged) as caught:
            manager.set_reduced_motion(True)
        assert caught.args == [True]
        assert theme.reduced_motion()
    finally:
        manager.set_reduced_motion(False)
    assert not theme.reduced_motion()


def test_property_change_is_seen_by_the_style_sheet(qapp: QApplication, qtbot: QtBot) -> None:
    label = QLabel("x")
    qtbot.addWidget(label)
    label.setStyleSheet('QLabel { padding: 1px; } QLabel[iconic="true"] { padding-left: 40px; }')
    label.show()
    narrow = label.sizeHint().width()
    theme.set_prop(label, "iconic", True)
    assert label.sizeHint().width() == narrow + 39


def test_resources_are_found_and_missing_ones_named() -> None:
    assert theme.resource_path("fonts", "Inter-Regular.ttf").is_file()
    assert theme.resource_path("icons", "LICENSE").is_file()
    with pytest.raises(FileNotFoundError, match="no-such"):
        theme.resource_path("fonts", "no-such.ttf")


def test_resources_of_a_frozen_application(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    import pathlib
    import sys

    home = pathlib.Path(str(tmp_path)) / "resources" / "icons"
    home.mkdir(parents=True)
    (home / "only-here.svg").write_text("<svg/>", encoding="utf-8")
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path), raising=False)
    assert theme.resource_path("icons", "only-here.svg") == home / "only-here.svg"
