"""`slipstream bench`: what speculation gains here, with this pair."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from slipstream.bench import advice, machine, report
from slipstream.bench.runner import Failure, Plan, Progress, Result, Run, Runner, load_pair, render_prompts
from slipstream.bench.tasks import (
    DEFAULT_MODES,
    TASKS,
    BenchMode,
    BenchPrompt,
    choose,
    default_prompts_path,
    parse_modes,
    read_prompts,
)
from slipstream.cli.common import Interrupts, add_pair_options, load_command, number, whole
from slipstream.domain.errors import SlipstreamError
from slipstream.domain.protocol import EngineSettings
from slipstream.domain.sampling import Sampling

_MAX_DRAFT = EngineSettings().max_draft


class ReportNotWritten(SlipstreamError):
    """The report's file cannot be written."""


def add_parser(commands: Any) -> None:
    """Register the sub-command on argparse's sub-parsers."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "bench",
        help="measure what speculation gains",
        description="Runs the same prompts in several modes, interleaved, each from an empty cache, and compares them with "
        "plain decoding. Ctrl-C stops and reports what was measured until then.",
    )
    add_pair_options(parser, n_ctx=4096)
    group = parser.add_argument_group("what to run")
    group.add_argument(
        "--tasks", metavar="LIST", help=f"with commas; of the bundled prompts: {','.join(TASKS)} (default all)"
    )
    group.add_argument(
        "--modes", metavar="LIST", help="plain, auto, ngram, auto-model, auto-ngram, or a draft length; plain twice shows the "
        f"noise (default {DEFAULT_MODES}, without the lengths where there is no draft)",
    )  # fmt: skip
    group.add_argument(
        "--max-tokens", type=whole(0), default=256, metavar="N", help="per reply (default %(default)s; 0: no bound)"
    )
    group.add_argument("--temp", type=number(0, 100), default=0.0, metavar="T", help="temperature (default 0)")
    group.add_argument(
        "--seed", type=whole(0, 2**62), default=1, metavar="N", help="for sampling (default %(default)s)"
    )
    group.add_argument(
        "--repeat", type=whole(1, 1000), default=1, metavar="N", help="runs of each prompt in each mode (default 1)"
    )
    group.add_argument("--limit", type=whole(0), default=0, metavar="N", help="prompts per task (0: all)")
    group.add_argument(
        "--prompts", metavar="FILE", help="a JSON list of {id, task, messages} instead of the bundled prompts"
    )
    group.add_argument(
        "--pace-record", metavar="FILE", help="start from and keep what auto learns here (default: learn it anew)"
    )
    out = parser.add_argument_group("results")
    out.add_argument("--json", metavar="FILE", help="write environment, runs and summary")
    out.add_argument(
        "--export-prompts", metavar="FILE", help="write the prompts as the target reads them, for another program, and stop "
        "there unless --json is given too",
    )  # fmt: skip
    parser.set_defaults(call=run, parser=parser)


def run(args: argparse.Namespace, make_host: Callable[[argparse.Namespace], Any] | None = None) -> int:
    """Returns the exit code: 1 where no run succeeded, 130 where it was stopped. Raises SlipstreamError."""
    modes = _modes(args)
    prompts = choose(
        read_prompts(Path(args.prompts) if args.prompts else default_prompts_path()),
        [task.strip() for task in (args.tasks or "").split(",") if task.strip()],
        args.limit,
    )
    for name in (args.json, args.export_prompts):
        _check_writable(name)
    max_draft = max(_MAX_DRAFT, *(mode.length or 0 for mode in modes))
    plan = Plan(
        load=load_command(args, max_draft),
        prompts=prompts,
        modes=modes,
        sampling=Sampling(temperature=args.temp, seed=args.seed),
        max_tokens=args.max_tokens,
        repeats=args.repeat,
    )
    host = (make_host or _host)(args)
    try:
        if args.export_prompts:
            _export(host, plan, prompts, Path(args.export_prompts))
            if not args.json:
                return 0
        return _measure(host, plan, Path(args.json) if args.json else None)
    finally:
        host.close()


def _modes(args: argparse.Namespace) -> tuple[BenchMode, ...]:
    try:
        modes = parse_modes(args.modes or DEFAULT_MODES, _MAX_DRAFT)
    except ValueError as error:
        args.parser.error(f"argument --modes: {error}")
    if args.draft:
        return modes
    needing = [mode.label for mode in modes if mode.drafter == "model"]
    if needing and args.modes:
        args.parser.error(f"{', '.join(needing)} needs --draft FILE")
    return tuple(mode for mode in modes if mode.drafter != "model")


def _check_writable(name: str | None) -> None:
    """Before an hour of measuring, not after it."""
    if name is None:
        return
    folder = Path(name).expanduser().absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ReportNotWritten(f"{name} cannot be written.", f"Is {folder} a folder that you may write to?")


def _write(path: Path, data: Any) -> None:
    try:
        path.expanduser().write_text(
            json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
        )
    except OSError as error:
        raise ReportNotWritten(
            f"{path} could not be written.", "Is there space, and may you write there?", str(error)
        ) from error


def _export(host: Any, plan: Plan, prompts: tuple[BenchPrompt, ...], path: Path) -> None:
    load_pair(host, replace(plan.load, draft=None), lambda: False)
    _write(path, render_prompts(host, prompts))
    print(f"{len(prompts)} prompts written to {path}.", file=sys.stderr)


def _measure(host: Any, plan: Plan, path: Path | None) -> int:
    show = _Show(sys.stderr)
    runner = Runner(host, plan, show)
    with Interrupts(runner.cancel).counted(terminate=True):
        result = runner.run()
    show.clear()
    if path is not None:
        _write(path, report.to_json(plan, result, machine.describe()))
    _print(plan, result, sys.stdout)
    for failure in result.failures:
        print(f"{failure.id}, {failure.mode}: {failure.error.sentence()}", file=sys.stderr)
    if result.cancelled:
        print("Stopped; what was measured until then is shown.", file=sys.stderr)
        return 130
    return 0 if result.runs else 1


def _print(plan: Plan, result: Result, out: TextIO) -> None:
    loaded = result.loaded
    draft = f" + {Path(loaded.draft.path).name}" if loaded.draft else ""
    print(f"{Path(loaded.target.path).name}{draft}, {loaded.threads} threads, {loaded.n_ctx} tokens of context, "
          f"temperature {plan.sampling.temperature:g}, {result.elapsed_s:.0f} s\n", file=out)  # fmt: skip
    if not result.runs:
        return
    rows = report.summarise(result.runs)
    print(report.table(rows), file=out)
    words = advice.in_words(advice.advise(rows, loaded.target, loaded.draft))
    if words:
        print(f"\nAdvice\n{words}", file=out)


class _Show:
    """A line of progress; on a terminal it stays one line."""

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self._tty = err.isatty()

    def __call__(self, progress: Progress) -> None:
        text = f"[{progress.done}/{progress.total}] {_said(progress.last)}"
        self._err.write(f"\r{text}\x1b[K" if self._tty else f"{text}\n")
        self._err.flush()

    def clear(self) -> None:
        if self._tty:
            self._err.write("\r\x1b[K")
            self._err.flush()


def _said(last: Run | Failure | None) -> str:
    if last is None:
        return "warming up"
    if isinstance(last, Failure):
        return f"{last.id} {last.mode} failed"
    rate = last.totals.tokens_per_second
    return f"{last.id} {last.mode} {last.totals.tokens} tokens" + (f", {rate:.1f} tokens/s" if rate else "")


def _host(args: argparse.Namespace) -> Any:
    """The engine in this process: no pipe between it and the clock."""
    from slipstream.engine import environment

    environment.prepare()
    from slipstream.compose import PaceFile
    from slipstream.engine.worker import ThreadHost

    return ThreadHost(PaceFile(Path(args.pace_record).expanduser()) if args.pace_record else None)
