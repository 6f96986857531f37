"""What the sub-commands share: options of a loaded pair, and Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from slipstream.domain.protocol import EngineSettings, Load


def whole(least: int, most: int = 2**31 - 1) -> Callable[[str], int]:
    """An argparse type: a whole number within bounds."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text} is no whole number") from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{value} is not between {least} and {most}")
        return value

    return parse


def number(least: float, most: float) -> Callable[[str], float]:
    """An argparse type: a number within bounds (never NaN)."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text} is no number") from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not between {least:g} and {most:g}")
        return value

    return parse


def add_pair_options(parser: argparse.ArgumentParser, n_ctx: int) -> None:
    """The models and how they are loaded."""
    group = parser.add_argument_group("models")
    group.add_argument("--target", required=True, metavar="FILE", help="the GGUF that writes the text")
    group.add_argument("--draft", metavar="FILE", help="a small GGUF of the same family that drafts for it")
    group.add_argument(
        "--ctx", type=whole(0), default=n_ctx, metavar="N", help="context, tokens (0: chosen; default %(default)s)"
    )
    group.add_argument("--threads", type=whole(0, 1024), default=0, metavar="N", help="CPU threads (0: chosen)")
    group.add_argument(
        "--gpu-layers", type=whole(-1), default=-1, metavar="N", help="target layers on the GPU (-1: all)"
    )
    group.add_argument(
        "--draft-gpu-layers", type=whole(-1), default=-1, metavar="N", help="draft layers on the GPU (-1: all)"
    )
    group.add_argument(
        "--kv", choices=("f16", "q8_0", "q4_0"), default="f16", help="type of the KV cache (default f16)"
    )


def load_command(args: argparse.Namespace, max_draft: int) -> Load:
    """The Load that the options ask for."""
    settings = EngineSettings(
        n_ctx=args.ctx,
        threads=args.threads,
        gpu_layers_target=args.gpu_layers,
        gpu_layers_draft=args.draft_gpu_layers,
        kv_type=args.kv,
        max_draft=max_draft,
    )
    return Load(1, absolute(args.target), absolute(args.draft) if args.draft else None, settings)


def absolute(name: str) -> str:
    return str(Path(name).expanduser().absolute())


class Interrupts:
    """Ctrl-C counted instead of raised, so that an event is never lost half taken. The third is raised after all:
    by then something hangs."""

    def __init__(self, on_first: Callable[[], None] | None = None) -> None:
        """`on_first` is called at the first, from within the signal handler."""
        self.count = 0
        self._on_first = on_first

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count == 1 and self._on_first is not None:
            self._on_first()
        if self.count >= 3:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def counted(self, *, terminate: bool = False) -> Iterator[None]:
        """Starts from 0. `terminate`: a polite request to end (SIGTERM) counts too. Outside the main thread, where
        signals cannot be had, nothing is counted."""
        self.count = 0
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM) if terminate else (signal.SIGINT,)
        before = [(number, signal.signal(number, self._on_signal)) for number in numbers]
        try:
            yield
        finally:
            for number, handler in before:
                signal.signal(number, handler)
