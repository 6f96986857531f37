"""Motion, painted instruments and small controls."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from slipstream.domain.rounds import Round
from slipstream.ui.theme import LIGHT, ThemeManager
from slipstream.ui.widgets import (
    Badge,
    Gauge,
    GaugeState,
    Glide,
    IconButton,
    Legend,
    Motion,
    Pacer,
    RoundsTape,
    Segment,
    Segmented,
    Sparkline,
    StackedBar,
    Switch,
    Tone,
)
from slipstream.ui.widgets.bars import LEAST, widths
from slipstream.ui.widgets.gauge import angle


class Clock:
    """A clock the test turns."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def dressed(qapp: QApplication) -> None:
    manager = ThemeManager(qapp)
    manager.set_preference("light")
    manager.apply(qapp)


@pytest.fixture
def host(dressed: None, qtbot: QtBot) -> QWidget:
    """A shown window, in the light theme."""
    made = QWidget()
    made.resize(400, 200)
    qtbot.addWidget(made)
    made.show()
    return made


def near(color: QColor, token: str) -> bool:
    wanted = LIGHT.color(token)
    return all(abs(a - b) <= 12 for a, b in zip(color.getRgb()[:3], wanted.getRgb()[:3], strict=True))


def count(image: QImage, token: str) -> int:
    return sum(near(image.pixelColor(x, y), token) for x in range(image.width()) for y in range(image.height()))


# ---------------------------------------------------------------- motion


def test_timer_runs_only_while_something_moves(host: QWidget, clock: Clock) -> None:
    motion = Motion(host, clock)
    glide = Glide(motion, host)
    assert not motion.running
    glide.set(10.0)
    assert motion.running
    clock.now += 0.1
    motion.step()
    assert 0 < glide.value < 10 and motion.running
    clock.now += 0.2
    motion.step()
    assert glide.value == 10 and not motion.running


def test_hidden_value_jumps_without_a_timer(host: QWidget, clock: Clock) -> None:
    motion = Motion(host, clock)
    glide = Glide(motion, host)
    host.hide()
    glide.set(5.0)
    assert glide.value == 5 and not motion.running


def test_value_hidden_on_the_way_arrives_at_once(host: QWidget, clock: Clock) -> None:
    motion = Motion(host, clock)
    glide = Glide(motion, host)
    glide.set(5.0)
    host.hide()
    motion.step()
    assert glide.value == 5 and not motion.running


def test_reduced_motion_jumps(qapp: QApplication, host: QWidget, clock: Clock) -> None:
    manager = ThemeManager(qapp)
    manager.set_preference("light")
    manager.apply(qapp)
    manager.set_reduced_motion(True)
    try:
        motion = Motion(host, clock)
        glide = Glide(motion, host)
        glide.set(5.0)
        motion.step()
        assert glide.value == 5 and not motion.running
    finally:
        manager.set_reduced_motion(False)


def test_a_new_aim_never_steps_back(host: QWidget, clock: Clock) -> None:
    motion = Motion(host, clock)
    glide, seen = Glide(motion, host), [0.0]
    for aim in range(1, 30):
        glide.set(float(aim))
        clock.now += 0.033
        motion.step()
        seen.append(glide.value)
    assert seen == sorted(seen) and seen[-1] > 20


def test_pacer_holds_back_and_never_forgets(host: QWidget, clock: Clock, qtbot: QtBot) -> None:
    calls: list[float] = []
    pacer = Pacer(0.05, lambda: calls.append(clock.now), host, clock)
    pacer.poke()
    pacer.poke()
    pacer.poke()
    assert len(calls) == 1 and pacer.waiting
    qtbot.waitUntil(lambda: len(calls) == 2)
    assert not pacer.waiting
    clock.now += 1
    pacer.poke()
    assert len(calls) == 3 and not pacer.waiting


# ---------------------------------------------------------------- gauge


@pytest.mark.parametrize(("value", "degrees"), [(0, 225), (40, 90), (80, -45), (-5, 225), (999, -45)])
def test_gauge_angle(value: float, degrees: float) -> None:
    assert angle(value, 80) == degrees


def gauge(host: QWidget, state: GaugeState) -> QImage:
    made = Gauge(Motion(host), host)
    made.resize(144, 144)
    made.show_state(state, "Speed, some", "words")
    made.grab()  # a first value needs no glide: it is drawn where it belongs
    return made.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)


def test_gauge_splits_target_and_draft(host: QWidget) -> None:
    image = gauge(host, GaugeState(60, 80, 30, Tone.SPLIT, "60", "", "tokens/s"))
    assert count(image, "target") > 200 and count(image, "accent") > 200 and count(image, "warn") == 0


def test_gauge_slower_than_plain_is_one_amber_arc(host: QWidget) -> None:
    image = gauge(host, GaugeState(24, 80, 30, Tone.WARN, "24"))
    assert count(image, "warn") > 200 and count(image, "accent") == 0 and count(image, "target") == 0


def test_idle_gauge_has_a_track_only(host: QWidget) -> None:
    image = gauge(host, GaugeState())
    assert count(image, "track") > 500 and count(image, "accent") == 0 and count(image, "warn") == 0


def test_gauge_is_focusable_and_has_words(host: QWidget) -> None:
    made = Gauge(Motion(host), host)
    made.show_state(GaugeState(3, 20, None, Tone.ACCENT, "3"), "Speed, 3 tokens per second", "What it means")
    assert made.focusPolicy() & Qt.FocusPolicy.TabFocus
    assert made.accessibleName() == "Speed, 3 tokens per second"
    assert made.accessibleDescription() == "What it means"


def test_gauge_glides_within_a_scale_and_jumps_across(host: QWidget, clock: Clock) -> None:
    motion = Motion(host, clock)
    made = Gauge(motion, host)
    made.show()
    made.show_state(GaugeState(10, 20, tone=Tone.ACCENT), "a")
    motion.step()
    made.show_state(GaugeState(30, 40, tone=Tone.ACCENT), "b")
    assert made.shown_value == 30
    made.show_state(GaugeState(35, 40, tone=Tone.ACCENT), "c")
    assert made.shown_value == 30 and motion.running


# ---------------------------------------------------------------- tape, sparkline, bars


def done(verified: int, accepted: int) -> Round:
    return Round(1, "model", verified, verified, accepted, accepted + 1)


def test_tape_keeps_the_last_rounds(host: QWidget) -> None:
    tape = RoundsTape(host)
    tape.add([done(4, i % 5) for i in range(40)])
    assert len(tape.columns) == 31
    assert tape.columns[-1] == (39 % 5, 4 - 39 % 5)


@pytest.mark.parametrize("length", [0, 1, 16])
def test_tape_draws_any_length(host: QWidget, length: int) -> None:
    tape = RoundsTape(host)
    tape.resize(tape.sizeHint())
    tape.add([done(length, length)] * 31)
    image = tape.grab().toImage()
    assert count(image, "target") > 0
    assert (count(image, "accent") > 0) == (length > 0)


def test_sparkline_spaces_points_and_lifts_the_pen(host: QWidget) -> None:
    line = Sparkline(host)
    assert line.add(0.0, 10, None)
    assert not line.add(0.5, 11, None)
    assert line.add(0.75, 12, 5.0)
    line.pause(1.0)
    line.pause(1.1)
    assert line.add(1.2, 9, 5.0)
    assert [rate for _, rate in line.points] == [10, 12, None, 9]
    line.add(61.0, 8, 5.0)
    assert [rate for _, rate in line.points] == [None, 9, 8]
    line.resize(304, 48)
    assert count(line.grab().toImage(), "accent") > 0
    line.clear()
    assert line.points == ()


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=8), st.floats(50, 400))
def test_bar_widths_fill_the_room(values: list[float], room: float) -> None:
    made = widths(values, sum(values), room)
    if sum(values) <= 0:
        assert made == [0.0] * len(values)
        return
    assert sum(made) == pytest.approx(room, abs=0.01)
    assert all(width >= LEAST - 0.001 for width, value in zip(made, values, strict=True) if value > 0)


def parts() -> list[Segment]:
    return [
        Segment("target weights", 6, "6.00 GiB", "target"),
        Segment("nothing", 0, "0", "bad"),
        Segment("draft weights", 2, "2.00 GiB", "accent", round_key=True),
    ]


@pytest.mark.qt_log_ignore("does not support raise")  # the offscreen platform, of a tooltip
def test_bar_reads_its_segments_with_the_arrow_keys(host: QWidget, qtbot: QtBot) -> None:
    bar = StackedBar(parent=host)
    bar.resize(304, 16)
    bar.show_segments("Memory", parts())
    assert bar.accessibleName() == "Memory: target weights 6.00 GiB, draft weights 2.00 GiB"
    for key, told in ((Qt.Key.Key_Right, "target"), (Qt.Key.Key_Right, "draft"), (Qt.Key.Key_Left, "target")):
        qtbot.keyClick(bar, key)
        assert bar.accessibleDescription().startswith(told)


def test_bar_marks_what_goes_past_the_capacity(host: QWidget) -> None:
    bar = StackedBar(28, host)
    bar.resize(304, 34)
    bar.show_segments("Memory", parts(), capacity=20)
    assert count(bar.grab().toImage(), "bad") == 0
    bar.show_segments("Memory", parts(), capacity=7.6)
    assert count(bar.grab().toImage(), "bad") > 0


def test_legend_grows_with_its_keys(host: QWidget) -> None:
    legend = Legend(2, host)
    legend.show_segments(parts()[:2])
    low = legend.sizeHint().height()
    legend.show_segments(parts())
    assert legend.sizeHint().height() > low


# ---------------------------------------------------------------- controls


def test_segmented_tells_what_the_user_chose_only(host: QWidget, qtbot: QtBot) -> None:
    row = Segmented((("a", "A", "first"), ("b", "B", "second"), ("c", "C", "third")), host)
    picked: list[str] = []
    row.picked.connect(picked.append)
    row.choose("b")
    assert (row.key, picked) == ("b", [])
    qtbot.mouseClick(row.button("c"), Qt.MouseButton.LeftButton)
    assert (row.key, picked) == ("c", ["c"])
    with pytest.raises(ValueError):
        row.choose("z")


def test_badge_without_words_is_hidden(host: QWidget) -> None:
    badge = Badge(parent=host)
    assert badge.isHidden()
    badge.show_text("1.85×", "good")
    assert not badge.isHidden() and badge.text() == "1.85×"
    plain = badge.sizeHint().width()
    badge.show_text("1.85×", "warn", "triangle-alert")
    assert badge.sizeHint().width() > plain
    badge.show_text("")
    assert badge.isHidden()


def test_switch_flips_by_mouse_and_key(host: QWidget, qtbot: QtBot) -> None:
    switch = Switch("Show drafted tokens", host)
    switch.resize(switch.sizeHint())
    switch.show()
    qtbot.mouseClick(switch, Qt.MouseButton.LeftButton, pos=QPoint(4, 8))
    assert switch.isChecked()
    qtbot.keyClick(switch, Qt.Key.Key_Space)
    assert not switch.isChecked()


def test_icon_button_has_a_name(host: QWidget) -> None:
    made = IconButton("settings", "Settings", parent=host)
    assert (made.accessibleName(), made.toolTip()) == ("Settings", "Settings")
    assert not made.icon().isNull()


Maker = Callable[[QWidget], QWidget]


@pytest.mark.parametrize(
    "make",
    [
        lambda host: Gauge(Motion(host), host),
        lambda host: RoundsTape(host),
        lambda host: Sparkline(host),
        lambda host: StackedBar(10, host),
    ],
    ids=["gauge", "tape", "sparkline", "bar"],
)
def test_every_instrument_shows_keyboard_focus(host: QWidget, make: Maker, qtbot: QtBot) -> None:
    made = make(host)
    made.resize(made.sizeHint())
    made.show()
    host.activateWindow()
    made.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.waitUntil(made.hasFocus)
    assert count(made.grab().toImage(), "focus") > 20
