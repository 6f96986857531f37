"""The worker in a child process, which the window outlives.

llama.cpp aborts its process on some out-of-memory and assertion paths; no Python code can catch that. Frames on
the pipes are a 4-byte length and a pickle; both ends are ours.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import IO

from slipstream.domain import errors
from slipstream.domain.protocol import (
    Cancel,
    Command,
    EngineGone,
    Event,
    Load,
    LoadRefused,
    Shutdown,
    Unload,
    Unloaded,
)
from slipstream.engine import environment
from slipstream.engine.host import Outbox, PaceStore

_LENGTH = struct.Struct("<I")
_PATIENCE_S = 2.5  # what a child has to end by itself


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
        self._commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._closing = False
        self._leaving = False  # the child was told to end
        self._waiting: list[Command] = []  # commands for the child after it
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
            self._send(command)

    def _send(self, command: Command) -> None:
        if self._leaving or (self._child is not None and self._child.poll() is not None):
            # until its reader is done: a new child may need the memory that this one still holds, and the old one's
            # end must be told before the new one's beginning
            self._waiting.append(command)
        elif self.pid is None:
            if isinstance(command, Load):
                self._load(command)
            elif isinstance(command, Unload):
                self._outbox.put(Unloaded())
            elif not isinstance(command, Shutdown | Cancel):
                self._outbox.put(EngineGone(_gone(None)))
        elif isinstance(command, Unload):
            # the child ends, so that the memory really comes back
            self._leaving = True
            self._commands.put(Shutdown())
            assert self._child is not None
            killer = threading.Timer(_PATIENCE_S, self._child.kill)
            killer.daemon = True
            killer.start()
        else:
            self._commands.put(command)

    def _load(self, command: Load) -> None:
        try:
            self._start()
        except OSError as error:
            info = errors.EngineDied("The engine could not be started.", "Try again.", str(error)).info()
            self._outbox.put(LoadRefused(command.load_id, info))
        else:
            self._commands.put(command)

    def _start(self) -> None:
        flags = {"creationflags": 0x08000000} if sys.platform == "win32" else {}  # CREATE_NO_WINDOW
        self._child = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **flags
        )  # type: ignore[call-overload]
        words: deque[str] = deque(maxlen=40)
        self._commands = queue.SimpleQueue()  # what an earlier child did not read is not for this one
        threading.Thread(
            target=_write, args=(self._child, self._commands), name="slipstream-commands", daemon=True
        ).start()
        ear = threading.Thread(target=_overhear, args=(self._child, words), name="slipstream-stderr", daemon=True)
        ear.start()
        reader = threading.Thread(target=self._read, args=(self._child, words, ear, self._commands), daemon=True)
        reader.name = "slipstream-events"
        reader.start()

    def _read(
        self,
        child: subprocess.Popen[bytes],
        words: deque[str],
        ear: threading.Thread,
        commands: queue.SimpleQueue[Command | None],
    ) -> None:
        """Pass the child's events on until it ends; then say how, with its last words for the log."""
        assert child.stdout is not None
        try:
            while (event := read_frame(child.stdout)) is not None:
                self._outbox.put(event)  # type: ignore[arg-type]
        except Exception:  # a torn frame is the same as an ended child
            child.kill()
        code = child.wait()
        ear.join(1)
        commands.put(None)
        child.stdout.close()
        with self._lock:
            left, self._leaving = self._leaving, False
            if not self._closing:
                self._outbox.put(Unloaded() if left else EngineGone(_gone(code, "\n".join(words))))
            self._child = None
            # what was sent to a child that died by itself is void, as EngineGone says; a Load is meant for the next one
            waiting = [c for c in self._waiting if left or isinstance(c, Load)] if not self._closing else []
            self._waiting = []
            for command in waiting:
                self._send(command)

    def close(self) -> None:
        self._closing = True
        child = self._child
        if child is None or child.poll() is not None:
            return
        self._commands.put(Shutdown())
        try:
            child.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(2)


def _write(child: subprocess.Popen[bytes], commands: queue.SimpleQueue[Command | None]) -> None:
    """Pass commands on, off the window's thread: a pipe whose reader hangs must not hang the window."""
    assert child.stdin is not None
    with contextlib.suppress(OSError), child.stdin as stream:  # the reader thread tells of the child's end
        while (command := commands.get()) is not None:
            write_frame(stream, command)


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
