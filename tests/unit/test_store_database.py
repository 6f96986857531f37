from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.domain.errors import StoreFailed
from slipstream.store.database import MIGRATIONS, NewerDatabase, open_database, open_spare

NEXT = (*MIGRATIONS, ("ALTER TABLE chats ADD COLUMN colour TEXT NOT NULL DEFAULT 'plain'",))
BROKEN = (*MIGRATIONS, ("ALTER TABLE chats ADD COLUMN colour TEXT", "THIS IS NOT SQL"))


def add_chat(connection: sqlite3.Connection, chat_id: str = "c") -> None:
    connection.execute("INSERT INTO chats (id, created_at, updated_at) VALUES (?, 1, 1)", (chat_id,))


def make(path: Path, chats: int = 1) -> None:
    with closing(open_database(path).connection) as connection:
        connection.execute("BEGIN")
        for number in range(chats):
            add_chat(connection, f"c{number}")
        connection.execute("COMMIT")


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM chats").fetchone()[0])


def test_fresh_database_is_durable_and_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "chats.db"
    opened = open_database(path)
    with closing(opened.connection) as connection:
        assert opened.notices == ()
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert connection.execute("PRAGMA foreign_keys").fetchone()[0] == 1
        assert connection.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS)
    if os.name == "posix":
        assert path.stat().st_mode & 0o077 == 0


def test_migration_keeps_a_copy_of_the_old(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    make(path, 3)
    with closing(open_database(path, NEXT).connection) as connection:
        assert connection.execute("SELECT DISTINCT colour FROM chats").fetchone()[0] == "plain"
        assert count(connection) == 3
    (copy,) = tmp_path.glob("chats.version1-*.db")
    with closing(open_database(copy).connection) as connection:
        assert count(connection) == 3
        assert connection.execute("PRAGMA user_version").fetchone()[0] == 1
    with closing(open_database(path, NEXT).connection):
        pass
    assert len(list(tmp_path.glob("chats.version1-*.db"))) == 1, "no second copy once up to date"


def test_failing_migration_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    make(path, 2)
    with pytest.raises(StoreFailed):
        open_database(path, BROKEN)
    with closing(open_database(path).connection) as connection:
        assert count(connection) == 2
        names = [row["name"] for row in connection.execute("PRAGMA table_info(chats)")]
        assert "colour" not in names


def test_newer_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    open_database(path, NEXT).connection.close()
    before = path.read_bytes()
    with pytest.raises(NewerDatabase) as caught:
        open_database(path)
    assert f"version {len(NEXT)}" in caught.value.message
    assert str(len(MIGRATIONS)) in caught.value.message
    assert "Update" in caught.value.hint
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir() if "damaged" in one.name] == []
    with closing(open_spare(path)) as spare:
        assert count(spare) == 0, "a newer layout isn't guessed at"


def test_damaged_page_is_found_and_the_file_kept(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    make(path, 2000)
    data = bytearray(path.read_bytes())
    half = len(data) // 2
    data[half : half + 8192] = b"\xa5" * 8192
    path.write_bytes(data)
    opened = open_database(path)
    with closing(opened.connection) as connection:
        assert count(connection) == 0
    (kept,) = tmp_path.glob("chats.damaged-*.db")
    assert kept.read_bytes() == bytes(data)
    assert str(kept) in opened.notices[0]


def test_somebody_elses_database_is_not_written_into(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (x)")
        other.commit()
    opened = open_database(path)
    opened.connection.close()
    (kept,) = tmp_path.glob("chats.damaged-*.db")
    with closing(sqlite3.connect(kept)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=2000), st.booleans())
def test_any_bytes_open_or_are_kept(data: bytes, with_magic: bool) -> None:
    data = b"SQLite format 3\0" + data if with_magic else data
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chats.db"
        path.write_bytes(data)
        opened = open_database(path)
        with closing(opened.connection) as connection:
            add_chat(connection)
            assert count(connection) == 1
        kept = list(Path(folder).glob("chats.damaged-*.db"))
        assert [one.read_bytes() for one in kept] == ([data] if data else [])
        assert len(opened.notices) == len(kept)


def test_unusable_path_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreFailed) as caught:
        open_database(tmp_path / "file" / "chats.db")
    assert caught.value.hint
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(StoreFailed):
        open_database(tmp_path / "folder.db")


def test_spare_holds_what_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    make(path, 2)
    before = path.read_bytes()
    with closing(open_spare(path)) as spare:
        assert count(spare) == 2
        add_chat(spare, "new")
    assert path.read_bytes() == before
    with closing(open_spare(tmp_path / "none.db")) as spare:
        assert count(spare) == 0
