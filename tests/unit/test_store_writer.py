from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from slipstream.domain.errors import StoreFailed
from slipstream.store.chats import ChatStore
from slipstream.store.database import MIGRATIONS, open_database

WAIT_S = 30.0


def until(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.01)


def on_disk(path: Path) -> str:
    """What another program would find in the file now."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT text FROM pieces ORDER BY id").fetchall()
    return "".join(row[0] for row in rows)


def pragma(store: ChatStore, statement: str) -> None:
    store._writer.read(lambda connection: connection.execute(f"PRAGMA {statement}").fetchall()).result(WAIT_S)


def streaming(path: Path, errors: list[StoreFailed], **more: object) -> ChatStore:
    store = ChatStore(path, errors.append, **more)  # type: ignore[arg-type]
    store.create_chat("c")
    store.add_message("m", "c", "assistant", state="streaming")
    store.flush(WAIT_S)
    return store


def content(store: ChatStore) -> str:
    return store.load_messages("c").result(WAIT_S)[0].content


def test_appends_wait_for_the_interval_and_become_one_row(tmp_path: Path) -> None:
    path, now_s = tmp_path / "chats.db", [100.0]
    errors: list[StoreFailed] = []
    store = streaming(path, errors, clock=lambda: now_s[0], interval_s=0.05)
    for number in range(50):
        store.append("m", "answer", f"{number} ")
    time.sleep(0.4)
    assert on_disk(path) == "", "the clock stands still, so nothing is due"
    now_s[0] += 0.06
    until(lambda: on_disk(path) != "")
    assert on_disk(path) == "".join(f"{number} " for number in range(50))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM pieces").fetchone()[0] == 1
    assert store.close()
    assert errors == []


def test_close_writes_what_waits(tmp_path: Path) -> None:
    path, errors = tmp_path / "chats.db", list[StoreFailed]()
    store = streaming(path, errors, interval_s=1000.0)
    store.append("m", "answer", "last words")
    assert store.close()
    assert on_disk(path) == "last words"
    assert not [thread for thread in threading.enumerate() if thread.name == "chat-writer"]
    store.append("m", "answer", "too late")
    assert [error.message for error in errors] == ["The chat store is closed."]
    with pytest.raises(StoreFailed):
        store.list_chats().result(WAIT_S)
    assert store.close() is True


def test_waiters_that_give_up_do_no_harm(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.db", lambda error: None)
    assert not store.opened.cancel()
    for _ in range(50):
        store.list_chats().cancel()
    assert store.list_chats().result(WAIT_S) == ()
    assert store.opened.result(WAIT_S) == ()
    assert store.close()


def test_order_holds_between_text_and_other_writes(tmp_path: Path) -> None:
    errors: list[StoreFailed] = []
    store = streaming(tmp_path / "chats.db", errors, interval_s=1000.0)
    store.append("m", "answer", "before ")
    store.finish("m")
    store.append("m", "answer", "after")
    assert content(store) == "before after"
    assert store.close()
    assert errors == []


@pytest.mark.parametrize(
    ("break_it", "mend_it", "word"),
    [
        ("max_page_count = 1", "max_page_count = 1000000", "full"),  # SQLite's own way to a full disk
        ("query_only = 1", "query_only = 0", "can't be written"),
    ],
)
def test_a_disk_that_refuses_loses_nothing(tmp_path: Path, break_it: str, mend_it: str, word: str) -> None:
    path, errors, recovered = tmp_path / "chats.db", list[StoreFailed](), list[int]()
    store = streaming(path, errors, on_recovered=lambda: recovered.append(1))
    pragma(store, break_it)
    text = "a long text " * 10_000
    store.append("m", "answer", text)
    until(lambda: bool(errors))
    assert word in errors[0].message
    store.append("m", "answer", "and more")
    store.create_chat("second")
    assert not store.flush(WAIT_S), "it isn't on disk, and must not be said to be"
    assert len(errors) == 1, "said once, not at every try"
    pragma(store, mend_it)
    until(lambda: store.flush(WAIT_S))
    assert content(store) == text + "and more"
    assert recovered == [1]
    assert len(store.list_chats().result(WAIT_S)) == 2
    assert store.close()


def test_it_is_tried_again_by_itself(tmp_path: Path) -> None:
    path, errors, now_s = tmp_path / "chats.db", list[StoreFailed](), [0.0]
    store = streaming(path, errors, clock=lambda: now_s[0], interval_s=0.02)
    pragma(store, "query_only = 1")
    store.create_chat("late")
    until(lambda: bool(errors))
    pragma(store, "query_only = 0")
    now_s[0] += 60.0

    def listed() -> bool:
        with closing(sqlite3.connect(path)) as connection:
            return bool(connection.execute("SELECT 1 FROM chats WHERE id = 'late'").fetchall())

    until(listed)
    assert store.close()


def test_locked_by_another_program(tmp_path: Path) -> None:
    path, errors = tmp_path / "chats.db", list[StoreFailed]()
    store = streaming(path, errors)
    pragma(store, "busy_timeout = 50")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.append("m", "answer", "patience")
        until(lambda: bool(errors))
        assert "Another program" in errors[0].message
        other.execute("ROLLBACK")
    until(lambda: store.flush(WAIT_S))
    assert on_disk(path) == "patience"
    assert store.close()


def test_one_bad_write_does_not_stop_the_others(tmp_path: Path) -> None:
    errors: list[StoreFailed] = []
    store = streaming(tmp_path / "chats.db", errors, interval_s=1000.0)
    store.append("nobody", "answer", "lost")
    store.append("m", "answer", "kept")
    store.rename_chat("nobody", "x")
    store.truncate_from("nobody")
    store.create_chat("c")  # there already
    store.append("m", "answer", " too")
    assert content(store) == "kept too"
    assert errors
    assert all(error.hint for error in errors)
    assert store.close()


def test_a_failing_callback_does_not_end_the_thread(tmp_path: Path) -> None:
    def angry(error: StoreFailed) -> None:
        raise RuntimeError("no window")

    store = ChatStore(tmp_path / "chats.db", angry)
    store.rename_chat("nobody", "x")
    assert store.list_chats().result(WAIT_S) == ()
    assert store.close()


def test_goes_on_without_the_file_and_saves_once_it_can(tmp_path: Path) -> None:
    blocker = tmp_path / "data"
    blocker.write_text("in the way")
    path, errors, recovered = blocker / "chats.db", list[StoreFailed](), list[int]()
    store = streaming(path, errors, on_recovered=lambda: recovered.append(1))
    (notice,) = store.opened.result(WAIT_S)
    assert "memory" in notice
    assert len(errors) == 1
    store.append("m", "answer", "in memory")
    assert content(store) == "in memory"
    assert not store.flush(WAIT_S)
    blocker.unlink()
    assert store.flush(WAIT_S)
    assert recovered == [1]
    assert on_disk(path) == "in memory"
    store.append("m", "answer", ", now on disk")
    assert store.close()
    assert on_disk(path) == "in memory, now on disk"


def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    path, errors = tmp_path / "chats.db", list[StoreFailed]()
    newer = (*MIGRATIONS, ("CREATE TABLE later (x)",))
    open_database(path, newer).connection.close()
    before = path.read_bytes()
    store = streaming(path, errors)
    assert "newer" in store.opened.result(WAIT_S)[0]
    store.append("m", "answer", "for now")
    assert content(store) == "for now"
    assert store.close() is False, "the caller must learn that this was not kept"
    assert path.read_bytes() == before
    assert len(errors) == 1


CHILD = """
    import sys, time
    from pathlib import Path
    from slipstream.domain.protocol import Span
    from slipstream.store.chats import ChatStore

    store = ChatStore(Path(sys.argv[1]), lambda error: print("error", error.detail, flush=True))
    name = sys.argv[2]
    store.create_chat(name)
    store.add_message(name, name, "assistant", state="streaming")
    for number in range(1_000_000):
        text = f"{number} "
        store.append(name, "answer", text, (Span(text, "model", 1, 1, number),))
        print(number, time.time(), flush=True)
        time.sleep(0.002)
"""


def test_killed_while_streaming_ten_times(tmp_path: Path) -> None:
    path, chance = tmp_path / "chats.db", random.Random(5)
    script = tmp_path / "child.py"
    script.write_text(textwrap.dedent(CHILD))
    appended: dict[str, list[tuple[int, float]]] = {}
    killed_at_s: dict[str, float] = {}
    for number in range(10):
        name = f"run{number}"
        child = subprocess.Popen(
            [sys.executable, str(script), str(path), name],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert child.stdout is not None
        lines = [child.stdout.readline()]  # it runs
        # Mostly at any moment; now and then late enough for the time limit to tell.
        threading.Timer(4.0 if number == 9 else chance.uniform(0.0, 0.8), child.kill).start()
        lines += child.stdout.read().splitlines()
        child.stdout.close()
        child.wait(WAIT_S)
        killed_at_s[name] = time.time()
        assert not [line for line in lines if line.startswith("error")]
        whole = [line.split() for line in lines if len(line.split()) == 2]
        appended[name] = [(int(count), float(at_s)) for count, at_s in whole]

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    errors: list[StoreFailed] = []
    store = ChatStore(path, errors.append)
    assert store.opened.result(WAIT_S) == ()
    some = 0
    for name, made in appended.items():
        messages = store.load_messages(name).result(WAIT_S)
        text = messages[0].content if messages else ""
        assert not messages or messages[0].state == "interrupted"
        kept = len(text.split())
        assert text == "".join(f"{number} " for number in range(kept)), "a gap in the text"
        assert "".join(span.text for span in messages[0].spans if span.drafter) == text if messages else True
        # 250 ms is promised; the rest is for a busy machine.
        due = [number for number, at_s in made if at_s < killed_at_s[name] - 0.25 - 2.0]
        assert kept >= len(due), f"{len(due) - kept} pieces lost of those due"
        some += kept
    assert some > 0
    assert store.close()
    assert errors == []
