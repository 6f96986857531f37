"""The worker, as a thread and as a process, over a real small model."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from slipstream.domain.protocol import (
    Cancel,
    EngineGone,
    EngineSettings,
    Failed,
    FinishReason,
    Load,
    Loaded,
    LoadRefused,
    Notice,
    Overflow,
    PromptProgress,
    RoundDone,
    Text,
    Unload,
    Unloaded,
)
from slipstream.domain.sampling import Sampling
from slipstream.domain.speculation import Mode, Speculation
from slipstream.engine.process import ProcessHost
from slipstream.engine.worker import ThreadHost

from .driving import PLAIN, ask, generate, load, until_end

COUNT = "Repeat after me: one two three four five six seven eight nine ten."


@pytest.fixture
def host(smol: Path) -> Iterator[ThreadHost]:
    made = ThreadHost()
    load(made, smol, n_ctx=1024)
    yield made
    made.close()


@pytest.fixture
def process(smol: Path) -> Iterator[ProcessHost]:
    made = ProcessHost()
    load(made, smol, n_ctx=1024)
    yield made
    made.close()


def test_loaded_names_what_runs(smol: Path) -> None:
    host = ThreadHost()
    loaded = load(host, smol, n_ctx=1024)
    assert loaded.target.architecture == "llama"
    assert loaded.drafters == ("ngram",)
    assert loaded.devices
    assert loaded.memory_bytes["target weights"] == pytest.approx(smol.stat().st_size, rel=0.05)
    # 1024 cells × 30 layers × (K and V) × 3 heads × 64 × 2 bytes
    assert loaded.memory_bytes["target KV"] == 1024 * 30 * 2 * 3 * 64 * 2
    host.close()


def test_reply_is_counted_and_timed(host: ThreadHost) -> None:
    answer = ask(host, generate(COUNT))
    totals = answer.finished.totals
    assert answer.text
    assert totals.tokens == 1 + sum(r.round.yielded for r in answer.rounds)
    assert totals.verified >= totals.accepted
    assert 0 < totals.first_token_s <= totals.elapsed_s
    parts = totals.draft_s + totals.verify_s + totals.sample_s + totals.python_s
    assert parts <= totals.decode_s * 1.02


def test_ngram_speculation_keeps_the_text(host: ThreadHost) -> None:
    plain = ask(host, generate(COUNT, speculation=PLAIN))
    spec = ask(host, generate(COUNT, speculation=Speculation(Mode.ON, 8, drafters=("ngram",))))
    assert spec.finished.totals.accepted > 0
    assert spec.finished.totals.rounds < plain.finished.totals.rounds
    assert spec.text[:40] == plain.text[:40]


def test_prefix_is_reused_across_turns(host: ThreadHost) -> None:
    first = ask(host, generate(COUNT, fresh=False))
    second = ask(host, generate(COUNT, first.text, "Again, please.", fresh=False, max_tokens=4))
    totals = second.finished.totals
    assert totals.reused_tokens > first.finished.totals.prompt_tokens
    assert totals.reused_tokens < totals.prompt_tokens


def test_same_turn_again_needs_no_prompt(host: ThreadHost) -> None:
    one = ask(host, generate(COUNT, fresh=False, speculation=PLAIN))
    two = ask(host, generate(COUNT, fresh=False, speculation=PLAIN))
    assert two.finished.totals.reused_tokens == two.finished.totals.prompt_tokens - 1
    assert two.text[:30] == one.text[:30]


def test_stop_string_cuts_and_counts(host: ThreadHost) -> None:
    whole = ask(host, generate(COUNT, speculation=PLAIN)).text
    stop = whole.split()[4]
    answer = ask(host, generate(COUNT, stop=(stop,)))
    assert answer.finished.reason is FinishReason.STOP_STRING
    assert answer.text == whole[: whole.index(stop)]


def test_max_tokens_are_exact(host: ThreadHost) -> None:
    for limit in (1, 2, 7):
        answer = ask(host, generate(COUNT, max_tokens=limit))
        assert answer.finished.totals.tokens == limit
        assert answer.finished.reason is FinishReason.LENGTH


def test_seed_repeats(host: ThreadHost) -> None:
    one, two, other = (
        ask(host, generate("Name a colour.", sampling=Sampling(1.5, seed=seed), speculation=PLAIN)).text for seed in (4, 4, 5)
    )
    assert one == two != other


def test_context_end_finishes(smol: Path) -> None:
    host = ThreadHost()
    load(host, smol, n_ctx=256)
    answer = ask(host, generate("Write a very long story about the sea.", max_tokens=0, sampling=None))
    assert answer.finished.reason in (FinishReason.CONTEXT, FinishReason.END)
    assert answer.finished.n_past <= 256
    host.close()


def test_too_long_a_message_is_refused_with_counts(host: ThreadHost) -> None:
    answer = ask(host, generate("word " * 3000))
    assert isinstance(answer.last, Failed)
    assert "1024" in answer.last.error.sentence() or "1,024" in answer.last.error.sentence()


def test_oldest_turns_are_dropped_and_reported(host: ThreadHost) -> None:
    turns = ["word " * 150] * 9
    answer = ask(host, generate(*turns, overflow=Overflow.DROP_OLDEST, max_tokens=8))
    dropped = [e for e in answer.events if isinstance(e, Notice) and e.kind == "dropped"]
    assert dropped and dropped[0].count >= 2
    assert answer.finished.totals.prompt_tokens < 1024


def test_cancel_in_the_reply_keeps_the_text_and_the_cache(host: ThreadHost) -> None:
    def stop(event: object) -> None:
        if isinstance(event, RoundDone) and event.round.number == 3:
            host.send(Cancel())

    answer = ask(host, generate(COUNT, max_tokens=0, fresh=False), stop)
    assert answer.finished.reason is FinishReason.CANCELLED
    assert answer.text
    again = ask(host, generate(COUNT, max_tokens=12, fresh=False, speculation=PLAIN))
    fresh = ask(host, generate(COUNT, max_tokens=12, speculation=PLAIN))
    assert again.text == fresh.text, "the cache was left inconsistent"


def test_cancel_in_the_prompt_is_quick(host: ThreadHost) -> None:
    began = []

    def stop(event: object) -> None:
        if isinstance(event, PromptProgress) and not began:
            began.append(time.monotonic())
            host.send(Cancel())

    answer = ask(host, generate("word " * 900, max_tokens=8), stop)
    assert answer.finished.reason is FinishReason.CANCELLED
    assert time.monotonic() - began[0] < 10  # promise: 1 s; the machine is shared
    assert ask(host, generate(COUNT, max_tokens=4)).finished.reason is FinishReason.LENGTH


def test_late_cancel_stops_nothing(host: ThreadHost) -> None:
    ask(host, generate(COUNT, max_tokens=2))
    host.send(Cancel())
    assert ask(host, generate(COUNT, max_tokens=5)).finished.reason is FinishReason.LENGTH


def test_nothing_loaded_is_a_sentence() -> None:
    host = ThreadHost()
    answer = ask(host, generate("Hello"))
    assert isinstance(answer.last, Failed) and "No model" in answer.last.error.message
    host.close()


def test_unload_and_refused_load(host: ThreadHost, tmp_path: Path) -> None:
    host.send(Unload())
    deadline = time.monotonic() + 20
    events: list[object] = []
    while not any(isinstance(e, Unloaded) for e in events) and time.monotonic() < deadline:
        events += host.wait(1)
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\3\0\0\0" + b"\xff" * 64)
    answer = ask(host, Load(7, str(broken)))
    assert isinstance(answer.last, LoadRefused) and answer.last.load_id == 7
    missing = ask(host, Load(8, str(tmp_path / "no.gguf"))).last
    assert isinstance(missing, LoadRefused) and missing.error.kind == "ModelFileMissing"


def test_memory_comes_back_after_unload(smol: Path) -> None:
    host = ThreadHost()
    process = psutil.Process()
    readings = []
    for _ in range(8):
        load(host, smol, n_ctx=1024)
        ask(host, generate("Hi", max_tokens=2))
        host.send(Unload())
        while not any(isinstance(e, Unloaded) for e in host.wait(5)):
            pass
        readings.append(process.memory_info().rss)
    host.close()
    assert readings[-1] - readings[2] < 60 << 20, readings


def test_killed_child_is_told_and_replaced(process: ProcessHost, smol: Path) -> None:
    def kill(event: object) -> None:
        if isinstance(event, RoundDone) and event.round.number == 3:
            assert process.pid
            os.kill(process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))

    answer = ask(process, generate(COUNT, max_tokens=0), kill)
    assert isinstance(answer.last, EngineGone)
    assert any(isinstance(e, Text) for e in answer.events)
    load(process, smol, n_ctx=1024)
    assert ask(process, generate(COUNT, max_tokens=4)).text


def test_child_ends_with_its_window(smol: Path) -> None:
    """When the parent is killed, the child sees its pipe close."""
    import subprocess

    script = (
        "import sys\nfrom slipstream.engine.process import ProcessHost\nfrom slipstream.domain.protocol import Load\n"
        f"h = ProcessHost(); h.send(Load(1, {str(smol)!r})); print(h.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    child.wait(30)


def test_unloading_ends_the_child_and_the_next_load_waits_for_it(process: ProcessHost, smol: Path) -> None:
    assert process.pid
    child = psutil.Process(process.pid)
    process.send(Unload())
    process.send(Load(2, str(smol), None, EngineSettings(n_ctx=512, threads=2)))
    answer = until_end(process)
    kinds = [type(event) for event in answer.events]
    assert kinds[0] is Unloaded and kinds[-1] is Loaded
    assert not child.is_running()
    assert ask(process, generate(COUNT, max_tokens=4)).text


def test_a_hanging_child_does_not_hang_its_window(process: ProcessHost) -> None:
    assert process.pid
    child = psutil.Process(process.pid)
    child.suspend()
    began = time.monotonic()
    for _ in range(20):
        process.send(generate("word " * 20_000))
    assert time.monotonic() - began < 5  # a pipe holds 64 KB
    process.close()
    assert not child.is_running()
