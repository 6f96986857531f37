"""What a window or a command line holds of an engine. Loads no llama.cpp."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from slipstream.domain.protocol import Command, Event


@dataclass(frozen=True)
class Pair:
    """All that the speed of a pair depends on. Paths; `draft` is empty where there is none."""

    target: str
    draft: str
    device: str
    threads: int
    kv_type: str


class PaceStore(Protocol):
    """Where what was learned of a pair is kept between runs. Neither method raises."""

    def load(self, pair: Pair) -> dict[str, Any] | None: ...
    def save(self, pair: Pair, record: dict[str, Any]) -> None: ...


class EngineHost(Protocol):
    """What a window or a command line holds: an engine somewhere."""

    def send(self, command: Command) -> None:
        """Never blocks."""

    def take(self) -> list[Event]:
        """All waiting events, in order; never blocks."""

    def wait(self, timeout_s: float) -> list[Event]:
        """Like take, but waits for the first event."""

    def set_wake(self, wake: Callable[[], None]) -> None:
        """`wake` is called from another thread when events are waiting."""

    def close(self) -> None:
        """End the worker, within about 3 s."""


class Outbox:
    """Events on their way out, with a wake-up for whoever drains them."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._ready = threading.Condition()
        self._wake: Callable[[], None] | None = None

    def put(self, event: Event) -> None:
        with self._ready:
            self._events.append(event)
            wake = self._wake if len(self._events) == 1 else None
            self._ready.notify_all()
        if wake is not None:
            wake()

    def take(self) -> list[Event]:
        with self._ready:
            events = list(self._events)
            self._events.clear()
        return events

    def wait(self, timeout_s: float) -> list[Event]:
        with self._ready:
            self._ready.wait_for(lambda: self._events, timeout_s)
        return self.take()

    def set_wake(self, wake: Callable[[], None]) -> None:
        with self._ready:
            self._wake = wake
            waiting = bool(self._events)
        if waiting:
            wake()
