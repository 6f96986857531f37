"""The engine's worker thread: a queue of commands in, events out."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable

from slipstream.domain import errors
from slipstream.domain.protocol import (
    Cancel,
    Command,
    Event,
    Failed,
    Generate,
    Load,
    LoadRefused,
    RenderedPrompt,
    RenderPrompt,
    Shutdown,
    Unload,
    Unloaded,
)
from slipstream.engine.host import Outbox, PaceStore
from slipstream.engine.reply import Reply, session_prompt
from slipstream.engine.session import ForgetfulStore, Session
from slipstream.llama.backend import Backend


class EngineWorker(threading.Thread):
    """Runs commands one after another. Every exception becomes an event; the thread lives until Shutdown."""

    def __init__(self, emit: Callable[[Event], None], store: PaceStore | None = None) -> None:
        super().__init__(name="slipstream-engine", daemon=True)
        self._emit = emit
        self._store = store or ForgetfulStore()
        self._commands: queue.SimpleQueue[tuple[int, Command]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._sent = 0
        self._running = 0
        self._cancelled = 0  # commands up to this number are cancelled
        self._abort = threading.Event()
        self._session: Session | None = None
        self._backend: Backend | None = None

    def send(self, command: Command) -> None:
        with self._lock:
            if isinstance(command, Cancel | Load | Unload | Shutdown):
                # what runs or waits is stopped; a cancel that comes too late must not stop what follows
                self._cancelled = self._sent
                if 0 < self._running <= self._cancelled:
                    self._abort.set()
            if isinstance(command, Cancel):
                return
            self._sent += 1
            self._commands.put((self._sent, command))

    def run(self) -> None:
        while True:
            number, command = self._commands.get()
            with self._lock:
                self._running = number
                self._abort.clear()
                if number <= self._cancelled:
                    self._abort.set()
            if isinstance(command, Shutdown):
                self._close_session()
                return
            try:
                self._obey(command)
            except errors.SlipstreamError as error:
                self._refuse(command, error.info())
            except Exception as error:
                info = errors.ErrorInfo(
                    "Bug", f"Something went wrong in the engine: {error}.", "Load the model again.", traceback.format_exc()
                )
                self._refuse(command, info)
            with self._lock:
                self._running = 0

    def _obey(self, command: Command) -> None:
        match command:
            case Load():
                self._load(command)
            case Generate():
                session = self._need()
                try:
                    Reply(session, command).run(self._emit)
                finally:
                    session.save()
            case RenderPrompt():
                rendered, _ = session_prompt(self._need(), command.conversation, None)
                self._emit(RenderedPrompt(command.request_id, rendered.prompt))
            case Unload():
                self._close_session()
                self._emit(Unloaded())

    def _load(self, command: Load) -> None:
        self._close_session()
        if self._backend is None:
            self._backend = Backend()
        session = Session(command.settings, self._store)
        try:
            loaded = session.open(self._backend, command, self._abort, self._emit)
        except BaseException:
            session.close()
            raise
        self._session = session
        self._emit(loaded)

    def _need(self) -> Session:
        if self._session is None:
            raise errors.LoadFailed("No model is loaded.", "Load one first.")
        return self._session

    def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _refuse(self, command: Command, info: errors.ErrorInfo) -> None:
        if isinstance(command, Load):
            self._emit(LoadRefused(command.load_id, info))
        elif isinstance(command, Generate | RenderPrompt):
            self._emit(Failed(command.request_id, info))


class ThreadHost:
    """The worker in this process."""

    def __init__(self, store: PaceStore | None = None) -> None:
        self._outbox = Outbox()
        self._worker = EngineWorker(self._outbox.put, store)
        self._worker.start()
        self.take = self._outbox.take
        self.wait = self._outbox.wait
        self.set_wake = self._outbox.set_wake

    def send(self, command: Command) -> None:
        self._worker.send(command)

    def close(self) -> None:
        deadline = time.monotonic() + 3
        self._worker.send(Shutdown())
        self._worker.join(max(0.0, deadline - time.monotonic()))
