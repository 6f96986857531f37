from __future__ import annotations

import hashlib
import itertools
import threading

import pytest
from bench_host import ScriptedHost, plain_or_speculating
from hypothesis import given
from hypothesis import strategies as st

from slipstream.bench.runner import Failure, Plan, Progress, Run, Runner, load_pair, order, render_prompts
from slipstream.bench.tasks import BenchPrompt, parse_modes
from slipstream.domain import errors
from slipstream.domain.chat import Message
from slipstream.domain.protocol import Cancel, EngineGone, FinishReason, Generate, Load
from slipstream.domain.rounds import Totals
from slipstream.domain.sampling import Sampling
from slipstream.domain.speculation import Mode

PROMPTS = tuple(
    BenchPrompt(f"{task}-{n}", task, (Message("user", f"{task} {n}"),)) for task in ("code", "facts") for n in (1, 2)
)


def plan(modes: str = "plain,auto,3", **more: object) -> Plan:
    fields: dict[str, object] = {
        "load": Load(1, "/m/big.gguf", "/m/small.gguf"), "prompts": PROMPTS, "modes": parse_modes(modes, 16),
        "sampling": Sampling(temperature=0.5, seed=7), "max_tokens": 32,
    }  # fmt: skip
    return Plan(**(fields | more))  # type: ignore[arg-type]


def test_every_prompt_runs_in_every_mode_from_an_empty_cache() -> None:
    host = ScriptedHost()
    result = Runner(host, plan(repeats=2)).run()
    assert len(host.asked) == 3 + 4 * 3 * 2
    assert all(command.fresh and command.max_tokens == 32 for command in host.asked)
    assert {(r.id, r.mode, r.repeat) for r in result.runs} == set(
        itertools.product((p.id for p in PROMPTS), ("plain", "auto", "fixed-3"), (0, 1))
    )
    assert len(result.runs) == 24 and not result.failures and not result.cancelled
    assert {run.finish for run in result.runs} == {FinishReason.LENGTH}
    run = result.runs[0]
    assert run.text_sha256 == hashlib.sha256(b"reply to code 1").hexdigest()
    assert len({command.request_id for command in host.asked}) == len(host.asked)


def test_the_warm_up_is_thrown_away_and_tries_each_mode() -> None:
    host, seen = ScriptedHost(), []

    def answer(command: Generate) -> Totals:
        seen.append(command.speculation.mode)
        slow = len(seen) <= 3
        return Totals(tokens=9, first_tokens=1, decode_s=1000.0) if slow else plain_or_speculating(command)

    host = ScriptedHost(answer)
    result = Runner(host, plan()).run()
    assert seen[:3] == [Mode.OFF, Mode.AUTO, Mode.ON]
    assert len(result.runs) == 12
    assert max(run.totals.decode_s for run in result.runs) < 10


def test_repeats_draw_with_another_seed_but_all_modes_with_the_same() -> None:
    host = ScriptedHost()
    Runner(host, plan(repeats=2, warm_ups=0)).run()
    seeds = [command.sampling.seed for command in host.asked if command.sampling]
    assert seeds == [7] * 12 + [8] * 12


@given(st.integers(1, 9), st.integers(0, 20))
def test_pairs_of_prompts_treat_all_modes_alike(count: int, pair: int) -> None:
    modes = tuple(range(count))
    there, back = order(modes, 2 * pair), order(modes, 2 * pair + 1)
    assert sorted(there) == sorted(back) == list(modes)
    # a machine that grows slower by the same amount each run costs every mode the same
    assert {there.index(mode) + back.index(mode) for mode in modes} == {count - 1}


@given(st.integers(2, 9))
def test_each_mode_comes_first_once_in_a_while(count: int) -> None:
    modes = tuple(range(count))
    assert {order(modes, 2 * pair)[0] for pair in range(count)} == set(modes)


def test_a_failed_run_is_told_and_the_others_go_on() -> None:
    full = errors.ErrorInfo("ContextFull", "It does not fit.")

    def answer(command: Generate) -> Totals | errors.ErrorInfo:
        fails = command.conversation[-1].content == "code 2" and command.speculation.mode is Mode.AUTO
        return full if fails else plain_or_speculating(command)

    result = Runner(ScriptedHost(answer), plan(warm_ups=0)).run()
    assert result.failures == (Failure("code-2", "code", "auto", 0, full),)
    assert len(result.runs) == 11


def test_an_engine_that_ends_keeps_what_was_measured() -> None:
    count = itertools.count()

    def answer(command: Generate) -> Totals | EngineGone:
        gone = EngineGone(errors.ErrorInfo("EngineDied", "The engine stopped."))
        return gone if next(count) == 5 else plain_or_speculating(command)

    result = Runner(ScriptedHost(answer), plan(warm_ups=0)).run()
    assert len(result.runs) == 5
    assert [failure.error.message for failure in result.failures] == ["The engine stopped."]


def test_cancel_keeps_what_was_measured_and_stops_the_engine() -> None:
    host = ScriptedHost()
    runner: Runner

    def on_progress(progress: Progress) -> None:
        if progress.done == 5:
            runner.cancel()

    runner = Runner(host, plan(), on_progress)
    result = runner.run()
    assert result.cancelled
    assert len(result.runs) == 2  # after three warm-ups
    assert len(host.asked) == 5


def test_cancel_in_the_middle_of_a_run_throws_it_away() -> None:
    host = ScriptedHost(hang=True)
    runner = Runner(host, plan(warm_ups=0))
    waits = itertools.count()
    host.on_wait = lambda: runner.cancel() if next(waits) == 3 else None
    result = runner.run()
    assert result.cancelled and not result.runs
    assert sum(isinstance(command, Cancel) for command in host.sent) == 1


def test_cancel_from_another_thread() -> None:
    host = ScriptedHost(hang=True)
    runner = Runner(host, plan())
    started = threading.Event()
    host.on_wait = started.set
    thread = threading.Thread(target=lambda: (started.wait(10), runner.cancel()))
    thread.start()
    assert runner.run().cancelled
    thread.join()


def test_progress_counts_warm_ups_and_runs() -> None:
    seen: list[Progress] = []
    Runner(ScriptedHost(), plan(), seen.append).run()
    assert [progress.done for progress in seen] == list(range(1, 16))
    assert {progress.total for progress in seen} == {15}
    assert [progress.last is None for progress in seen] == [True] * 3 + [False] * 12
    assert isinstance(seen[-1].last, Run)


def test_a_refused_load_is_raised_as_what_it_was() -> None:
    host = ScriptedHost(refuse=errors.ErrorInfo("PairMismatch", "They do not fit.", "Take another draft.", "token 7"))
    with pytest.raises(errors.PairMismatch, match="do not fit") as error:
        Runner(host, plan()).run()
    assert (error.value.hint, error.value.detail) == ("Take another draft.", "token 7")
    odd = ScriptedHost(refuse=errors.ErrorInfo("ErrorInfo", "Odd."))
    with pytest.raises(errors.SlipstreamError, match="Odd"):
        load_pair(odd, Load(1, "/m"), lambda: False)


def test_cancelled_while_loading() -> None:
    host = ScriptedHost()
    with pytest.raises(errors.Cancelled):
        load_pair(host, Load(1, "/m"), lambda: True)
    assert isinstance(host.sent[-1], Cancel)


def test_prompts_rendered_for_another_program() -> None:
    rendered = render_prompts(ScriptedHost(), PROMPTS[:2])
    assert rendered == [
        {"id": "code-1", "task": "code", "prompt": "<u>code 1<a>"},
        {"id": "code-2", "task": "code", "prompt": "<u>code 2<a>"},
    ]
