"""Runs every prompt in every mode, interleaved, over one loaded pair."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from slipstream.bench.tasks import BenchMode, BenchPrompt
from slipstream.domain import errors
from slipstream.domain.protocol import (
    Cancel,
    Command,
    EngineGone,
    Event,
    Failed,
    Finished,
    FinishReason,
    Generate,
    Load,
    Loaded,
    LoadProgress,
    LoadRefused,
    RenderedPrompt,
    RenderPrompt,
    Text,
)
from slipstream.domain.rounds import Totals
from slipstream.domain.sampling import Sampling

_POLL_S = 0.2
_CANCEL_LIMIT_S = 10.0  # how long a cancelled run may take to say so
_T = TypeVar("_T")


class Host(Protocol):
    """An engine somewhere; the part of it that measuring needs."""

    def send(self, command: Command) -> None: ...
    def wait(self, timeout_s: float) -> list[Event]: ...


@dataclass(frozen=True)
class Plan:
    """All that a benchmark is told. Every prompt runs `repeats` times in each mode, to at most `max_tokens` tokens
    (0: to the end). `warm_ups` runs of each mode come first and are thrown away."""

    load: Load
    prompts: tuple[BenchPrompt, ...]
    modes: tuple[BenchMode, ...]
    sampling: Sampling
    max_tokens: int = 256
    repeats: int = 1
    warm_ups: int = 1


@dataclass(frozen=True)
class Run:
    """One measured reply. `text_sha256` is over all of its text, reasoning first, as UTF-8."""

    id: str
    task: str
    mode: str
    repeat: int
    finish: FinishReason
    totals: Totals
    text_sha256: str


@dataclass(frozen=True)
class Failure:
    """A run that did not come to its end."""

    id: str
    task: str
    mode: str
    repeat: int
    error: errors.ErrorInfo


@dataclass(frozen=True)
class Progress:
    """`done` of `total` runs, warm-ups included; `last` is what just ended (None for a warm-up)."""

    done: int
    total: int
    last: Run | Failure | None


@dataclass(frozen=True)
class Result:
    """What came of a plan; with `cancelled` only the runs up to then. `started_at` is ISO 8601, UTC."""

    loaded: Loaded
    runs: tuple[Run, ...]
    failures: tuple[Failure, ...]
    cancelled: bool
    started_at: str
    elapsed_s: float


class _Stopped(Exception):
    """The user cancelled; what was running is thrown away."""


def raised(info: errors.ErrorInfo) -> errors.SlipstreamError:
    """An error that crossed the process boundary, as the exception it was."""
    kind = getattr(errors, info.kind, None)
    known = kind if isinstance(kind, type) and issubclass(kind, errors.SlipstreamError) else errors.SlipstreamError
    return known(info.message, info.hint, info.detail)


def load_pair(
    host: Host, command: Load, cancelled: Callable[[], bool], on_progress: Callable[[LoadProgress], None] | None = None
) -> Loaded:
    """Load and wait for it. `cancelled` is asked a few times a second.

    Raises what the engine says (LoadFailed, OutOfMemory, PairMismatch, …), EngineDied, or Cancelled."""
    host.send(command)
    asked = False
    while True:
        if cancelled() and not asked:
            asked = True
            host.send(Cancel())
        for event in host.wait(_POLL_S):
            match event:
                case LoadProgress() if event.load_id == command.load_id and on_progress is not None:
                    on_progress(event)
                case Loaded() if event.load_id == command.load_id:
                    if asked:  # the cancel came too late to stop it
                        raise errors.Cancelled("Loading was cancelled.")
                    return event
                case LoadRefused() if event.load_id == command.load_id:
                    raise raised(event.error)
                case EngineGone():
                    raise raised(event.error)


def order(modes: Sequence[_T], index: int) -> tuple[_T, ...]:
    """The order of the modes at the index-th prompt. Each pair of prompts goes through them forwards, then backwards,
    so that a machine that grows steadily slower takes the same from all; the pairs start at different modes, so that
    none always follows the same other."""
    start = index // 2 % len(modes)
    turned = (*modes[start:], *modes[:start])
    return turned[::-1] if index % 2 else turned


class Runner:
    """One benchmark. `run` blocks its thread; `cancel` may be called from any other, or from a signal handler."""

    def __init__(self, host: Host, plan: Plan, on_progress: Callable[[Progress], None] | None = None) -> None:
        self._host = host
        self._plan = plan
        self._on_progress = on_progress or (lambda progress: None)
        self._cancelled = threading.Event()
        self._request_id = 0
        self._done = 0
        self._runs: list[Run] = []
        self._failures: list[Failure] = []

    def cancel(self) -> None:
        """Stop at once; what was measured so far is kept."""
        self._cancelled.set()

    def run(self, on_load: Callable[[LoadProgress], None] | None = None) -> Result:
        """Load the pair, warm up, measure. A run that fails is recorded and the others go on; where the engine itself
        ends, what was measured until then is all there is. Raises as `load_pair` does."""
        started_at, began = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
        loaded = load_pair(self._host, self._plan.load, self._cancelled.is_set, on_load)
        cancelled = False
        try:
            self._warm_up()
            self._measure()
        except _Stopped:
            cancelled = True
        except errors.EngineDied:
            pass  # recorded as a failure of the run it ended
        elapsed_s = time.perf_counter() - began
        return Result(loaded, tuple(self._runs), tuple(self._failures), cancelled, started_at, elapsed_s)

    @property
    def _total(self) -> int:
        plan = self._plan
        return len(plan.modes) * (plan.warm_ups + len(plan.prompts) * plan.repeats)

    def _warm_up(self) -> None:
        """Different prompts for different modes: what auto learns of a pair should come from more than one task."""
        plan = self._plan
        for index in range(plan.warm_ups * len(plan.modes)):
            mode, prompt = plan.modes[index % len(plan.modes)], plan.prompts[index % len(plan.prompts)]
            outcome = self._one(prompt, mode, -1)
            if isinstance(outcome, Failure):
                self._failed(outcome)
            self._tell(None)

    def _measure(self) -> None:
        plan = self._plan
        for repeat in range(plan.repeats):
            for index, prompt in enumerate(plan.prompts):
                for mode in order(plan.modes, repeat * len(plan.prompts) + index):
                    outcome = self._one(prompt, mode, repeat)
                    if isinstance(outcome, Failure):
                        self._failed(outcome)
                    else:
                        self._runs.append(outcome)
                    self._tell(outcome)

    def _failed(self, failure: Failure) -> None:
        self._failures.append(failure)
        if failure.error.kind == errors.EngineDied.__name__:
            raise raised(failure.error)

    def _tell(self, last: Run | Failure | None) -> None:
        self._done += 1
        self._on_progress(Progress(self._done, self._total, last))

    def _one(self, prompt: BenchPrompt, mode: BenchMode, repeat: int) -> Run | Failure:
        """One reply from an empty cache. All modes draw with the same seed."""
        sampling = self._plan.sampling
        if sampling.seed is not None:
            sampling = replace(sampling, seed=sampling.seed + max(repeat, 0))
        self._request_id += 1
        command = Generate(
            self._request_id, prompt.conversation, sampling, mode.speculation, self._plan.max_tokens, fresh=True
        )
        if self._cancelled.is_set():
            raise _Stopped
        self._host.send(command)
        texts: dict[str, list[str]] = {"reasoning": [], "answer": []}
        for event in self._events():
            match event:
                case Text() if event.request_id == command.request_id:
                    texts.setdefault(event.channel, []).append(event.text)
                case Finished() if event.request_id == command.request_id:
                    if self._cancelled.is_set():
                        raise _Stopped
                    whole = "".join(part for parts in texts.values() for part in parts)
                    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
                    return Run(prompt.id, prompt.task, mode.label, repeat, event.reason, event.totals, digest)
                case Failed() if event.request_id == command.request_id:
                    return Failure(prompt.id, prompt.task, mode.label, repeat, event.error)
                case EngineGone():
                    info = replace(event.error, kind=errors.EngineDied.__name__)
                    return Failure(prompt.id, prompt.task, mode.label, repeat, info)
        raise _Stopped

    def _events(self) -> Iterator[Event]:
        """Events as they come; ends only where a cancel brings no answer."""
        deadline: float | None = None
        while True:
            if self._cancelled.is_set():
                if deadline is None:
                    deadline = time.monotonic() + _CANCEL_LIMIT_S
                    self._host.send(Cancel())
                elif time.monotonic() > deadline:
                    return
            yield from self._host.wait(_POLL_S)


def render_prompts(host: Host, prompts: Sequence[BenchPrompt]) -> list[dict[str, str]]:
    """Each prompt as the loaded target reads it: {"id", "task", "prompt"}. Raises TemplateFailed, EngineDied."""
    found: list[dict[str, str]] = []
    for number, prompt in enumerate(prompts, 1):
        host.send(RenderPrompt(number, prompt.conversation))
        found.append({"id": prompt.id, "task": prompt.task, "prompt": _rendered(host, number)})
    return found


def _rendered(host: Host, request_id: int) -> str:
    while True:
        for event in host.wait(_POLL_S):
            match event:
                case RenderedPrompt() if event.request_id == request_id:
                    return event.prompt
                case Failed() if event.request_id == request_id:
                    raise raised(event.error)
                case EngineGone():
                    raise raised(event.error)
