"""Command line: the window by default, `chat`, `bench`, and `engine`, the child process that the others start."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Sequence

from slipstream import __version__
from slipstream.domain.errors import SlipstreamError


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 1 failed (with a sentence on standard error), 2 wrong usage, 130 interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["engine"]:
        return _engine(words[1:])
    _tolerant_streams()
    args = _parser().parse_args(words)
    try:
        return int(args.call(args))
    except SlipstreamError as error:
        _complain(error)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # whoever read our output has gone; keep the interpreter's own last flush from saying so
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


def _parser() -> argparse.ArgumentParser:
    from slipstream.cli import bench, chat

    parser = argparse.ArgumentParser(
        prog="slipstream",
        description="Chat with a local LLM that speculates. Without a command the window opens.",
    )
    parser.add_argument("--version", action="version", version=f"slipstream {__version__}")
    parser.add_argument("--in-process", action="store_true", help="no separate process for the engine")
    parser.set_defaults(call=_window, parser=parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    chat.add_parser(commands)
    bench.add_parser(commands)
    return parser


def _window(args: argparse.Namespace) -> int:
    from slipstream.app import run_window

    return int(run_window([], in_process=args.in_process))


def _engine(arguments: Sequence[str]) -> int:
    """The child process that windows and `chat` start; not for people, so the help does not name it."""
    # Ctrl-C in a terminal reaches the whole process group; what to do about it is for the parent to say
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from slipstream.engine import environment

    environment.prepare()  # before anything loads llama.cpp
    from slipstream.compose import engine_main

    return engine_main(arguments)


def _complain(error: SlipstreamError) -> None:
    info = error.info()
    print(info.sentence(), file=sys.stderr)
    if info.detail and os.environ.get("SLIPSTREAM_DEBUG"):
        print(info.detail, file=sys.stderr)


def _tolerant_streams() -> None:
    """A terminal that cannot show a character must not end the program (a window without a console has none)."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
