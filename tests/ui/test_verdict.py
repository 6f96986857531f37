"""The panel's rules: verdict words, gauge ends, live speed. No Qt."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.domain.protocol import ModelInfo
from slipstream.domain.rounds import Round, Totals
from slipstream.domain.speculation import Mode
from slipstream.ui.panel.live import LiveRate, mean_of_last
from slipstream.ui.panel.verdict import Facts, Kind, judge, memory_size, percent, seconds, speed_maximum, three
from slipstream.ui.panel.view import Choice, times_smaller


def totals(speed_up: float | None, verified: int = 100, accepted: int = 60) -> Totals:
    """A reply of 101 tokens in 10 s, whose plain step is such that it was `speed_up` times plain."""
    plain_s = 0.1 * speed_up if speed_up is not None else 0.0
    return Totals(
        tokens=101, first_tokens=1, rounds=40, verified=verified, accepted=accepted, decode_s=10.0, plain_s=plain_s
    )


def facts(**changes: object) -> Facts:
    return replace(Facts(loaded=True, mode=Mode.AUTO, streaming=True, state="auto"), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("speed_up", "kind"),
    [
        (0.5, Kind.COSTS),
        (0.9699, Kind.COSTS),
        (0.9701, Kind.NO_DIFFERENCE),
        (1.0, Kind.NO_DIFFERENCE),
        (1.0299, Kind.NO_DIFFERENCE),
        (1.0301, Kind.SAVES),
        (2.0, Kind.SAVES),
    ],
)
def test_speed_up_decides(speed_up: float, kind: Kind) -> None:
    assert judge(facts(totals=totals(speed_up))).kind is kind


def test_saving_is_told_in_time() -> None:
    told = judge(facts(totals=totals(2.0)))
    assert "saves 50 %" in told.sentence
    assert "10.0 s so far; about 20.0 s without" in told.numbers
    assert "so far" not in judge(facts(totals=totals(2.0), streaming=False)).numbers


def test_cost_is_told_in_time() -> None:
    told = judge(facts(totals=totals(0.8)))
    assert "costs 25 % more" in told.sentence
    assert "about 8.00 s" in told.numbers


def test_fewer_than_twenty_drafted_tokens_is_no_verdict() -> None:
    assert judge(facts(totals=totals(2.0, verified=19, accepted=9))).kind is Kind.MEASURING
    assert judge(facts(totals=totals(2.0, verified=20, accepted=9))).kind is Kind.SAVES
    ended = judge(facts(totals=totals(2.0, verified=7, accepted=3), streaming=False))
    assert ended.kind is Kind.MEASURING
    assert ended.numbers.startswith("7 drafted")


def test_unknown_plain_speed_is_no_verdict() -> None:
    assert judge(facts(totals=totals(None))).kind is Kind.MEASURING


def test_paused_tells_what_it_needs() -> None:
    told = judge(facts(totals=totals(0.9, 240, 58), state="paused", break_even=0.27))
    assert told.kind is Kind.PAUSED
    assert "24 % kept; it needs 27 %" in told.numbers
    assert judge(facts(totals=totals(0.9), state="paused")).numbers


def test_off_inactive_and_empty_come_before_figures() -> None:
    full = totals(2.0)
    assert judge(facts(totals=full, loaded=False)).kind is Kind.EMPTY
    assert judge(facts(totals=full, mode=Mode.OFF)).kind is Kind.OFF
    told = judge(facts(totals=full, inactive="No draft is loaded."))
    assert (told.kind, told.numbers) == (Kind.INACTIVE, "No draft is loaded.")
    assert judge(facts()).kind is Kind.READY


def test_words_are_translated_before_figures_go_in() -> None:
    told = judge(facts(totals=totals(2.0)), lambda text: text.replace("saves", "spart"))
    assert "spart 50 %" in told.sentence


@pytest.mark.parametrize(("peak", "end"), [(0, 20), (19.9, 20), (20, 40), (48.3, 80), (159, 160), (320, 640)])
def test_speed_scale_ends_above_the_peak(peak: float, end: float) -> None:
    assert speed_maximum(peak, 20, between_replies=True) == end


@given(st.floats(0, 5000), st.floats(20, 5000))
def test_speed_scale_never_falls_within_a_reply(peak: float, shown: float) -> None:
    assert speed_maximum(peak, shown, between_replies=False) >= shown
    assert speed_maximum(peak, shown, between_replies=False) > peak or peak == 0


@given(st.floats(0, 1))
def test_percent_keeps_none_and_all_for_themselves(part: float) -> None:
    assert (percent(part) == 0) == (part == 0)
    assert (percent(part) == 100) == (part == 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.6, "0.60"), (1.254, "1.25"), (9.994, "9.99"), (9.996, "10.0"), (12.84, "12.8"), (128.4, "128")],
)
def test_three_digits(value: float, text: str) -> None:
    assert three(value) == text


def test_durations_and_sizes() -> None:
    assert seconds(11.52) == "11.5 s"
    assert seconds(125) == "2 min 5 s"
    assert memory_size(2**30) == "1.00 GiB"
    assert memory_size(2**20 * 12.5) == "12.5 MiB"


def done(at_s: float, yielded: int, verified: int = 4) -> Round:
    return Round(1, "model", verified, verified, yielded - 1, yielded, at_s=at_s)


def test_live_rate_looks_at_the_window_only() -> None:
    live = LiveRate(window_s=2.0)
    assert live.rate is None
    live.add([done(i * 0.5, 1) for i in range(1, 11)])  # 2 a second up to 5 s
    assert live.rate == pytest.approx(2.0)
    live.add([done(5 + i * 0.5, 4) for i in range(1, 5)])  # 8 a second up to 7 s
    assert live.rate == pytest.approx(8.0)
    live.reset()
    assert live.rate is None


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 17)), max_size=60))
def test_live_rate_is_never_negative(steps: list[tuple[float, int]]) -> None:
    live, at_s = LiveRate(), 0.0
    for step, yielded in steps:
        at_s += step
        live.add([done(at_s, yielded)])
        assert live.rate is None or live.rate > 0


def test_mean_draft_length_ignores_plain_rounds() -> None:
    assert mean_of_last([]) is None
    assert mean_of_last([done(1, 1, 4), done(2, 1, 0), done(3, 1, 6)]) == 5


def model(path: str, name: str = "", description: str = "", n_params: int = 0) -> ModelInfo:
    return ModelInfo(path, name, "llama", description, n_params, 10, 2, 100, 2048)


@pytest.mark.parametrize(
    ("path", "quant"),
    [
        ("/m/tiny-Q4_K_M.gguf", "Q4_K_M"),
        ("/m/tiny.iq3_xxs.gguf", "IQ3_XXS"),
        ("/m/tiny-f16.gguf", "F16"),
        ("/m/tiny.gguf", ""),
        ("/m/Aq4x.gguf", ""),
    ],
)
def test_quantisation_is_read_from_the_name(path: str, quant: str) -> None:
    assert Choice(path).quant == quant


def test_choice_prefers_the_models_own_name() -> None:
    assert Choice("/m/a.gguf", "Title", info=model("/m/a.gguf", "Own")).name == "Own"
    assert Choice("/m/a.gguf", "Title").name == "Title"
    assert Choice("/m/a.gguf").name == "a"


def test_times_smaller_needs_both_counts() -> None:
    big, small = model("a", n_params=1000), model("b", n_params=40)
    assert times_smaller(big, small) == 25
    assert times_smaller(big, model("c")) is None
