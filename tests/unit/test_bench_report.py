from __future__ import annotations

import json
import math

import numpy as np
import pytest
from bench_host import ScriptedHost, plain_or_speculating, totals
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from test_bench_runner import PROMPTS, plan

from slipstream.bench import machine
from slipstream.bench.report import added, overall, speed_up, student_quantile, summarise, table, to_json
from slipstream.bench.runner import Run, Runner
from slipstream.domain.protocol import FinishReason, Generate
from slipstream.domain.rounds import Totals
from slipstream.domain.speculation import Mode


def made(mode: str, rate: float, name: str = "code-1", repeat: int = 0, text: str = "x") -> Run:
    sums = Totals(tokens=101, first_tokens=1, decode_s=100 / rate, first_token_s=1.0, elapsed_s=1 + 100 / rate)
    return Run(name, name.split("-")[0], mode, repeat, FinishReason.LENGTH, sums, text)


@given(st.integers(1, 60), st.floats(0.55, 0.995))
def test_student_quantile_is_that_of_scipy(freedom: int, probability: float) -> None:
    assert student_quantile(probability, freedom) == pytest.approx(stats.t.ppf(probability, freedom), rel=1e-6)


def test_speed_up_is_the_paired_t_of_the_log_ratios() -> None:
    ratios = [1.2, 1.5, 1.1, 1.4]
    found = speed_up((f"p{i}", 10 * ratio, 10.0) for i, ratio in enumerate(ratios))
    assert found is not None
    logs = np.log(ratios)
    half = stats.t.ppf(0.95, 3) * stats.sem(logs)
    assert found.value == pytest.approx(math.exp(logs.mean()))
    assert found.low == pytest.approx(math.exp(logs.mean() - half))
    assert found.high == pytest.approx(math.exp(logs.mean() + half))


def test_repeats_of_one_prompt_are_one_observation() -> None:
    once = speed_up([("a", 12, 10), ("b", 15, 10)])
    often = speed_up([("a", 12, 10)] * 5 + [("b", 15, 10)] * 3)
    assert once and often and once.value == pytest.approx(often.value) and once.low == pytest.approx(often.low or 0)


def test_one_prompt_gives_no_bounds_and_none_no_speed_up() -> None:
    one = speed_up([("a", 12, 10)])
    assert one is not None and (one.low, one.high) == (None, None)
    assert speed_up([]) is None


def test_the_bound_holds_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(400):
        ratios = np.exp(rng.normal(0.2, 0.1, size=4))
        bound = speed_up((str(i), ratio, 1.0) for i, ratio in enumerate(ratios))
        held += bound is not None and bound.low is not None and bound.low <= math.exp(0.2)
    assert 0.91 <= held / 400 <= 0.985


def test_rows_pair_each_run_with_plain_of_the_same_prompt() -> None:
    runs = [
        made("auto", 30, "code-1"), made("plain", 10, "code-1"), made("plain", 20, "code-2"), made("auto", 40, "code-2", text="y"),
        made("auto", 50, "facts-1"),
    ]  # fmt: skip
    code_plain, code_auto, facts_auto = summarise(runs)
    assert (code_plain.task, code_plain.mode, code_plain.speedup) == ("code", "plain", 1.0)
    assert code_auto.speedup == pytest.approx(math.sqrt(3 * 2))
    assert code_auto.same_text == 0.5
    # pooled: 200 tokens in 100/30 + 100/40 seconds
    assert code_auto.tokens_per_second == pytest.approx(200 / (100 / 30 + 100 / 40))
    assert (code_auto.tokens_per_second_low, code_auto.tokens_per_second_high) == pytest.approx((30, 40))
    assert (facts_auto.speedup, facts_auto.same_text, facts_auto.prompts) == (None, None, 1)
    assert overall(summarise(runs), "auto") == pytest.approx(math.sqrt(6))
    assert overall(summarise(runs), "ngram") is None


def test_a_reply_of_one_token_has_no_rate_and_harms_nothing() -> None:
    short = Run("code-1", "code", "auto", 0, FinishReason.END, Totals(tokens=1, first_tokens=1), "x")
    row = summarise([made("plain", 10), short])[1]
    assert (row.tokens_per_second, row.speedup, row.acceptance) == (None, None, None)
    assert "-" in table([row])


def test_sums_of_replies_keep_the_definitions() -> None:
    sums = added([totals(3, 4, 2, round_s=0.2), totals(5, 2, 2, round_s=0.1)])
    assert (sums.verified, sums.accepted, sums.rounds) == (3 * 4 + 5 * 2, 3 * 2 + 5 * 2, 8)
    assert sums.acceptance == pytest.approx(16 / 22)
    assert sums.tokens_per_round == pytest.approx((16 + 8) / 8)
    assert sums.tokens_per_second == pytest.approx((3 * 3 + 5 * 3) / (0.6 + 0.5))
    # guess 3 was reached and refused in the first reply only
    assert sums.by_position == ((8, 8), (8, 8), (3, 0))


def test_figures_of_a_whole_benchmark() -> None:
    result = Runner(ScriptedHost(), plan()).run()
    rows = {(row.task, row.mode): row for row in summarise(result.runs)}
    assert list(rows) == [(task, mode) for task in ("code", "facts") for mode in ("plain", "auto", "fixed-3")]
    fixed = rows["code", "fixed-3"]
    # eight rounds of 0.16 s, each with 3 tokens: two kept and one of the target's own
    assert fixed.tokens_per_second == pytest.approx(3 / 0.16)
    assert fixed.speedup == pytest.approx(3 / 0.16 * 0.1)
    assert fixed.speedup_low == pytest.approx(fixed.speedup)  # every prompt gained the same
    assert fixed.acceptance == pytest.approx(2 / 3)
    assert fixed.tokens_per_round == pytest.approx(3)
    assert fixed.time_s["draft"] == pytest.approx(2 * 8 * 0.03)
    assert fixed.same_text == 1.0


def test_json_shape() -> None:
    chosen = plan("plain,auto,3,plain")
    result = Runner(ScriptedHost(), chosen).run()
    report = to_json(chosen, result, machine.describe())
    text = json.dumps(report, allow_nan=False)
    assert "/m/" not in text  # no folders of this machine
    assert list(report) == ["environment", "runs", "summary"]
    environment = report["environment"]
    assert environment["models"]["target"]["name"] == "Big"
    assert environment["models"]["draft"]["size_bytes"] == 200_000_000
    for key in ("cpu", "cores", "os", "python", "slipstream", "llama_cpp_python", "threads", "settings"):
        assert environment[key], key
    assert environment["settings"]["sampling"]["temperature"] == 0.5
    assert len(report["runs"]) == 16
    wanted = {
        "id", "task", "mode", "repeat", "tokens", "decode_s", "tokens_per_second", "prompt_s", "proposed", "drafted",
        "accepted", "rounds", "time_s", "first_token_s", "elapsed_s", "by_position", "text_sha256",
    }  # fmt: skip
    for run in report["runs"]:
        assert wanted <= set(run)
        assert set(run["time_s"]) == {"draft", "verify", "sample", "python"}
        assert run["tokens_per_second"] == pytest.approx((run["tokens"] - 1) / run["decode_s"])
    assert [row["mode"] for row in report["summary"]] == ["plain", "auto", "fixed-3", "plain-2"] * 2
    for row in report["summary"]:
        assert {"tokens_per_second", "speedup", "speedup_low", "speedup_high", "acceptance", "tokens_per_round"} <= set(
            row
        )


def test_table_names_every_task_and_mode() -> None:
    def answer(command: Generate) -> Totals:
        hard = command.conversation[-1].content.startswith("facts") and command.speculation.mode is not Mode.OFF
        return totals(20, 4, 0, round_s=0.2) if hard else plain_or_speculating(command)

    text = table(summarise(Runner(ScriptedHost(answer), plan()).run().runs))
    for word in ("code (2 prompts)", "facts (2 prompts)", "fixed-3", "kept by position", "1.88", "0.50", "95 % ≥"):
        assert word in text, word
    assert len(PROMPTS) == 4


def test_machine_is_described() -> None:
    found = machine.describe()
    assert found["cores"] >= 1 and found["memory_bytes_total"] > 2**28
    assert machine.cpu_name()
