"""The chat database: opening, schema, migrations, and what to do when it is damaged, newer or read-only."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slipstream.domain.errors import StoreFailed
from slipstream.store.files import aside_name, set_aside

_log = logging.getLogger(__name__)

APPLICATION_ID = 0x51175EA3  # in the file's header: tells our database from any other SQLite file
_BUSY_TIMEOUT_S = 2.0
_SIDE_FILES = ("-wal", "-shm", "-journal")
_MAGIC = b"SQLite format 3\0"

# Each migration is a tuple of statements, run in one transaction; the database's `user_version` counts them.
# Never change one that was released: add the next.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE chats (
            id TEXT PRIMARY KEY,
            title TEXT NOT NULL DEFAULT '',
            created_at REAL NOT NULL,
            updated_at REAL NOT NULL,
            pinned INTEGER NOT NULL DEFAULT 0,
            target TEXT NOT NULL DEFAULT '',
            draft TEXT NOT NULL DEFAULT '',
            system_prompt TEXT NOT NULL DEFAULT '',
            sampling TEXT,
            composer_text TEXT NOT NULL DEFAULT '',
            deleted_at REAL
        )""",
        # `active` 0: on a branch left behind (answered again, or edited). `parent_id` makes the tree.
        """CREATE TABLE messages (
            id TEXT PRIMARY KEY,
            chat_id TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
            parent_id TEXT REFERENCES messages (id) ON DELETE SET NULL,
            position INTEGER NOT NULL,
            active INTEGER NOT NULL DEFAULT 1,
            role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant')),
            content TEXT NOT NULL DEFAULT '',
            reasoning TEXT NOT NULL DEFAULT '',
            state TEXT NOT NULL CHECK (state IN ('streaming', 'done', 'stopped', 'failed', 'interrupted')),
            finish_reason TEXT NOT NULL DEFAULT '',
            error TEXT NOT NULL DEFAULT '',
            stats TEXT,
            spans TEXT,
            target TEXT NOT NULL DEFAULT '',
            draft TEXT NOT NULL DEFAULT '',
            created_at REAL NOT NULL
        )""",
        # Text of a reply still being written: one row per write, so that a long reply isn't rewritten each time.
        """CREATE TABLE pieces (
            id INTEGER PRIMARY KEY,
            message_id TEXT NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
            channel TEXT NOT NULL CHECK (channel IN ('answer', 'reasoning')),
            text TEXT NOT NULL,
            spans TEXT NOT NULL
        )""",
        "CREATE INDEX messages_by_chat ON messages (chat_id, active, position)",
        "CREATE INDEX messages_by_parent ON messages (parent_id)",
        "CREATE INDEX messages_streaming ON messages (state) WHERE state = 'streaming'",
        "CREATE INDEX pieces_by_message ON pieces (message_id)",
    ),
)


class NewerDatabase(StoreFailed):
    """The database was written by a later version of the program."""


class _Damaged(Exception):
    """Not a database, a broken one, or somebody else's."""


@dataclass(frozen=True)
class Opened:
    """A connection in autocommit mode, and sentences the user should read."""

    connection: sqlite3.Connection
    notices: tuple[str, ...] = ()


def open_database(path: Path, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> Opened:
    """Open or create the database, bringing an older one up to date (a copy of it is kept).

    A damaged one is renamed, never deleted, and a fresh one made; a notice says so. The connection may be
    used from one thread at a time. Raises NewerDatabase, and StoreFailed where the file can't be used.
    """
    try:
        _make_private(path)
        try:
            return Opened(_open(path, migrations))
        except _Damaged as damage:
            kept = set_aside(path, "damaged", _SIDE_FILES)
            _log.error("chat database set aside as %s: %s", kept, damage)
            _make_private(path)
            notice = (
                f"The chat database was damaged, so a new one was started. "
                f"Nothing was deleted: the old file is kept as {kept}."
            )
            return Opened(_open(path, migrations), (notice,))
    except (sqlite3.Error, OSError, _Damaged) as error:
        raise store_failed(error, path) from error


def open_spare(path: Path, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> sqlite3.Connection:
    """A database in memory for when the file can't be written: holds what can still be read of the file."""
    spare = _connect(":memory:")
    # Plain read-only needs the -shm file; "immutable" reads without it where the folder can't be written either.
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        try:
            with contextlib.closing(_connect(f"{path.absolute().as_uri()}?{mode}", uri=True)) as source:
                _check(source, path, migrations)
                source.backup(spare)
            break
        except (sqlite3.Error, OSError, StoreFailed, _Damaged) as error:
            _log.info("chats not read into memory (%s): %s", mode, error)
            spare.close()
            spare = _connect(":memory:")
    _prepare(spare)
    _migrate(spare, None, migrations)
    return spare


def is_environment(error: sqlite3.Error) -> bool:
    """True where the disk, another program or the file is at fault, so that the same write may work later."""
    return _code(error) in _SENTENCES


def store_failed(error: BaseException, path: Path) -> StoreFailed:
    """The error as a sentence. The hint never claims more than what is done: unsaved text stays in memory."""
    if isinstance(error, StoreFailed):
        return error
    code = _code(error)
    if isinstance(error, OSError):
        code = sqlite3.SQLITE_FULL if error.errno == 28 else sqlite3.SQLITE_CANTOPEN  # 28: ENOSPC
    if isinstance(error, _Damaged):
        code = sqlite3.SQLITE_CORRUPT
    message, hint = _SENTENCES.get(
        code or 0, ("A chat could not be saved or read.", "Copy what matters to you, then restart Slipstream.")
    )
    return StoreFailed(message, hint, f"{path}: {type(error).__name__}: {error}")


_READ_ONLY = (
    "The chat database can't be written.",
    "Check that the folder exists and that you may write to it. Until then chats are kept in memory only.",
)
_DAMAGED = (
    "The chat database is damaged.",
    "Restart Slipstream: it starts a new database and keeps the damaged file.",
)
_SENTENCES: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: (
        "The disk is full, so the chat could not be saved.",
        "Free some space. The text is kept in memory and saved as soon as there is room.",
    ),
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_AUTH: _READ_ONLY,
    sqlite3.SQLITE_BUSY: (
        "Another program is using the chat database.",
        "Close it. The text is kept in memory and saved as soon as the database is free.",
    ),
    sqlite3.SQLITE_LOCKED: (
        "Another program is using the chat database.",
        "Close it. The text is kept in memory and saved as soon as the database is free.",
    ),
    sqlite3.SQLITE_IOERR: (
        "The disk reported an error, so the chat could not be saved.",
        "Check the disk. The text is kept in memory and saving is tried again.",
    ),
    sqlite3.SQLITE_PROTOCOL: (
        "The chat database could not be locked.",
        "Move it off the network drive. The text is kept in memory and saving is tried again.",
    ),
    sqlite3.SQLITE_NOMEM: (
        "There was too little memory to save the chat.",
        "Close other programs. The text is kept and saving is tried again.",
    ),
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
}


def _code(error: BaseException) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None  # the low byte is the primary code


def _make_private(path: Path) -> None:
    """Chats are nobody else's business: owner-only, also for the -wal and -shm files, which take it over."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _connect(name: str, uri: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(name, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, uri=uri)
    connection.row_factory = sqlite3.Row
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    """WAL survives kill -9 and lets a reader in beside the writer. synchronous=FULL because with NORMAL a power
    cut may undo every commit since the last checkpoint, which can be minutes; FULL syncs the log at each of at most
    four commits a second and loses only what was not committed. macOS needs `fullfsync` for a real sync."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    if sys.platform == "darwin":
        connection.execute("PRAGMA fullfsync = ON")


def _open(path: Path, migrations: Sequence[Sequence[str]]) -> sqlite3.Connection:
    with open(path, "rb") as file:
        start = file.read(len(_MAGIC))
    if start and start != _MAGIC:  # SQLite takes a file of a few stray bytes for an empty one and writes over it
        raise _Damaged(f"starts with {start!r}")
    connection = _connect(str(path))
    try:
        _check(connection, path, migrations)
        _prepare(connection)
        _migrate(connection, path, migrations)
        return connection
    except sqlite3.DatabaseError as error:
        connection.close()
        if _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise _Damaged(str(error)) from error
        raise
    except BaseException:
        connection.close()
        raise


def _check(connection: sqlite3.Connection, path: Path, migrations: Sequence[Sequence[str]]) -> None:
    """Raises _Damaged for a broken or foreign file, NewerDatabase for one from a later version."""
    version = _version(connection)
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if owner != APPLICATION_ID:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise _Damaged(f"application id {owner:#x} is not ours")
        return  # brand new
    if version > len(migrations):
        raise NewerDatabase(
            f"The chats were last used by a newer Slipstream (database version {version}; this one knows "
            f"up to {len(migrations)}).",
            "Update Slipstream to see them. They were not changed; chats of this session are not kept.",
            str(path),
        )
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise _Damaged(str(found))


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _migrate(connection: sqlite3.Connection, path: Path | None, migrations: Sequence[Sequence[str]]) -> None:
    version = _version(connection)
    if version == len(migrations):
        return
    if version > 0 and path is not None:
        _back_up(connection, path, version)
    for number in range(version, len(migrations)):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if _version(connection) == number:  # a second window may have been quicker
                for statement in migrations[number]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {number + 1}")
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise


def _back_up(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """A copy beside the database, named by the version it holds; complete once it has its final name."""
    final = aside_name(path, f"version{version}")
    unfinished = final.with_name(final.name + ".unfinished")
    try:
        os.close(os.open(unfinished, os.O_CREAT | os.O_RDWR, 0o600))
        with contextlib.closing(sqlite3.connect(unfinished)) as copy:
            connection.backup(copy)
        os.replace(unfinished, final)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise
    _log.info("chat database copied to %s before updating it", final)
