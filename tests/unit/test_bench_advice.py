from __future__ import annotations

from dataclasses import replace

import pytest
from bench_host import DRAFT, TARGET, totals

from slipstream.bench.advice import Advice, Thresholds, Tone, advise, break_even, in_words
from slipstream.bench.report import Row, summarise
from slipstream.bench.runner import Run
from slipstream.domain.protocol import FinishReason, ModelInfo
from slipstream.domain.rounds import Totals

STEP_S = 0.1
PLAIN = totals(40, 0, 0, round_s=STEP_S)


def rows(**tasks: dict[str, Totals]) -> tuple[Row, ...]:
    """One prompt per task; a plain run is added where none is given."""
    runs = [
        Run(f"{task}-1", task, mode.replace("_", "-"), 0, FinishReason.LENGTH, sums, "x")
        for task, modes in tasks.items()
        for mode, sums in ({"plain": PLAIN} | modes).items()
    ]
    return summarise(runs)


def rated(gain: float) -> Totals:
    """A plain-looking reply at `gain` times the plain rate."""
    return totals(40, 0, 0, round_s=STEP_S / gain)


def fixed(k: int, accepted: int, *, draft: float, row: float = 0.05) -> Totals:
    """`draft`: plain steps a drafted token costs; `row`: plain steps for each further verified row."""
    return totals(20, k, accepted, round_s=STEP_S * (1 + k * (draft + row)), draft_s=STEP_S * k * draft)


def kinds(found: tuple[Advice, ...]) -> set[str]:
    return {advice.kind for advice in found}


def one(found: tuple[Advice, ...], kind: str) -> Advice:
    (advice,) = [advice for advice in found if advice.kind == kind]
    return advice


@pytest.mark.parametrize(
    ("gain", "kind", "tone"),
    [
        (2.2, "leave", Tone.GOOD), (2.01, "leave", Tone.GOOD), (1.99, "gain", Tone.GOOD), (1.31, "gain", Tone.GOOD),
        (1.29, "small gain", Tone.INFO), (0.8, "small gain", Tone.INFO),
    ],
)  # fmt: skip
def test_the_verdict_on_the_gain(gain: float, kind: str, tone: Tone) -> None:
    found = advise(rows(code={"auto": rated(gain)}), TARGET, None)
    assert kinds(found) & {"leave", "gain", "small gain"} == {kind}
    advice = one(found, kind)
    assert advice.tone is tone and advice.figure == pytest.approx(gain)
    assert advice.threshold in (1.3, 2.0)


def test_the_gain_is_that_of_auto_over_all_tasks() -> None:
    found = advise(rows(code={"auto": rated(4.0), "ngram": rated(9.0)}, facts={"auto": rated(1.21)}), TARGET, None)
    assert one(found, "leave").figure == pytest.approx(2.2)  # the geometric mean of 4 and 1.21
    found = advise(rows(code={"ngram": rated(1.5), "fixed_3": rated(1.4)}), TARGET, None)
    assert "N-gram drafting is 1.50 times" in one(found, "gain").text


def test_a_task_that_loses_is_named() -> None:
    found = advise(
        rows(code={"auto": rated(1.9)}, creative={"auto": rated(0.9)}, facts={"auto": rated(0.99)}), TARGET, None
    )
    advice = one(found, "loss")
    assert advice.tasks == ("creative",) and "0.90 times plain on creative" in advice.text


def test_two_plain_runs_that_differ_warn_of_noise() -> None:
    assert "noise" in kinds(advise(rows(code={"plain_2": rated(1.08)}), TARGET, None))
    assert "noise" not in kinds(advise(rows(code={"plain_2": rated(1.03)}), TARGET, None))


@pytest.mark.parametrize(("params", "said"), [(710_000_000, True), (690_000_000, False)])
def test_a_draft_above_a_tenth_of_its_target_is_too_big(params: int, said: bool) -> None:
    found = advise(rows(code={"auto": rated(2)}), TARGET, replace(DRAFT, n_params=params))
    assert ("draft too big" in kinds(found)) is said


@pytest.mark.parametrize(("cost", "said"), [(0.27, True), (0.23, False)])
def test_a_draft_dearer_than_a_quarter_step_is_too_slow(cost: float, said: bool) -> None:
    found = advise(rows(code={"fixed_3": fixed(3, 2, draft=cost), "fixed_5": fixed(5, 3, draft=cost)}), TARGET, DRAFT)
    assert ("draft too slow" in kinds(found)) is said
    if said:
        assert one(found, "draft too slow").figure == pytest.approx(cost, rel=0.05)


@pytest.mark.parametrize(("cost", "said"), [(0.55, True), (0.45, False)])
def test_dear_rows_are_told(cost: float, said: bool) -> None:
    found = advise(rows(code={"fixed_4": fixed(4, 3, draft=0.05, row=cost)}), TARGET, DRAFT)
    assert ("verifying dear" in kinds(found)) is said


def test_off_domain_is_judged_on_the_fastest_length() -> None:
    short, long = fixed(2, 1, draft=0.05), fixed(8, 1, draft=0.05)
    good = advise(rows(code={"fixed_2": short, "fixed_8": long}), TARGET, DRAFT)
    assert "off-domain" not in kinds(good)  # 50 % at length 2
    bad = advise(rows(code={"fixed_2": short}, creative={"fixed_4": fixed(4, 1, draft=0.05)}), TARGET, DRAFT)
    advice = one(bad, "off-domain")
    assert advice.tasks == ("creative",) and advice.figure == pytest.approx(0.25)
    assert "25 %" in advice.text and "below 50 %" in advice.text


def test_break_even_is_that_of_the_cost() -> None:
    (row,) = [row for row in rows(code={"fixed_4": fixed(4, 1, draft=0.1, row=0.15)}) if row.mode == "fixed-4"]
    # a round costs 1 + 4·0.25 = 2 steps: (2 − 1) ÷ 4
    assert break_even(row) == pytest.approx(0.25)
    assert break_even(replace(row, speedup=None)) is None
    assert break_even(replace(row, speedup=0.1)) is None  # no share could make up for that


def test_a_small_target_that_gains_little_is_told() -> None:
    small = replace(TARGET, n_params=1_500_000_000)
    assert "target too small" in kinds(advise(rows(code={"auto": rated(1.1)}), small, None))
    assert "target too small" not in kinds(advise(rows(code={"auto": rated(1.5)}), small, None))
    assert "target too small" not in kinds(advise(rows(code={"auto": rated(1.1)}), TARGET, None))


def test_pinning_is_advised_only_where_it_beats_auto() -> None:
    ahead = rows(code={"auto": rated(1.5), "fixed_3": fixed(3, 3, draft=0.1), "fixed_5": fixed(5, 2, draft=0.1)})
    advice = one(advise(ahead, TARGET, DRAFT), "pin")
    assert "draft length of 3" in advice.title
    behind = rows(code={"auto": rated(4.0), "fixed_3": fixed(3, 3, draft=0.1)})
    assert one(advise(behind, TARGET, DRAFT), "keep auto").tone is Tone.GOOD
    losing = advise(rows(code={"auto": rated(0.9), "fixed_3": fixed(3, 0, draft=0.1)}), TARGET, DRAFT)
    assert not kinds(losing) & {"pin", "keep auto"}
    assert "Turn speculation off" in one(losing, "small gain").text


def test_a_draft_that_never_drafts_is_told() -> None:
    found = advise(rows(code={"fixed_3": rated(1.0)}), TARGET, DRAFT)
    assert one(found, "not active").tone is Tone.WARN


def test_nothing_to_say_without_plain_or_speculation() -> None:
    assert advise((), TARGET, None) == ()
    assert advise(rows(code={}), TARGET, None) == ()


def test_thresholds_can_be_others_and_words_name_them() -> None:
    found = advise(rows(code={"auto": rated(1.5)}), TARGET, None, Thresholds(large_gain=1.4))
    assert "above 1.4" in in_words(found)
    everything = rows(
        code={"auto": rated(1.1), "plain_2": rated(1.2), "fixed_3": fixed(3, 1, draft=0.4, row=0.6)},
        creative={"auto": rated(0.5), "fixed_3": fixed(3, 0, draft=0.4, row=0.6)},
    )
    found = advise(everything, replace(TARGET, n_params=1_000_000_000), DRAFT)
    assert len(kinds(found)) >= 8
    for advice in found:
        assert advice.title and advice.text.endswith(".") and advice.threshold is not None
        assert "above" in advice.text or "below" in advice.text or "1/10" in advice.text or advice.kind == "keep auto"


def test_models_of_unknown_size_are_no_ground_for_advice() -> None:
    unknown = ModelInfo("/m", "?", "llama", "", 0, 0, 0, 0, 0)
    assert "draft too big" not in kinds(advise(rows(code={"auto": rated(1.1)}), unknown, DRAFT))
