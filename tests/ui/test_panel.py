"""The Slipstream panel: the real widget, fed with the engine's own events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QFileDialog, QMenu, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from slipstream.domain.errors import ErrorInfo
from slipstream.domain.protocol import (
    DeviceInfo,
    FinishReason,
    Loaded,
    LoadProgress,
    ModelInfo,
    RoundDone,
)
from slipstream.domain.rounds import Round, Totals
from slipstream.domain.sampling import Sampling
from slipstream.domain.speculation import Mode, Speculation
from slipstream.ui.panel import Choice, Kind, PairState, PairView, SlipstreamPanel
from slipstream.ui.panel.details import memory_parts, time_parts
from slipstream.ui.theme import ThemeManager
from slipstream.ui.widgets import Pacer, Tone

GIB = 2**30
TARGET = ModelInfo("/models/large-Q4_K_M.gguf", "Large", "llama", "", 14_000, 8 * GIB, 40, 1000, 4096)
DRAFT = ModelInfo("/models/small-Q8_0.gguf", "Small", "llama", "", 560, GIB, 28, 1000, 4096)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def dressed(qapp: QApplication) -> None:
    manager = ThemeManager(qapp)
    manager.set_preference("dark")
    manager.apply(qapp)


@pytest.fixture
def panel(dressed: None, qtbot: QtBot, clock: Clock) -> Iterator[SlipstreamPanel]:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(400, 900)
    made = SlipstreamPanel(parent=window, clock=clock)
    made.resize(336, 820)
    window.show()
    yield made
    window.close()


def loaded(draft: ModelInfo | None = DRAFT, drafters: tuple[str, ...] = ("model",), **changes: object) -> Loaded:
    made = Loaded(
        load_id=1,
        target=TARGET,
        draft=draft,
        n_ctx=4096,
        threads=2,
        drafters=drafters,
        devices=(DeviceInfo("cpu", "", "cpu", 4 * GIB, 16 * GIB),),
        memory_bytes={"target weights": 8 * GIB, "target KV": GIB, "draft weights": GIB, "compute": GIB // 2},
        sampling=Sampling(),
        load_s=1.0,
        has_thinking=False,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def reply(
    panel: SlipstreamPanel,
    clock: Clock,
    *,
    rounds: int = 30,
    verified: int = 4,
    accepted: int = 3,
    round_s: float = 0.1,
    plain_s: float = 0.05,
    state: str = "auto",
    break_even: float = 0.3,
) -> Totals:
    """A reply, begun and fed round by round; its totals."""
    panel.begin_reply()
    totals, at_s = Totals(tokens=1, first_tokens=1), 0.0
    for number in range(rounds):
        at_s += round_s
        clock.now += round_s
        done = Round(
            number,
            "model" if verified else "",
            verified,
            verified,
            accepted,
            accepted + 1,
            draft_s=0.02,
            verify_s=0.07,
            sample_s=0.006,
            python_s=0.004,
            at_s=at_s,
            plain_s=plain_s,
            break_even=break_even,
            state=state,
        )
        totals = totals.add(done)
        panel.add_rounds([RoundDone(7, done, totals)])
    return totals


def settle(panel: SlipstreamPanel, kind: Kind) -> None:
    """Spare the test the 2 s that a verdict stands."""
    for pacer in panel.verdict.findChildren(Pacer):
        pacer.flush()
    assert panel.verdict.verdict.kind is kind


# ---------------------------------------------------------------- the pair


def test_empty_panel_asks_for_a_target(panel: SlipstreamPanel) -> None:
    assert panel.verdict.verdict.kind is Kind.EMPTY
    assert "Choose a target" in panel.pair.target_row.accessibleName()
    assert panel.gauges.speed.state.tone is Tone.IDLE


def test_loading_fills_and_can_be_cancelled(panel: SlipstreamPanel, qtbot: QtBot) -> None:
    panel.set_pair(PairView(Choice(TARGET.path), Choice(DRAFT.path), PairState.CHECKING))
    assert panel.pair.words.startswith("Checking")
    panel.load_progress(LoadProgress(1, "target", 0.4))
    panel.load_progress(LoadProgress(1, "draft", 0.2))  # a stage that starts anew never moves the line back
    assert panel.pair.view.fraction == 0.4
    assert "draft, 40 %" in panel.pair.words
    button = next(one for one in panel.pair.findChildren(QPushButton) if one.text() == "Cancel")
    with qtbot.waitSignal(panel.cancelLoadRequested):
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def test_loaded_pair_is_named_and_compared(panel: SlipstreamPanel) -> None:
    panel.set_loaded(loaded())
    assert panel.pair.view.state is PairState.COMPATIBLE
    assert "25× smaller" in panel.pair.words
    assert "8.00 GiB" in panel.pair.target_row.accessibleName()
    assert panel.verdict.verdict.kind is Kind.READY
    assert panel.details.memory_bar.accessibleName().startswith("Memory: target weights 8.00 GiB")


def test_target_alone_is_not_active(panel: SlipstreamPanel) -> None:
    panel.set_loaded(loaded(None, ()))
    assert panel.verdict.verdict.kind is Kind.INACTIVE
    assert "No draft is loaded" in panel.verdict.verdict.numbers


def test_ngram_alone_is_active(panel: SlipstreamPanel) -> None:
    panel.set_loaded(loaded(None, ("ngram",)))
    assert panel.verdict.verdict.kind is Kind.READY
    assert "text itself" in panel.pair.draft_row.accessibleName()


def test_draft_left_out_by_the_engine_is_explained(panel: SlipstreamPanel, qtbot: QtBot) -> None:
    panel.set_pair(PairView(Choice(TARGET.path), Choice(DRAFT.path), PairState.CHECKING))
    panel.set_loaded(loaded(None, (), notices=("Token 5 differs.",)))
    assert panel.pair.view.state is PairState.MISMATCH
    assert panel.verdict.verdict.numbers == "Token 5 differs."
    assert panel.pair.view.loaded


def test_mismatch_says_why_and_offers_to_go_on(panel: SlipstreamPanel, qtbot: QtBot) -> None:
    panel.set_pair(PairView(Choice(TARGET.path), Choice(DRAFT.path), PairState.CHECKING))
    panel.load_refused(ErrorInfo("PairMismatch", "It knows other tokens.", "Pick another draft."))
    assert panel.pair.view.state is PairState.MISMATCH
    assert panel.verdict.verdict.kind is Kind.TROUBLE
    assert "It knows other tokens" in panel.verdict.verdict.numbers
    button = next(one for one in panel.verdict.findChildren(QPushButton) if one.text() == "Run without a draft")
    with qtbot.waitSignal(panel.draftPicked) as caught:
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert caught.args == [""]


def test_failed_load_keeps_what_was_chosen(panel: SlipstreamPanel) -> None:
    panel.load_progress(LoadProgress(1, "target", 0.1))
    panel.set_pair(PairView(Choice(TARGET.path), None, PairState.LOADING))
    panel.load_refused(ErrorInfo("OutOfMemory", "Not enough memory.", "Close other programs."))
    assert panel.pair.view.state is PairState.FAILED
    assert panel.pair.view.target is not None
    assert (panel.verdict.verdict.sentence, panel.verdict.verdict.numbers) == (
        "Not enough memory.",
        "Close other programs.",
    )
    panel.set_loaded(loaded())
    assert panel.verdict.verdict.kind is Kind.READY


def test_cancelled_load_is_no_trouble(panel: SlipstreamPanel) -> None:
    panel.load_progress(LoadProgress(1, "target", 0.1))
    panel.load_refused(ErrorInfo("Cancelled", "Stopped."))
    assert panel.pair.view.state is PairState.NONE
    assert panel.verdict.verdict.kind is Kind.EMPTY


def entries(menu: QMenu) -> dict[str, QAction]:
    return {action.text().split("\t")[0]: action for action in menu.actions() if not action.isSeparator()}


def test_menus_offer_models_files_and_none(panel: SlipstreamPanel, qtbot: QtBot) -> None:
    panel.set_models([(TARGET.path, "Large & slow", 8_000_000_000), (DRAFT.path, "Small", 640_000_000)])
    panel.set_loaded(loaded())
    target, draft = panel.pair.target_menu(), panel.pair.draft_menu()
    assert list(entries(target)) == ["Large && slow", "Small", "Open a file…", "Unload"]
    assert list(entries(draft)) == ["No draft", "Large && slow", "Small", "Open a file…"]
    assert entries(target)["Large && slow"].isChecked() and entries(draft)["Small"].isChecked()
    with qtbot.waitSignal(panel.targetPicked) as caught:
        entries(target)["Small"].trigger()
    assert caught.args == [DRAFT.path]
    with qtbot.waitSignal(panel.draftPicked) as caught:
        entries(draft)["No draft"].trigger()
    assert caught.args == [""]
    with qtbot.waitSignal(panel.unloadRequested):
        entries(target)["Unload"].trigger()


def test_a_file_of_the_users_own_can_be_opened(panel: SlipstreamPanel, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[QFileDialog] = []
    monkeypatch.setattr(QFileDialog, "open", lambda self: shown.append(self))
    picked: list[str] = []
    panel.draftPicked.connect(picked.append)
    entries(panel.pair.draft_menu())["Open a file…"].trigger()
    shown[0].fileSelected.emit("/elsewhere/tiny.gguf")
    assert picked == ["/elsewhere/tiny.gguf"]


# ---------------------------------------------------------------- speculation


def test_modes_and_length_are_told(panel: SlipstreamPanel, qtbot: QtBot) -> None:
    told: list[Speculation] = []
    panel.speculationChanged.connect(told.append)
    panel.set_speculation(Speculation(Mode.AUTO, 6, 0.25, ("model",)))
    assert told == [] and panel.length_row.isHidden()
    qtbot.mouseClick(panel.mode.button("on"), Qt.MouseButton.LeftButton)
    assert told == [Speculation(Mode.ON, 6, 0.25, ("model",))]
    assert not panel.length_row.isHidden()
    panel.length.setValue(9)
    assert told[-1].length == 9
    qtbot.mouseClick(panel.mode.button("off"), Qt.MouseButton.LeftButton)
    assert told[-1].mode is Mode.OFF and panel.length_row.isHidden()


def test_off_is_said(panel: SlipstreamPanel, qtbot: QtBot) -> None:
    panel.set_loaded(loaded())
    panel.set_speculation(Speculation(Mode.OFF))
    settle(panel, Kind.OFF)


# ---------------------------------------------------------------- replies


def test_reply_that_gains(panel: SlipstreamPanel, clock: Clock, qtbot: QtBot) -> None:
    panel.set_loaded(loaded())
    totals = reply(panel, clock)  # 4 tokens in 0.1 s, plain 20 a second
    speed, acceptance = panel.gauges.speed.state, panel.gauges.acceptance.state
    assert speed.tone is Tone.SPLIT
    assert (speed.value, speed.reference) == (pytest.approx(40), pytest.approx(20))
    assert speed.maximum == 80
    assert panel.gauges.badge.text() == "2.00×"
    assert panel.gauges.speed.accessibleName() == "Speed, 40.0 tokens per second, 2.00 times plain"
    assert (acceptance.value, acceptance.reference, acceptance.number) == (75, pytest.approx(30), "75")
    panel.end_reply(totals, FinishReason.END)
    settle(panel, Kind.SAVES)
    assert "saves 50 %" in panel.verdict.verdict.sentence
    assert panel.details.tape.columns == ((3, 1),) * 30
    assert [part.value for part in panel.details.time_bar.segments] == pytest.approx([0.02, 0.07, 0.006, 0.004])


def test_live_speed_is_of_the_last_seconds_and_then_of_the_whole(panel: SlipstreamPanel, clock: Clock) -> None:
    panel.set_loaded(loaded())
    panel.begin_reply()
    totals, at_s = Totals(tokens=1, first_tokens=1), 0.0
    for number in range(100):  # 5 s at 10 a second, then 5 s at 40
        at_s += 0.1
        clock.now += 0.1
        extra = 0 if number < 50 else 3
        done = Round(number, "model", 4, 4, extra, extra + 1, at_s=at_s, plain_s=0.1)
        totals = totals.add(done)
        panel.add_rounds([RoundDone(1, done, totals)])
    clock.now += 1
    panel.add_rounds([RoundDone(1, replace(done, yielded=0, accepted=0, at_s=at_s), totals)])
    assert panel.gauges.speed.state.value == pytest.approx(40)
    panel.end_reply(totals, FinishReason.END)
    assert panel.gauges.speed.state.value == pytest.approx(25)


def test_texts_change_at_most_four_times_a_second(panel: SlipstreamPanel, clock: Clock) -> None:
    panel.set_loaded(loaded())
    numbers = []
    panel.begin_reply()
    totals = Totals(tokens=1, first_tokens=1)
    for number in range(30):  # one second of batches
        clock.now += 1 / 30
        done = Round(number, "model", 4, 4, number % 5, number % 5 + 1, at_s=(number + 1) / 30)
        totals = totals.add(done)
        panel.add_rounds([RoundDone(1, done, totals)])
        numbers.append(panel.gauges.speed.state.number)
    changes = sum(a != b for a, b in pairwise(numbers))
    assert 1 <= changes <= 4


def test_few_guesses_give_no_acceptance(panel: SlipstreamPanel, clock: Clock, qtbot: QtBot) -> None:
    panel.set_loaded(loaded())
    totals = reply(panel, clock, rounds=4)
    panel.end_reply(totals, FinishReason.END)
    assert panel.gauges.acceptance.state.value is None
    settle(panel, Kind.MEASURING)


def test_paused_reply_is_slate(panel: SlipstreamPanel, clock: Clock, qtbot: QtBot) -> None:
    panel.set_loaded(loaded())
    panel.end_reply(reply(panel, clock, accepted=0, round_s=0.05, state="paused"), FinishReason.END)
    assert panel.gauges.speed.state.tone is Tone.TARGET
    assert panel.gauges.badge.text() == "paused"
    settle(panel, Kind.PAUSED)


def test_slower_reply_is_amber(panel: SlipstreamPanel, clock: Clock, qtbot: QtBot) -> None:
    panel.set_loaded(loaded())
    panel.end_reply(reply(panel, clock, accepted=0, round_s=0.1), FinishReason.END)
    assert panel.gauges.speed.state.tone is Tone.WARN
    assert panel.gauges.acceptance.state.tone is Tone.WARN
    settle(panel, Kind.COSTS)


def test_unknown_plain_speed_has_no_mark(panel: SlipstreamPanel, clock: Clock) -> None:
    panel.set_loaded(loaded())
    panel.end_reply(reply(panel, clock, plain_s=0.0), FinishReason.END)
    state = panel.gauges.speed.state
    assert (state.tone, state.reference) == (Tone.ACCENT, None)
    assert panel.gauges.badge.isHidden()


def test_verdict_stands_for_a_while(panel: SlipstreamPanel, clock: Clock, qtbot: QtBot) -> None:
    seen: list[Kind] = []
    panel.set_loaded(loaded())
    panel.verdictChanged.connect(lambda verdict: seen.append(verdict.kind))
    reply(panel, clock)  # within a moment of real time: measuring and saving both came
    assert len(seen) <= 1
    qtbot.waitUntil(lambda: seen[-1:] == [Kind.SAVES], timeout=20_000)


def test_engine_gone_keeps_figures_and_offers_to_load(panel: SlipstreamPanel, clock: Clock, qtbot: QtBot) -> None:
    panel.set_loaded(loaded())
    reply(panel, clock)
    panel.engine_gone(ErrorInfo("EngineDied", "The engine stopped.", "The text so far is kept."))
    assert panel.verdict.verdict.sentence == "The engine stopped."
    assert panel.gauges.acceptance.state.value == 75
    assert not panel.pair.view.loaded
    button = next(one for one in panel.verdict.findChildren(QPushButton) if one.text() == "Load again")
    with qtbot.waitSignal(panel.targetPicked) as caught:
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert caught.args == [TARGET.path]


def test_a_new_pair_forgets_the_old_ones_figures(panel: SlipstreamPanel, clock: Clock) -> None:
    panel.set_loaded(loaded())
    panel.end_reply(reply(panel, clock), FinishReason.END)
    panel.set_loaded(loaded())
    assert panel.gauges.speed.state.tone is Tone.IDLE
    assert panel.details.tape.columns == ()
    panel.set_unloaded()
    assert panel.verdict.verdict.kind is Kind.EMPTY


def test_nothing_runs_while_hidden_or_at_rest(panel: SlipstreamPanel, clock: Clock, qtbot: QtBot) -> None:
    panel.set_loaded(loaded())
    qtbot.waitUntil(lambda: not panel._motion.running, timeout=10_000)
    panel.hide()
    reply(panel, clock)
    assert not panel._motion.running


# ---------------------------------------------------------------- details, looks, words


def test_details_remember_by_signal(panel: SlipstreamPanel, qtbot: QtBot) -> None:
    panel.set_details_open(False)
    with qtbot.waitSignal(panel.detailsToggled) as caught:
        qtbot.mouseClick(panel.details_button, Qt.MouseButton.LeftButton)
    assert caught.args == [True] and panel.details_open
    assert panel.details_button.accessibleName() == "Details, open"


def test_memory_ends_with_what_is_free() -> None:
    parts = memory_parts({"compute": GIB, "target weights": 2 * GIB, "scratch": GIB}, 8 * GIB)
    assert [part.name for part in parts] == ["target weights", "compute", "scratch", "free"]
    assert parts[-1].text == "4.00 GiB"
    assert memory_parts({}, 8 * GIB) == []


def test_time_before_any_round_is_nothing() -> None:
    assert time_parts(None) == []
    assert time_parts(Totals()) == []


@pytest.mark.parametrize("height", [568, 820])
@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.ON])
def test_gauges_are_never_cut(panel: SlipstreamPanel, clock: Clock, qtbot: QtBot, height: int, mode: Mode) -> None:
    panel.set_loaded(loaded())
    panel.set_speculation(Speculation(mode))
    panel.set_details_open(True)
    panel.resize(336, height)
    reply(panel, clock)
    settle(panel, Kind.SAVES)
    qtbot.wait(50)  # layouts settle
    gauge = panel.gauges.speed
    assert gauge.height() >= 144 and gauge.width() == 144
    top = gauge.mapTo(panel, gauge.rect().topLeft()).y()
    assert top + gauge.height() <= panel.details_button.y()
    assert panel.details_button.geometry().bottom() <= height


def test_every_painted_part_can_be_reached_and_has_a_name(panel: SlipstreamPanel) -> None:
    panel.set_loaded(loaded())
    details = panel.details
    for part in (
        panel.gauges.speed,
        panel.gauges.acceptance,
        details.tape,
        details.sparkline,
        details.time_bar,
        details.memory_bar,
        panel.pair.target_row,
        panel.pair.draft_row,
        panel.verdict,
    ):
        assert part.focusPolicy() & Qt.FocusPolicy.TabFocus
        assert part.accessibleName()
