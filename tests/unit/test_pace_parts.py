"""The pace controller's parts: robust costs, calibration, length arithmetic, budget, record."""

from __future__ import annotations

import json
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pace_sim import F16, Machine, Pair

from slipstream.domain.speculation import Speculation
from slipstream.engine.pace import Guess, PaceController, PaceRecord
from slipstream.engine.pace.budget import GRANT, REPLY, Budget, Trial
from slipstream.engine.pace.calibration import Acceptance
from slipstream.engine.pace.costs import Costs, Robust, depth_bin
from slipstream.engine.pace.lengths import best_cut, best_length, worth_more

chances = st.lists(st.floats(0.0, 1.0), min_size=0, max_size=8)


# ---------------------------------------------------------------- costs


def test_robust_ignores_outliers() -> None:
    cell = Robust()
    for reading in (1.0, 1.02, 3.0, 0.98, 1.01, 3.1, 1.0, 0.99, 1.0):
        cell.add(reading)
    assert cell.value == pytest.approx(1.0, abs=0.02)


def test_robust_follows_a_change_within_three_readings() -> None:
    cell = Robust(readings=[1.0] * 15)
    for _ in range(3):
        cell.add(1.5)
    assert cell.value == pytest.approx(1.5)


def test_of_two_readings_the_lower_counts() -> None:
    assert Robust(readings=[3.0, 1.0]).value == 1.0


def profiled(points: dict[int, float], max_rows: int = 17, plain_s: float = 0.1) -> Costs:
    costs = Costs(max_rows)
    for _ in range(5):
        costs.observe_rows(1, 0, plain_s)
    for rows, units in points.items():
        for _ in range(3):
            costs.observe_rows(rows, 0, units * plain_s)
    return costs


def test_measured_rows_are_taken_as_measured_however_jagged() -> None:
    points = {2: 1.66, 3: 1.2, 5: 3.07, 8: 2.9}
    curve = profiled(points).curve(0)
    assert curve[1] == pytest.approx(1.0)
    for rows, units in points.items():
        assert curve[rows] == pytest.approx(units)


def test_unmeasured_rows_lie_above_the_straight_line_and_beyond_grow_in_proportion() -> None:
    curve = profiled({4: 2.0, 8: 4.0}).curve(0)
    assert 3.0 < curve[6] <= 4.0
    assert curve[16] == pytest.approx(8.0)


def test_one_slow_first_reading_does_not_spoil_the_profile() -> None:
    costs = Costs(17)
    costs.observe_rows(1, 0, 0.3)  # a slow one
    costs.observe_rows(5, 0, 0.2)
    costs.book(costs.drafter("model").step, 0.02)
    for _ in range(4):
        costs.observe_rows(1, 0, 0.1)
    assert costs.level_s == pytest.approx(0.1)
    assert costs.curve(0)[5] == pytest.approx(2.0)
    assert costs.drafter("model").per_step == pytest.approx(0.2)


def test_a_machine_that_slows_down_keeps_its_ratios() -> None:
    costs = profiled({5: 2.0})
    for _ in range(3):
        costs.observe_rows(1, 0, 0.15)
    assert costs.level_s == pytest.approx(0.15)
    assert costs.curve(0)[5] == pytest.approx(2.0)


def test_speculative_rounds_unlike_what_was_known_call_for_a_plain_step() -> None:
    costs = profiled({5: 2.0})
    for _ in range(3):
        costs.observe_rows(5, 0, 0.3)
    assert costs.surprised
    costs.observe_rows(1, 0, 0.15)
    assert not costs.surprised


def test_costs_learned_at_one_depth_serve_at_another_until_measured_there() -> None:
    costs = profiled({5: 2.0})
    assert costs.curve(5000)[5] == pytest.approx(2.0)
    for _ in range(3):
        costs.observe_rows(5, 5000, 0.25)
    assert costs.curve(5000)[5] == pytest.approx(2.5)
    assert costs.curve(100)[5] == pytest.approx(2.0)


@given(st.lists(st.tuples(st.integers(-2, 40), st.integers(-5, 10**7), st.floats(allow_nan=True, allow_infinity=True))))
@settings(max_examples=100, deadline=None)
def test_costs_stay_finite_whatever_is_observed(readings: list[tuple[int, int, float]]) -> None:
    costs = Costs(17)
    for rows, depth, seconds in readings:
        costs.observe_rows(rows, depth, seconds)
    assert all(math.isfinite(each) and each >= 0 for each in costs.curve(3000)[1:])
    assert 0 <= depth_bin(10**9) < 16


# ---------------------------------------------------------------- calibration


def test_calibration_learns_a_draft_that_boasts() -> None:
    rng = random.Random(1)
    acceptance = Acceptance()
    for _ in range(600):
        confidence = rng.choice((0.5, 0.95))
        truth = 0.2 if confidence == 0.5 else 0.6
        acceptance.learn((Guess(confidence, 0.5),), (float(rng.random() < truth),))
    low = 1 / (1 + math.exp(-acceptance.logit_of(Guess(0.5, 0.5), 0)))
    high = 1 / (1 + math.exp(-acceptance.logit_of(Guess(0.95, 0.5), 0)))
    assert low == pytest.approx(0.2, abs=0.1)
    assert high == pytest.approx(0.6, abs=0.1)


def test_a_fresh_draft_is_expected_at_seventy_percent() -> None:
    acceptance = Acceptance()
    assert next(acceptance.forecast(acceptance.run, 0, 1)) == pytest.approx(0.7, abs=0.01)


def test_an_unsure_run_fades_while_nothing_is_drafted() -> None:
    acceptance = Acceptance()
    acceptance.run = -2.0
    before = next(acceptance.forecast(acceptance.run, 0, 1))
    acceptance.pass_by(60)
    assert next(acceptance.forecast(acceptance.run, 0, 1)) > before


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 20), st.floats(-1, 2)), max_size=200))
@settings(max_examples=60, deadline=None)
def test_calibration_stays_sane(items: list[tuple[float, float, float]]) -> None:
    acceptance = Acceptance()
    for at in range(0, len(items), 4):
        group = items[at : at + 4]
        acceptance.learn([Guess(c, h) for c, h, _ in group], [label for _, _, label in group])
    for chance in acceptance.forecast(acceptance.run, 0, 16):
        assert 0.0 < chance < 1.0
    assert acceptance.seen.spread(0.0, 0.0, 0) < 3.0
    assert acceptance.seen.cov[0] > 0


# ---------------------------------------------------------------- lengths


@given(chances, st.lists(st.floats(0.0, 3.0), min_size=9, max_size=9), st.floats(0.2, 4.0))
def test_best_cut_is_the_best(odds: list[float], steps: list[float], rate: float) -> None:
    rows = [0.0, 1.0]
    for each in steps:
        rows.append(rows[-1] + each)

    def value(v: int) -> float:
        survive, tokens = 1.0, 1.0
        for chance in odds[:v]:
            survive *= chance
            tokens += survive
        return tokens - rate * rows[v + 1]

    cut = best_cut(odds, rows, rate, 0.0)
    assert value(cut) >= max(value(v) for v in range(len(odds) + 1)) - 1e-9


def test_best_length_by_hand() -> None:
    # E = 1.8, 2.44; C = 1.5, 2.5 at rate 1: values 0.3 and −0.06
    k, value, tokens = best_length([0.8, 0.8], [1.0, 1.5, 2.5], 1.0, 0.0)
    assert k == 1
    assert tokens == pytest.approx(1.8)
    assert value == pytest.approx(0.3)


def test_going_on_looks_past_a_costly_step() -> None:
    rows = [0.0, 1.0, 1.9, 1.9, 1.9, 1.9]  # a jump at two rows, then free ones
    assert worth_more(0.0, 1.0, [0.8, 0.8, 0.8, 0.8], rows, 1, 1, 0.05, 1.0, 0.0)
    assert not worth_more(0.0, 1.0, [0.8], rows, 1, 1, 0.05, 1.0, 0.0)


# ---------------------------------------------------------------- budget


def test_a_losing_reply_is_bounded_and_shrinks_the_next_grant() -> None:
    budget = Budget()
    budget.begin_reply(REPLY)
    lost = 0.0
    for _ in range(REPLY):
        budget.earn(1.0)
        if budget.balance >= 1.0:
            budget.settle(-1.0)
            lost += 1.0
    assert GRANT - 1 <= lost <= 0.02 * REPLY
    budget.begin_reply(REPLY)
    assert budget.balance <= GRANT + 0.01 * REPLY - lost + 1e-9


def test_an_outlay_is_earned_back_before_the_account_gains() -> None:
    budget = Budget()
    budget.begin_reply(REPLY)
    before = budget.balance
    budget.invest(5.0)
    budget.settle(4.0)
    assert budget.balance == before
    budget.settle(4.0)
    assert budget.balance == pytest.approx(before + 3.0)


def test_a_losing_drafter_is_paused_at_doubling_intervals() -> None:
    trial = Trial()
    waits = []
    for _ in range(3):
        while not trial.paused:
            trial.won(-1.0)
        waits.append(trial.interval)
        trial.pass_by(trial.interval)
    assert waits == [32, 64, 128]


def test_winning_again_shortens_the_interval() -> None:
    trial = Trial(interval=512)
    for _ in range(30):
        trial.won(1.0)
    assert trial.interval == 16


# ---------------------------------------------------------------- record

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = (
    "level_s", "rows", "plain_python", "spec_python", "sample_row", "roll_back", "reply_tokens", "savings", "drafters",
)  # fmt: skip
DRAFTER_FIELDS = (
    "step", "block", "catch_up", "seen", "ahead", "usual", "labels", "rounds", "net", "interval", "paused",
)  # fmt: skip


@given(JSON)
@settings(max_examples=100, deadline=None)
def test_a_garbage_record_is_an_empty_one(data: object) -> None:
    assert PaceRecord.from_json(data) == PaceRecord() or isinstance(data, dict)


@given(
    st.dictionaries(st.sampled_from(FIELDS), JSON),
    st.dictionaries(st.sampled_from(DRAFTER_FIELDS), JSON | st.lists(st.floats(-9, 9), min_size=23, max_size=23)),
)
@settings(max_examples=60, deadline=None)
def test_a_damaged_record_still_serves(fields: dict[str, object], drafter: dict[str, object]) -> None:
    data: dict[str, object] = {"version": 1, "level_s": 0.1, "rows": [[0, 5, [2.0, 2.1, 2.0]]], "drafters": []}
    data |= fields
    data.setdefault("drafters", [])
    if isinstance(data["drafters"], list):
        data["drafters"].append({"name": "model", **drafter})
    record = PaceRecord.from_json(data)
    json.dumps(record.to_json(), allow_nan=False)
    pace = PaceController(record, Speculation(), 16)
    result = Machine(Pair("damaged", F16, 0.13, 0.03, prompt=20), 1).reply(pace, 16)
    assert result.tokens == 15
    assert PaceRecord.from_json(pace.record().to_json()) == pace.record()
