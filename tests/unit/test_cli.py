"""The command line: over a scripted engine for what it says, over a tiny real model for what it does."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench_host import ScriptedHost

from models.tiny import TinyModels
from slipstream.__main__ import main
from slipstream.cli import bench, chat
from slipstream.cli.common import Interrupts
from slipstream.domain.errors import ErrorInfo, LoadFailed, SlipstreamError
from slipstream.domain.protocol import Generate, Load
from slipstream.domain.rounds import Totals
from slipstream.domain.sampling import Sampling
from slipstream.domain.speculation import Mode, Speculation

PLAIN = Totals(
    tokens=21,
    first_tokens=1,
    rounds=20,
    prompt_tokens=9,
    reused_tokens=4,
    first_token_s=0.5,
    decode_s=2.0,
    elapsed_s=2.5,
)


def parsed(words: str, add: Callable[[Any], None]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add(parser.add_subparsers())
    return parser.parse_args(words.split())


def run_chat(words: str, host: ScriptedHost) -> int:
    return chat.run(parsed(f"chat --target t.gguf {words}", chat.add_parser), lambda args: host)


def run_bench(words: str, host: ScriptedHost) -> int:
    return bench.run(parsed(f"bench --target t.gguf {words}", bench.add_parser), lambda args: host)


class Lines(io.StringIO):
    """Standard input of a pipe, or of a terminal."""

    def __init__(self, text: str, tty: bool = False) -> None:
        super().__init__(text)
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


# ------------------------------------------------------------ chat


def test_one_prompt_text_to_stdout_and_statistics_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    host = ScriptedHost(lambda command: PLAIN)
    assert run_chat("--prompt hello --stats json", host) == 0
    out, err = capsys.readouterr()
    assert out == "reply to hello\n"
    (line,) = err.splitlines()
    found = json.loads(line)
    assert found["finish"] == "length" and found["tokens"] == 21 and found["reused_tokens"] == 4
    assert found["tokens_per_second"] == pytest.approx(10.0)
    for key in ("acceptance", "speed_up", "tokens_per_round", "verified", "by_position", "time_s", "notices"):
        assert key in found
    assert host.closed


def test_statistics_as_a_line_or_not_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_chat("--prompt hello", ScriptedHost(lambda command: PLAIN)) == 0
    err = capsys.readouterr().err
    assert "21 tokens in 2.5 s, 10.0 tokens/s" in err and "4 of 9 prompt tokens reused" in err
    assert run_chat("--prompt hello --stats none", ScriptedHost(lambda command: PLAIN)) == 0
    assert capsys.readouterr().err == ""


def test_a_piped_conversation_grows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", Lines("first\n\n  \nsecond\r\nthird"))
    host = ScriptedHost(lambda command: PLAIN)
    assert run_chat("--system short", host) == 0
    assert capsys.readouterr().out == "reply to first\nreply to second\nreply to third\n"
    last = host.asked[-1].conversation
    assert [(m.role, m.content) for m in last] == [
        ("system", "short"), ("user", "first"), ("assistant", "reply to first"), ("user", "second"),
        ("assistant", "reply to second"), ("user", "third"),
    ]  # fmt: skip
    assert not any(command.fresh for command in host.asked)


def refuses_second(command: Generate) -> Totals | ErrorInfo:
    full = ErrorInfo("ContextFull", "It does not fit.", "Ask less.")
    return full if command.conversation[-1].content == "second" else PLAIN


def test_a_failed_reply_ends_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Lines("first\nsecond\nthird\n"))
    host = ScriptedHost(refuses_second)
    with pytest.raises(SlipstreamError, match="does not fit"):
        run_chat("", host)
    assert len(host.asked) == 2 and host.closed


def test_at_a_terminal_one_may_try_again(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", Lines("first\nsecond\nthird\n", tty=True))
    host = ScriptedHost(refuses_second)
    assert run_chat("", host) == 0
    assert "It does not fit. Ask less." in capsys.readouterr().err
    assert [m.content for m in host.asked[-1].conversation] == ["first", "reply to first", "third"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("", Speculation()),
        ("--drafter none", Speculation(Mode.OFF)),
        ("--drafter none --length 4", Speculation(Mode.OFF)),
        ("--drafter ngram", Speculation(Mode.AUTO, drafters=("ngram",))),
        ("--length auto", Speculation()),
        ("--length 5", Speculation(Mode.ON, length=5)),
        ("--draft d.gguf --drafter model --length 20", Speculation(Mode.ON, length=20, drafters=("model",))),
    ],
)
def test_speculation_options(words: str, wanted: Speculation, capsys: pytest.CaptureFixture[str]) -> None:
    host = ScriptedHost(lambda command: PLAIN)
    run_chat(f"--prompt x {words}", host)
    assert host.asked[0].speculation == wanted
    load = host.sent[0]
    assert isinstance(load, Load) and load.settings.max_draft >= wanted.length


def test_what_is_not_given_is_the_models_own(capsys: pytest.CaptureFixture[str]) -> None:
    host = ScriptedHost(lambda command: PLAIN)
    run_chat("--prompt x --top-k 5 --seed 3 --max-tokens 9 --thinking off", host)
    command = host.asked[0]
    assert command.sampling == Sampling(temperature=0.6, top_k=5, seed=3)  # 0.6: what the engine says of the model
    assert (command.max_tokens, command.thinking) == (9, False)


def test_loading_options(capsys: pytest.CaptureFixture[str]) -> None:
    host = ScriptedHost(lambda command: PLAIN)
    run_chat("--prompt x --draft d.gguf --ctx 512 --threads 3 --gpu-layers 4 --draft-gpu-layers 0 --kv q8_0", host)
    load = host.sent[0]
    assert isinstance(load, Load) and load.draft is not None
    assert Path(load.target).is_absolute() and Path(load.draft).is_absolute()
    settings = load.settings
    assert (settings.n_ctx, settings.threads, settings.kv_type) == (512, 3, "q8_0")
    assert (settings.gpu_layers_target, settings.gpu_layers_draft) == (4, 0)


# ------------------------------------------------------------ usage and errors


@pytest.mark.parametrize(
    "words",
    [
        ["chat"],
        ["chat", "--target", "t", "--drafter", "model"],
        ["chat", "--target", "t", "--temp", "nan"],
        ["chat", "--target", "t", "--top-p", "1.5"],
        ["chat", "--target", "t", "--length", "0"],
        ["chat", "--target", "t", "--max-tokens", "-1"],
        ["bench"],
        ["bench", "--target", "t", "--modes", "plain,fast"],
        ["bench", "--target", "t", "--modes", "plain,3"],
        ["bench", "--target", "t", "--repeat", "0"],
        ["dance"],
    ],
)
def test_wrong_usage_is_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_expected_errors_are_a_sentence_and_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--target", "t", "--prompts", str(tmp_path / "none.json")]) == 1
    assert main(["bench", "--target", "t", "--tasks", "code,cooking"]) == 1
    assert main(["bench", "--target", "t", "--json", str(tmp_path / "no" / "folder.json")]) == 1
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 3
    assert "cannot be read" in err[0] and "cooking" in err[1] and "cannot be written" in err[2]


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--version"], ["--help"], ["chat", "--help"], ["bench", "--help"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
    out = capsys.readouterr().out
    assert "slipstream 0." in out and "bench" in out


def test_the_command_line_brings_in_neither_window_nor_engine() -> None:
    code = (
        "import sys, slipstream.__main__ as m\n"
        "try: m.main(['chat', '--help'])\n"
        "except SystemExit: pass\n"
        "print([n for n in ('PySide6', 'qasync', 'llama_cpp') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ(), timeout=120)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


# ------------------------------------------------------------ Ctrl-C


def test_interrupts_are_counted_and_the_third_is_raised() -> None:
    seen = []
    interrupts = Interrupts(lambda: seen.append(1))
    before = signal.getsignal(signal.SIGINT)
    with interrupts.counted():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert interrupts.count == 2
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert seen == [1]
    assert signal.getsignal(signal.SIGINT) is before


def interrupting(host: ScriptedHost, at: tuple[int, ...], number: signal.Signals = signal.SIGINT) -> None:
    waits = iter(range(10_000))
    host.on_wait = lambda: signal.raise_signal(number) if next(waits) in at else None


def test_ctrl_c_stops_the_reply_and_keeps_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    host = ScriptedHost(hang=True)
    interrupting(host, (3,))
    assert run_chat("--prompt x", host) == 130
    out, err = capsys.readouterr()
    assert out == "half\n" and "stopped" in err


def test_a_second_ctrl_c_quits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    host = ScriptedHost(hang=True)
    monkeypatch.setattr(host, "_hang", True)
    send = host.send
    # an engine that does not hear the cancel
    monkeypatch.setattr(host, "send", lambda command: send(command) if isinstance(command, Load | Generate) else None)
    interrupting(host, (3, 5))
    with pytest.raises(KeyboardInterrupt):
        run_chat("--prompt x", host)
    assert host.closed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_bench_interrupted_reports_what_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    host = ScriptedHost()
    interrupting(host, (20,), number)
    path = tmp_path / "out.json"
    assert run_bench(f"--json {path}", host) == 130
    report = json.loads(path.read_text())
    assert report["environment"]["cancelled"] and 10 < len(report["runs"]) < 20
    assert "Stopped" in capsys.readouterr().err


# ------------------------------------------------------------ bench


def test_bench_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.json"
    host = ScriptedHost()
    words = f"--draft d.gguf --tasks facts,code --limit 2 --modes plain,auto,5,plain --repeat 2 --max-tokens 7 --json {path}"
    assert run_bench(words, host) == 0
    report = json.loads(path.read_text())
    assert len(report["runs"]) == 2 * 2 * 4 * 2
    assert {command.max_tokens for command in host.asked} == {7}
    out = capsys.readouterr().out
    assert "big.gguf + small.gguf, 2 threads" in out and "plain-2" in out and "Advice\n- " in out
    assert out.index("facts (2 prompts)") < out.index("code (2 prompts)")
    assert host.closed


def test_without_a_draft_the_lengths_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    host = ScriptedHost()
    assert run_bench("--limit 1 --tasks code", host) == 0
    assert {c.speculation.mode for c in host.asked} == {Mode.OFF, Mode.AUTO, Mode.ON}
    assert "fixed-3" not in capsys.readouterr().out


def test_bench_where_nothing_ran_is_1(capsys: pytest.CaptureFixture[str]) -> None:
    failing = ScriptedHost(lambda command: ErrorInfo("DecodeFailed", "It could not decode."))
    assert run_bench("--limit 1 --tasks code --modes plain", failing) == 1
    assert "code-1, plain: It could not decode." in capsys.readouterr().err
    with pytest.raises(LoadFailed):
        run_bench("", ScriptedHost(refuse=ErrorInfo("LoadFailed", "No.")))


def test_exported_prompts_stop_there_unless_a_report_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, path = tmp_path / "p.json", tmp_path / "r.json"
    host = ScriptedHost()
    assert run_bench(f"--tasks code --limit 1 --export-prompts {out}", host) == 0
    (entry,) = json.loads(out.read_text())
    assert entry["id"] == "code-1" and entry["task"] == "code" and entry["prompt"].startswith("<u>Write a Python")
    assert not host.asked
    assert run_bench(f"--tasks code --limit 1 --modes plain --export-prompts {out} --json {path}", ScriptedHost()) == 0
    assert json.loads(path.read_text())["runs"]


# ------------------------------------------------------------ over a real, tiny model


def environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONIOENCODING": "utf-8"}


def slipstream(*words: object, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "slipstream", *map(str, words)]
    return subprocess.run(command, input=text, capture_output=True, encoding="utf-8", env=environ(), timeout=240)


def test_a_real_conversation_reuses_its_cache(tiny_models: TinyModels) -> None:
    done = slipstream(
        "chat", "--target", tiny_models.path("text"), "--draft", tiny_models.path("text-draft"), "--ctx", 512, "--threads", 1,
        "--temp", 0, "--max-tokens", 24, "--stats", "json", "--length", 3, text="one\ntwo\n",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = (json.loads(line) for line in done.stderr.splitlines())
    assert first["tokens"] == second["tokens"] == 24
    assert second["reused_tokens"] > first["prompt_tokens"]
    assert 0 < first["accepted"] <= first["verified"]
    plain = slipstream(
        "chat", "--target", tiny_models.path("text"), "--ctx", 512, "--threads", 1, "--temp", 0, "--max-tokens", 24,
        "--stats", "none", "--drafter", "none", "--in-process", text="one\ntwo\n",
    )  # fmt: skip
    assert plain.stdout == done.stdout  # the draft changes the pace, never the text
    assert plain.stderr == ""


def test_files_that_are_no_models_are_told_in_a_sentence(tiny_models: TinyModels, tmp_path: Path) -> None:
    junk = tmp_path / "junk.gguf"
    junk.write_bytes(b"GGUF" + bytes(100))
    for name in (tmp_path / "none.gguf", junk):
        done = slipstream("chat", "--target", name, "--prompt", "x")
        assert done.returncode == 1 and done.stdout == ""
        assert len(done.stderr.splitlines()) == 1 and name.name in done.stderr
    other = slipstream(
        "chat", "--target", tiny_models.path("text"), "--draft", tiny_models.path("tiny8"), "--prompt", "x"
    )
    assert other.returncode == 1 and "Traceback" not in other.stderr


def test_a_real_benchmark(tiny_models: TinyModels, tmp_path: Path) -> None:
    path, prompts = tmp_path / "r.json", tmp_path / "p.json"
    entries = [{"id": f"x{n}", "task": "x", "messages": [{"role": "user", "content": f"river {n}"}]} for n in range(2)]
    prompts.write_text(json.dumps(entries))
    done = slipstream(
        "bench", "--target", tiny_models.path("text"), "--draft", tiny_models.path("text-draft"), "--ctx", 256, "--threads", 1,
        "--prompts", prompts, "--modes", "plain,auto,ngram,3,plain", "--max-tokens", 24, "--json", path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(path.read_text())
    assert [row["mode"] for row in report["summary"]] == ["plain", "auto", "ngram", "fixed-3", "plain-2"]
    assert len(report["runs"]) == 10
    assert {run["tokens"] for run in report["runs"]} == {24}
    plain, fixed = report["summary"][0], report["summary"][3]
    assert plain["drafted"] == 0 and plain["tokens_per_round"] == 1
    assert fixed["drafted"] >= fixed["accepted"] > 0 and fixed["time_s"]["draft"] > 0
    # F32 weights on one thread: every mode writes the same text
    assert [row["same_text"] for row in report["summary"]] == [1.0] * 5
    assert re.search(r"fixed-3 +\d", done.stdout)
    out = tmp_path / "e.json"
    assert (
        slipstream(
            "bench", "--target", tiny_models.path("text"), "--prompts", prompts, "--export-prompts", out
        ).returncode
        == 0
    )
    assert [(entry["id"], "river" in entry["prompt"]) for entry in json.loads(out.read_text())] == [
        ("x0", True),
        ("x1", True),
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="a console's Ctrl-C cannot be sent to one process there")
def test_ctrl_c_in_a_real_conversation(tiny_models: TinyModels) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "slipstream", "chat", "--target", str(tiny_models.path("text")), "--ctx", "4096", "--threads", "1",
         "--temp", "0", "--stats", "json"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ(), start_new_session=True,
    )  # fmt: skip
    try:
        assert child.stdin and child.stdout and child.stderr
        child.stdin.write(b"one\n")
        child.stdin.flush()
        assert child.stdout.read(1)  # it writes
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to the engine's process too
        found = json.loads(child.stderr.readline())
        assert found["finish"] == "cancelled" and found["tokens"] >= 1
        child.stdin.write(b"two\n")  # the conversation goes on
        child.stdin.close()
        time.sleep(0.5)
        os.killpg(child.pid, signal.SIGINT)
        child.stdout.read()
        assert child.wait(60) in (0, 130)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        for stream in (child.stdout, child.stderr):
            if stream:
                stream.close()
