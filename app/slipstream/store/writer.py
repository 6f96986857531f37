"""The one thread that owns the chat database.

Everything goes through its queue, so calls never wait for the disk and a read sees every write asked for
before it. Text of a running reply is written through at most every 250 ms; anything else as soon as the queue is
empty. What could not be written stays in memory, in order, and is tried again.
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from slipstream.domain.errors import StoreFailed
from slipstream.domain.protocol import Span
from slipstream.store.database import NewerDatabase, Opened, is_environment, store_failed
from slipstream.store.queries import insert_piece

_log = logging.getLogger(__name__)

T = TypeVar("T")

INTERVAL_S = 0.25
_FIRST_RETRY_S = 1.0
_LONGEST_RETRY_S = 15.0


class Waiting(Protocol):
    """A write that waits for its turn. Applied again from the start where the transaction failed."""

    def apply(self, connection: sqlite3.Connection) -> None: ...


@dataclass(frozen=True)
class Write:
    """`urgent`: written as soon as the queue is empty, not after the interval."""

    apply: Callable[[sqlite3.Connection], None]
    urgent: bool = True


@dataclass
class Piece:
    """Text added to a message since the last write; several appends become one row."""

    message_id: str
    channel: str
    spans: list[Span] = field(default_factory=list)

    def apply(self, connection: sqlite3.Connection) -> None:
        insert_piece(connection, self.message_id, self.channel, self.spans)


@dataclass(frozen=True)
class _Append:
    message_id: str
    channel: str
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class _Read:
    run: Callable[[sqlite3.Connection], Any]
    answer: Future[Any]


@dataclass(frozen=True)
class _Flush:
    done: Future[bool]
    last: bool = False


_Item = Write | _Append | _Read | _Flush


class ChatWriter:
    """Owns the connection on a background thread of its own; every method may be called from any thread.

    `on_error` gets a StoreFailed on the writer's thread, once per kind of failure until saving works again;
    `on_recovered` is called there when it does. Where the file can't be opened, `spare` makes a database in memory
    to go on with, and what was written there is replayed once the file opens.
    """

    def __init__(
        self,
        path: Path,
        opener: Callable[[], Opened],
        spare: Callable[[], sqlite3.Connection],
        on_error: Callable[[StoreFailed], None],
        *,
        on_recovered: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._path = path
        self._opener = opener
        self._make_spare = spare
        self._on_error = on_error
        self._on_recovered = on_recovered
        self._clock = clock
        self._interval_s = interval_s
        self._queue: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self.opened: Future[tuple[str, ...]] = Future()  # notices of the first opening
        self.opened.set_running_or_notify_cancel()  # a waiter that gives up must not cancel it for the others
        # From here on the writer's thread only.
        self._connection: sqlite3.Connection | None = None
        self._on_spare = False
        self._may_reopen = True
        self._replay: list[Waiting] = []  # written to the spare only
        self._pending: list[Waiting] = []
        self._open_pieces: dict[tuple[str, str], Piece] = {}
        self._due_s: float | None = None
        self._waiting_since_s = 0.0
        self._retry_s = 0.0
        self._next_try_s: float | None = None
        self._reported: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="chat-writer", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------ any thread

    def write(self, apply: Callable[[sqlite3.Connection], None], urgent: bool = True) -> None:
        """Ask for a write and go on. After `close` it is dropped and reported."""
        self._put(Write(apply, urgent))

    def append(self, message_id: str, channel: str, spans: Sequence[Span]) -> None:
        """Add text to a message; written through within the interval."""
        self._put(_Append(message_id, channel, tuple(spans)))

    def read(self, run: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """The result of `run`, called on the writer's thread after every earlier write. Fails with StoreFailed."""
        answer: Future[T] = Future()
        if not self._put(_Read(run, answer)):
            answer.set_exception(_closed())
        return answer

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until all that was asked for is on disk. False where it isn't (yet)."""
        done: Future[bool] = Future()
        if not self._put(_Flush(done)):
            return False
        try:
            return done.result(timeout_s)
        except TimeoutError:
            return False

    def close(self, timeout_s: float | None = 10.0) -> bool:
        """Write what waits, close the database and end the thread. False where something stayed unsaved."""
        done: Future[bool] = Future()
        with self._closing:
            if self._closed:
                return True
            self._closed = True
            self._queue.put(_Flush(done, last=True))
        self._thread.join(timeout_s)
        return done.done() and done.result()

    def _put(self, item: _Item) -> bool:
        with self._closing:  # nothing may land behind the sentinel
            if not self._closed:
                self._queue.put(item)
                return True
        if not isinstance(item, _Read | _Flush):
            self._tell(_closed())
        return False

    # ------------------------------------------------------------ the writer's thread

    def _run(self) -> None:
        self._start()
        while True:
            try:
                item = self._next()
            except queue.Empty:
                self._save()
                continue
            if isinstance(item, _Flush):
                self._save(flush=True)
                saved = not self._pending and not self._replay
                if item.last:
                    self._end()
                item.done.set_result(saved)
                if item.last:
                    return
            elif isinstance(item, _Read):
                if item.answer.set_running_or_notify_cancel():
                    self._save(item)
            else:
                self._take(item)
                if self._clock() - self._waiting_since_s >= self._interval_s:
                    self._save()  # a queue that never runs empty must not put it off

    def _next(self) -> _Item:
        """The next item; raises queue.Empty when a write is due and nothing else waits."""
        while True:
            if self._due_s is None:
                return self._queue.get()
            left_s = self._due_s - self._clock()
            try:
                # Short sleeps, because the clock may be one that the test moves.
                return self._queue.get(timeout=min(max(left_s, 0.0), self._interval_s))
            except queue.Empty:
                if self._clock() >= self._due_s:
                    raise

    def _take(self, item: Write | _Append) -> None:
        now_s = self._clock()
        if not self._pending:
            self._waiting_since_s = now_s
        urgent = False
        if isinstance(item, _Append):
            key = (item.message_id, item.channel)
            piece = self._open_pieces.get(key)
            if piece is None:
                piece = self._open_pieces[key] = Piece(*key)
                self._pending.append(piece)
            piece.spans.extend(item.spans)
        else:
            self._open_pieces.clear()  # later text must not slip before this write
            self._pending.append(item)
            urgent = item.urgent
        due_s = now_s if urgent else self._waiting_since_s + self._interval_s
        if self._next_try_s is not None:
            due_s = max(due_s, self._next_try_s)
        self._due_s = due_s if self._due_s is None else min(self._due_s, due_s)

    def _start(self) -> None:
        try:
            opened = self._opener()
            self._connection = opened.connection
            self.opened.set_result(opened.notices)
        except BaseException as error:
            failure = self._failed(error)
            self._may_reopen = not isinstance(failure, NewerDatabase)
            self._on_spare = True
            self._connection = self._make_spare()
            if self._may_reopen:
                self._back_off()
            self.opened.set_result((failure.info().sentence(),))

    def _save(self, read: _Read | None = None, flush: bool = False) -> None:
        """Write all that waits in one transaction. `read` sees it even where the commit then fails.

        After a failure a plain save waits for the next try; a read or a flush doesn't."""
        too_early = self._next_try_s is not None and self._clock() < self._next_try_s
        if too_early and read is None and not flush:
            self._due_s = self._next_try_s
            return
        if self._on_spare and self._may_reopen and (flush or not too_early):
            self._reopen()
        connection = self._connection
        assert connection is not None
        try:
            if self._pending:
                connection.execute("BEGIN IMMEDIATE")
                self._apply(connection)
                if read is not None:
                    self._answer(connection, read)
                connection.execute("COMMIT")
                self._saved()
        except sqlite3.Error as error:
            self._roll_back(connection)
            self._failed(error)
            self._back_off()
        if read is not None and not read.answer.done():
            self._answer(connection, read)

    def _apply(self, connection: sqlite3.Connection) -> None:
        """Apply the waiting writes. One that can never work is dropped and reported, the others go on."""
        kept: list[Waiting] = []
        for waiting in self._pending:
            connection.execute("SAVEPOINT one")
            try:
                waiting.apply(connection)
            except Exception as error:
                if isinstance(error, sqlite3.Error) and is_environment(error):
                    raise
                _log.exception("a write to the chat database was refused")
                connection.execute("ROLLBACK TO one")
                self._failed(error)
            else:
                kept.append(waiting)
            connection.execute("RELEASE one")
        if len(kept) != len(self._pending):
            self._pending[:] = kept
            self._open_pieces.clear()  # text must not be added to a piece that was dropped

    def _saved(self) -> None:
        if self._on_spare:
            self._replay.extend(self._pending)
        elif self._next_try_s is not None or self._reported:
            recovered = self._next_try_s is not None
            self._reported.clear()
            self._next_try_s, self._retry_s = None, 0.0
            if recovered and self._on_recovered is not None:
                self._guarded(self._on_recovered)
        self._pending.clear()
        self._open_pieces.clear()
        # On the spare a timer stays set, to try the file again.
        self._due_s = self._next_try_s if self._on_spare and self._may_reopen else None

    def _reopen(self) -> None:
        try:
            connection = self._opener().connection
        except Exception as error:
            self._failed(error)
            self._back_off()
            return
        if self._connection is not None:
            self._connection.close()
        self._connection, self._on_spare = connection, False
        self._pending[:0] = self._replay
        self._replay.clear()
        if not self._pending:
            self._saved()

    def _answer(self, connection: sqlite3.Connection, read: _Read) -> None:
        try:
            read.answer.set_result(read.run(connection))
        except Exception as error:
            read.answer.set_exception(store_failed(error, self._path))

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:  # SQLite itself rolls back after some errors
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            _log.exception("rollback failed")

    def _back_off(self) -> None:
        self._retry_s = min(max(self._retry_s * 2, _FIRST_RETRY_S), _LONGEST_RETRY_S)
        self._next_try_s = self._clock() + self._retry_s
        self._due_s = self._next_try_s if self._pending or (self._on_spare and self._may_reopen) else None

    def _failed(self, error: BaseException) -> StoreFailed:
        failure = store_failed(error, self._path)
        if failure.message not in self._reported:
            self._reported.add(failure.message)
            _log.error("%s %s", failure.message, failure.detail)
            self._tell(failure)
        return failure

    def _tell(self, failure: StoreFailed) -> None:
        self._guarded(lambda: self._on_error(failure))

    @staticmethod
    def _guarded(callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:
            _log.exception("a callback of the chat store failed")

    def _end(self) -> None:
        try:
            if self._connection is not None:
                self._connection.close()
        except sqlite3.Error:
            _log.exception("closing the chat database failed")


def _closed() -> StoreFailed:
    return StoreFailed("The chat store is closed.", "Restart Slipstream.", "used after close()")
