"""The only door between the engine's events and the window: at most 30 batches a second, none when idle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from slipstream.domain.protocol import Command, Event, Text

FRAME_MS = 33


class EngineHost(Protocol):
    """An engine somewhere: a child process, a thread, or a script in a test."""

    def send(self, command: Command) -> None:
        """Hand over a command; never blocks."""

    def take(self) -> list[Event]:
        """All waiting events; never blocks."""

    def set_wake(self, wake: Callable[[], None]) -> None:
        """`wake` is called, from any thread, when events begin to wait."""

    def close(self) -> None:
        """End the worker and its process, within three seconds."""


class Bridge(QObject):
    """Drains the host into `batch(list[Event])`. A timer runs only while something waits."""

    batch = Signal(list)
    _woken = Signal()

    def __init__(self, host: EngineHost, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._host = host
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._drain)
        self._woken.connect(self._arm, Qt.ConnectionType.QueuedConnection)
        self._closed = False
        host.set_wake(self._wake)

    @property
    def idle(self) -> bool:
        return not self._timer.isActive()

    def send(self, command: Command) -> None:
        self._host.send(command)

    def close(self) -> None:
        """End the host. Blocks for up to three seconds: for the way out only."""
        self._closed = True
        self._timer.stop()
        self._host.close()

    def _wake(self) -> None:
        if not self._closed:
            self._woken.emit()

    def _arm(self) -> None:
        if not self._closed and not self._timer.isActive():
            self._timer.start(FRAME_MS)

    def _drain(self) -> None:
        events = merge(self._host.take())
        if events:
            # The host wakes only when its queue was empty: what comes while we draw is looked for once more.
            self._timer.start(FRAME_MS)
            self.batch.emit(events)


def merge(events: Iterable[Event]) -> list[Event]:
    """The same events with neighbouring texts of one request and channel as one."""
    merged: list[Event] = []
    run: list[Text] = []

    def flush() -> None:
        if run:
            spans = tuple(span for text in run for span in text.spans)
            merged.append(run[0] if len(run) == 1 else Text(run[0].request_id, run[0].channel, spans))
            run.clear()

    for event in events:
        if isinstance(event, Text):
            if run and (run[0].request_id, run[0].channel) != (event.request_id, event.channel):
                flush()
            run.append(event)
        else:
            flush()
            merged.append(event)
    flush()
    return merged
