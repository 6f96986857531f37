"""`slipstream chat`: a conversation in the terminal."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TextIO

from slipstream.bench.report import time_split
from slipstream.bench.runner import Host, load_pair, raised
from slipstream.bench.tasks import LONGEST_DRAFT
from slipstream.cli.common import Interrupts, add_pair_options, load_command, number, whole
from slipstream.domain.chat import Message
from slipstream.domain.errors import SlipstreamError
from slipstream.domain.protocol import (
    Cancel,
    EngineGone,
    EngineSettings,
    Failed,
    Finished,
    FinishReason,
    Generate,
    Loaded,
    LoadProgress,
    Notice,
    Text,
)
from slipstream.domain.sampling import Sampling
from slipstream.domain.speculation import Mode, Speculation

_POLL_S = 0.1
_WHY = {
    FinishReason.LENGTH: "cut at the most tokens it may have",
    FinishReason.CONTEXT: "cut as the context is full",
    FinishReason.CANCELLED: "stopped",
}
_THINKING = {"auto": None, "on": True, "off": False}


def add_parser(commands: Any) -> None:
    """Register the sub-command on argparse's sub-parsers."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "chat",
        help="chat in the terminal",
        description="Reads one message a line from standard input, or takes one from --prompt, and writes the replies to "
        "standard output. Ctrl-C stops a reply, a second one quits.",
    )
    add_pair_options(parser, n_ctx=0)
    spec = parser.add_argument_group("speculation")
    spec.add_argument(
        "--drafter", choices=("auto", "none", "model", "ngram"), default="auto", help="who drafts (default auto)"
    )
    spec.add_argument(
        "--length", type=_length, default=None, metavar="auto|N", help="tokens drafted a round (default auto)"
    )
    group = parser.add_argument_group("sampling (default: what the model asks for)")
    group.add_argument("--temp", type=number(0, 100), metavar="T", help="temperature; 0 takes the likeliest token")
    group.add_argument("--top-k", type=whole(0), metavar="N")
    group.add_argument("--top-p", type=number(0, 1), metavar="P")
    group.add_argument("--min-p", type=number(0, 1), metavar="P")
    group.add_argument("--repeat-penalty", type=number(0.01, 100), metavar="R")
    group.add_argument("--seed", type=whole(0, 2**63 - 1), metavar="N", help="the same seed gives the same text")
    talk = parser.add_argument_group("conversation")
    talk.add_argument("--system", metavar="TEXT", help="the system message")
    talk.add_argument("--prompt", metavar="TEXT", help="one message; the reply to it is all")
    talk.add_argument(
        "--max-tokens", type=whole(0), default=0, metavar="N", help="the most a reply may have (0: no bound)"
    )
    talk.add_argument("--thinking", choices=tuple(_THINKING), default="auto", help="for models that can think first")
    talk.add_argument(
        "--stats", choices=("text", "json", "none"), default="text", help="a line, or one JSON object, to standard error "
        "after each reply",
    )  # fmt: skip
    talk.add_argument("--in-process", action="store_true", help="no separate process for the engine")
    parser.set_defaults(call=run, parser=parser)


def _length(text: str) -> int | None:
    return None if text == "auto" else whole(1, LONGEST_DRAFT)(text)


def speculation_of(drafter: str, length: int | None) -> Speculation:
    """`drafter`: auto, none, model or ngram. `length` pins the draft length, in tokens; None leaves it to the pace."""
    if drafter == "none":
        return Speculation(Mode.OFF)
    allowed = () if drafter == "auto" else (drafter,)
    if length is None:
        return Speculation(Mode.AUTO, drafters=allowed)
    return Speculation(Mode.ON, length=length, drafters=allowed)


def sampling_of(args: argparse.Namespace, defaults: Sampling) -> Sampling:
    """The model's own sampling with what was given on the command line in its place."""
    given = {
        "temperature": args.temp, "top_k": args.top_k, "top_p": args.top_p, "min_p": args.min_p,
        "repeat_penalty": args.repeat_penalty, "seed": args.seed,
    }  # fmt: skip
    return replace(defaults, **{name: value for name, value in given.items() if value is not None})


def statistics_of(finished: Finished, notices: list[str]) -> dict[str, Any]:
    """One reply as JSON: all of Totals, what follows from them, and how it ended. Times in seconds."""
    totals = finished.totals
    return {
        "finish": str(finished.reason),
        "tokens_per_second": totals.tokens_per_second,
        "speed_up": totals.speed_up,
        "acceptance": totals.acceptance,
        "tokens_per_round": totals.tokens_per_round,
        **dataclasses.asdict(totals),
        "time_s": time_split(totals),
        "n_past": finished.n_past,
        "n_ctx": finished.n_ctx,
        "notices": notices,
    }


def statistics_line(finished: Finished) -> str:
    totals = finished.totals
    parts = [f"{totals.tokens} tokens in {totals.elapsed_s:.1f} s"]
    if totals.tokens_per_second is not None:
        parts.append(f"{totals.tokens_per_second:.1f} tokens/s")
    if totals.speed_up is not None:
        parts.append(f"{totals.speed_up:.2f} × plain")
    if totals.acceptance is not None:
        parts.append(f"{totals.acceptance * 100:.0f} % of {totals.verified} drafted tokens kept")
    if totals.reused_tokens:
        parts.append(f"{totals.reused_tokens} of {totals.prompt_tokens} prompt tokens reused")
    if finished.reason in _WHY:
        parts.append(_WHY[finished.reason])
    return "[" + ", ".join(parts) + "]"


@dataclass(frozen=True)
class Options:
    sampling: Sampling
    speculation: Speculation
    max_tokens: int = 0
    thinking: bool | None = None
    stats: str = "text"
    show_reasoning: bool = False


@dataclass
class Chat:
    """A conversation over a loaded pair. `turns` grows with every reply."""

    host: Host
    options: Options
    out: TextIO
    err: TextIO
    interrupts: Interrupts
    turns: list[Message] = field(default_factory=list)
    _request_id: int = 0

    def reply(self, text: str) -> FinishReason:
        """Say `text`, stream the answer. Raises what the engine says went wrong, the turn is then forgotten;
        KeyboardInterrupt at the second Ctrl-C."""
        self._request_id += 1
        asked = (*self.turns, Message("user", text))
        options = self.options
        command = Generate(
            self._request_id,
            asked,
            options.sampling,
            options.speculation,
            options.max_tokens,
            thinking=options.thinking,
        )
        said: dict[str, str] = {"answer": "", "reasoning": ""}
        notices: list[str] = []
        with self.interrupts.counted():
            finished = self._stream(command, said, notices)
        self.turns = [*asked, Message("assistant", said["answer"], said["reasoning"])]
        self._write("" if said["answer"].endswith("\n") else "\n")
        self._statistics(finished, notices)
        return finished.reason

    def _stream(self, command: Generate, said: dict[str, str], notices: list[str]) -> Finished:
        self.host.send(command)
        cancelled = False
        while True:
            if self.interrupts.count >= 2:
                raise KeyboardInterrupt
            if self.interrupts.count and not cancelled:
                cancelled = True
                self.host.send(Cancel())
            for event in self.host.wait(_POLL_S):
                match event:
                    case Text() if event.request_id == command.request_id:
                        said[event.channel] += event.text
                        self._show(event)
                    case Notice() if event.request_id == command.request_id:
                        notices.append(event.message)
                    case Finished() if event.request_id == command.request_id:
                        return event
                    case Failed() if event.request_id == command.request_id:
                        self._write("\n" if said["answer"] else "")
                        raise raised(event.error)
                    case EngineGone():
                        self._write("\n" if said["answer"] else "")
                        raise raised(event.error)

    def _show(self, event: Text) -> None:
        if event.channel == "answer":
            self._write(event.text)
        elif self.options.show_reasoning:
            self.err.write(f"\x1b[2m{event.text}\x1b[0m")
            self.err.flush()

    def _write(self, text: str) -> None:
        if text:
            self.out.write(text)
            self.out.flush()

    def _statistics(self, finished: Finished, notices: list[str]) -> None:
        if self.options.stats == "json":
            print(json.dumps(statistics_of(finished, notices)), file=self.err, flush=True)
            return
        for notice in notices:
            print(notice, file=self.err)
        if self.options.stats == "text":
            print(statistics_line(finished), file=self.err, flush=True)


def converse(chat: Chat, lines: TextIO, *, interactive: bool) -> None:
    """One message a line until the end of input; blank lines are passed over. A reply that fails ends it, unless
    somebody sits there to try again. Raises what the engine says, KeyboardInterrupt."""
    while True:
        if interactive:
            chat.err.write("> ")
            chat.err.flush()
        line = lines.readline()
        if not line:
            return
        if not line.strip():
            continue
        try:
            chat.reply(line.rstrip("\r\n"))
        except SlipstreamError as error:
            if not interactive or error.info().kind == "EngineDied":
                raise
            print(error.info().sentence(), file=chat.err, flush=True)


def run(args: argparse.Namespace, make_host: Callable[[argparse.Namespace], Any] | None = None) -> int:
    """Returns the exit code; errors of the engine are raised."""
    if args.drafter == "model" and not args.draft:
        args.parser.error("--drafter model needs --draft FILE")
    host = (make_host or _host)(args)
    interrupts = Interrupts()
    try:
        with interrupts.counted():
            loaded = load_pair(
                host, load_command(args, _max_draft(args)), lambda: interrupts.count > 0, _progress(sys.stderr)
            )
        chat = _chat(args, host, loaded, interrupts)
        if args.prompt is None:
            converse(chat, sys.stdin, interactive=sys.stdin.isatty())
            return 0
        return 130 if chat.reply(args.prompt) is FinishReason.CANCELLED else 0
    finally:
        host.close()


def _max_draft(args: argparse.Namespace) -> int:
    return max(EngineSettings().max_draft, args.length or 0)


def _chat(args: argparse.Namespace, host: Host, loaded: Loaded, interrupts: Interrupts) -> Chat:
    options = Options(
        sampling=sampling_of(args, loaded.sampling),
        speculation=speculation_of(args.drafter, args.length),
        max_tokens=args.max_tokens,
        thinking=_THINKING[args.thinking],
        stats=args.stats,
        show_reasoning=sys.stderr.isatty(),
    )
    if args.stats != "json":  # standard error then holds JSON lines alone
        for notice in loaded.notices:
            print(notice, file=sys.stderr)
    turns = [Message("system", args.system)] if args.system else []
    return Chat(host, options, sys.stdout, sys.stderr, interrupts, turns)


def _progress(err: TextIO) -> Callable[[LoadProgress], None]:
    def show(progress: LoadProgress) -> None:
        if err.isatty():
            err.write(
                f"\rloading {progress.stage} {progress.fraction * 100:.0f} %\x1b[K"
                + ("\r\x1b[K" * (progress.fraction >= 1))
            )
            err.flush()

    return show


def _host(args: argparse.Namespace) -> Any:
    """A child process by default: llama.cpp ends its own process on some errors, and then there is still a sentence."""
    from slipstream.engine import environment

    environment.prepare()
    from slipstream.compose import make_host
    from slipstream.store.paths import default_paths

    return make_host(default_paths().pace_file, in_process=args.in_process)
