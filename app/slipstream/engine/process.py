"""The worker in a child process, which the window outlives.

llama.cpp aborts its process on some out-of-memory and assertion paths; no Python code can catch that. Frames on
the pipes are a 4-byte length and a pickle; both ends are ours.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import IO

from slipstream.domain import errors
from slipstream.domain.protocol import Command, EngineGone, Event, Load, Shutdown
from slipstream.engine import environment
from slipstream.engine.host import Outbox, PaceStore

_LENGTH = struct.Struct("<I")


def write_frame(stream: IO[bytes], thing: object) -> None:
    data = pickle.dumps(thing)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> object | None:
    """The next frame; None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    return pickle.loads(data) if len(data) == length else None


def engine_command() -> list[str]:
    """How this program starts itself as an engine, frozen or not."""
    return [sys.executable, *([] if getattr(sys, "frozen", False) else ["-m", "slipstream"]), "engine"]


class ProcessHost:
    """Starts a child at the first command after none is alive; ends it when told to, or with this process."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self._command = list(command or engine_command())
        self._outbox = Outbox()
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._closing = False
        self.take = self._outbox.take
        self.wait = self._outbox.wait
        self.set_wake = self._outbox.set_wake

    @property
    def pid(self) -> int | None:
        """The child's process id, None while there is none."""
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    def send(self, command: Command) -> None:
        with self._lock:
            if self.pid is None:
                if not isinstance(command, Load):
                    if not isinstance(command, Shutdown):
                        self._outbox.put(EngineGone(_gone(None)))
                    return
                self._start()
            assert self._child is not None and self._child.stdin is not None
            try:
                write_frame(self._child.stdin, command)
            except OSError:
                pass  # the reader thread tells of the child's end

    def _start(self) -> None:
        flags = {"creationflags": 0x08000000} if sys.platform == "win32" else {}  # CREATE_NO_WINDOW
        self._child = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **flags
        )  # type: ignore[call-overload]
        words: deque[str] = deque(maxlen=40)
        threading.Thread(target=_overhear, args=(self._child, words), name="slipstream-stderr", daemon=True).start()
        threading.Thread(target=self._read, args=(self._child, words), name="slipstream-events", daemon=True).start()

    def _read(self, child: subprocess.Popen[bytes], words: deque[str]) -> None:
        """Pass the child's events on until it ends; then say how, with its last words for the log."""
        assert child.stdout is not None
        try:
            while (event := read_frame(child.stdout)) is not None:
                self._outbox.put(event)  # type: ignore[arg-type]
        except Exception:  # a torn frame is the same as an ended child
            child.kill()
        code = child.wait()
        if child.stdin is not None:
            try:
                child.stdin.close()
            except OSError:
                pass
        child.stdout.close()
        if not self._closing:
            self._outbox.put(EngineGone(_gone(code, "\n".join(words))))

    def close(self) -> None:
        self._closing = True
        child = self._child
        if child is None or child.poll() is not None:
            return
        self.send(Shutdown())
        try:
            child.wait(2.5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(2)


def _overhear(child: subprocess.Popen[bytes], words: deque[str]) -> None:
    assert child.stderr is not None
    with child.stderr as stream:
        for line in stream:
            words.append(line.decode("utf-8", "replace").rstrip())


def _gone(code: int | None, words: str = "") -> errors.ErrorInfo:
    detail = "" if code is None else f"exit code {code}\n{words}".strip()
    message = "The engine stopped unexpectedly."
    if code is not None and code in (-9, 137):
        message = "The engine was ended by the system, most likely for want of memory."
    return errors.EngineDied(message, "What was written so far is kept. Load the model again to go on.", detail).info()


def run_child(store: PaceStore | None = None) -> int:
    """The child's main: commands from stdin, events to stdout, until stdin ends."""
    environment.prepare()
    from slipstream.engine.worker import EngineWorker  # loads llama.cpp, which the window's process never does

    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not reach the pipe
    lock = threading.Lock()

    def emit(event: Event) -> None:
        with lock:
            write_frame(out, event)

    worker = EngineWorker(_quiet(emit), store)
    worker.start()
    while (command := read_frame(sys.stdin.buffer)) is not None:
        worker.send(command)  # type: ignore[arg-type]
        if isinstance(command, Shutdown):
            break
    else:
        worker.send(Shutdown())
    worker.join(2)
    out.flush()
    os._exit(0)  # a decode that can't be aborted must not keep the child alive


def _quiet(emit: Callable[[Event], None]) -> Callable[[Event], None]:
    def send(event: Event) -> None:
        try:
            emit(event)
        except OSError:
            os._exit(0)  # the window is gone

    return send
