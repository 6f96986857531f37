"""An engine in memory that says what a test tells it to. It keeps to the protocol of `ui.bridge.EngineHost`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from slipstream.domain.errors import ErrorInfo
from slipstream.domain.protocol import (
    Cancel,
    Command,
    DeviceInfo,
    EngineGone,
    Event,
    Finished,
    FinishReason,
    Generate,
    Load,
    Loaded,
    LoadProgress,
    LoadRefused,
    ModelInfo,
    PromptProgress,
    RoundDone,
    Span,
    Text,
    Unload,
    Unloaded,
)
from slipstream.domain.rounds import Round, Totals
from slipstream.domain.sampling import Sampling

N_CTX = 8192


def model_info(path: str, name: str = "", size_bytes: int = 145_000_000) -> ModelInfo:
    stem = path.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".gguf")
    return ModelInfo(path, name or stem, "llama", "llama 135M Q8_0", 135_000_000, size_bytes, 30, 49152, 8192)


class ScriptedEngine:
    """Loads at once and answers by hand: a test calls `say`, `round`, `finish`, `die`, … or sets `script`.

    `script(engine, generate)` is called for each Generate where it is set.
    """

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.closed = False
        self.auto_load = True
        self.refuse: ErrorInfo | None = None
        self.drafters: tuple[str, ...] = ("ngram",)
        self.script: Callable[[ScriptedEngine, Generate], None] | None = None
        self.request: Generate | None = None
        self.totals = Totals()
        self._events: deque[Event] = deque()
        self._lock = threading.Lock()
        self._wake: Callable[[], None] = lambda: None

    # ------------------------------------------------------------ EngineHost

    def send(self, command: Command) -> None:
        self.commands.append(command)
        if isinstance(command, Load):
            if self.refuse is not None:
                self.put(LoadRefused(command.load_id, self.refuse))
            elif self.auto_load:
                self.finish_load()
        elif isinstance(command, Unload):
            self.put(Unloaded())
        elif isinstance(command, Generate):
            self.request = command
            self.totals = Totals(tokens=1, first_tokens=1, prompt_tokens=24, prompt_s=0.2)
            if self.script is not None:
                self.script(self, command)
        elif isinstance(command, Cancel) and self.request is not None:
            self.finish(FinishReason.CANCELLED)

    def take(self) -> list[Event]:
        with self._lock:
            events = list(self._events)
            self._events.clear()
        return events

    def set_wake(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def close(self) -> None:
        self.closed = True

    # ------------------------------------------------------------ what a test says

    def put(self, *events: Event) -> None:
        """May be called from any thread."""
        with self._lock:
            first = not self._events
            self._events.extend(events)
        if first:
            self._wake()

    def last(self, kind: type[Command]) -> Command:
        return next(c for c in reversed(self.commands) if isinstance(c, kind))

    def finish_load(self) -> None:
        load = self.last(Load)
        assert isinstance(load, Load)
        self.put(LoadProgress(load.load_id, "target", 0.5))
        self.put(
            Loaded(
                load.load_id,
                model_info(load.target),
                model_info(load.draft) if load.draft else None,
                N_CTX,
                2,
                self.drafters,
                (DeviceInfo("CPU", "Some processor", "cpu", 8 << 30, 16 << 30),),
                {"target weights": 145_000_000, "target KV": 190_000_000, "compute": 60_000_000},
                Sampling(),
                0.8,
                False,
            )
        )

    def reading(self, done: int, total: int) -> None:
        assert self.request is not None
        self.put(PromptProgress(self.request.request_id, 0, done, total))

    def say(self, text: str | Sequence[Span], channel: str = "answer") -> None:
        assert self.request is not None
        spans = (Span(text),) if isinstance(text, str) else tuple(text)
        self.put(Text(self.request.request_id, channel, spans))

    def round(self, proposed: int = 4, accepted: int = 3, seconds: float = 0.06) -> None:
        assert self.request is not None
        one = Round(
            self.totals.rounds + 1,
            "ngram" if proposed else "",
            proposed,
            proposed,
            accepted,
            accepted + 1,
            0.2 * seconds,
            0.7 * seconds,
            0.05 * seconds,
            0.05 * seconds,
            at_s=self.totals.decode_s + seconds,
            depth=24 + self.totals.tokens,
            plain_s=0.03,
            break_even=0.3,
        )
        self.totals = self.totals.add(one)
        self.put(RoundDone(self.request.request_id, one, self.totals))

    def finish(self, reason: FinishReason = FinishReason.END) -> None:
        assert self.request is not None
        totals = replace(self.totals, elapsed_s=self.totals.decode_s + 0.3)
        used = totals.prompt_tokens + totals.tokens
        self.put(Finished(self.request.request_id, reason, totals, used, N_CTX))
        self.request = None

    def die(self, message: str = "The engine ended without being asked to.") -> None:
        self.request = None
        self.put(EngineGone(ErrorInfo("EngineDied", message, "Load the models again.")))

    def reply(self, words: Iterable[str], reason: FinishReason = FinishReason.END) -> None:
        """A whole reply at once."""
        for word in words:
            self.say(word)
            self.round()
        self.finish(reason)
