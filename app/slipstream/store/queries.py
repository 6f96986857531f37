"""Every SQL statement on chats, as plain functions on a connection. They run on the writer's thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from slipstream.domain.protocol import Span
from slipstream.store import records
from slipstream.store.records import Chat, MessageState, StoredMessage, clean, to_json

DELETED_KEPT_S = 30 * 24 * 3600.0  # how long a deleted chat can be brought back
_CHANNELS = {"answer": "content", "reasoning": "reasoning"}

# ---------------------------------------------------------------- on opening


def recover(connection: sqlite3.Connection) -> int:
    """Replies that were being written when the program ended become "interrupted"; their text is kept.

    Returns how many there were.
    """
    unfinished = connection.execute("SELECT id FROM messages WHERE state = 'streaming'").fetchall()
    loose = connection.execute("SELECT DISTINCT message_id AS id FROM pieces").fetchall()
    for message_id in {row["id"] for row in (*unfinished, *loose)}:
        _fold(connection, message_id)
    connection.execute("UPDATE messages SET state = 'interrupted' WHERE state = 'streaming'")
    return len(unfinished)


def purge(connection: sqlite3.Connection, now_s: float) -> None:
    """Remove for good what was deleted more than thirty days ago."""
    connection.execute("DELETE FROM chats WHERE deleted_at < ?", (now_s - DELETED_KEPT_S,))


# ---------------------------------------------------------------- chats


def insert_chat(connection: sqlite3.Connection, chat: Chat) -> None:
    connection.execute(
        "INSERT INTO chats (id, title, created_at, updated_at, pinned, target, draft, system_prompt, sampling, "
        "composer_text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            chat.id,
            clean(chat.title),
            chat.created_at,
            chat.updated_at,
            chat.pinned,
            clean(chat.target),
            clean(chat.draft),
            clean(chat.system_prompt),
            records.sampling_to_json(chat.sampling),
            clean(chat.composer_text),
        ),
    )


def set_chat(connection: sqlite3.Connection, chat_id: str, column: str, value: str | float | None) -> None:
    """`column` is one of ours, never the user's words. Raises LookupError where there is no such chat."""
    value = clean(value) if isinstance(value, str) else value
    done = connection.execute(f"UPDATE chats SET {column} = ? WHERE id = ?", (value, chat_id))
    _require(done, f"chat {chat_id}")


def chats(connection: sqlite3.Connection, deleted: bool) -> tuple[Chat, ...]:
    """Pinned ones first, then by last use, newest first."""
    rows = connection.execute(
        f"{_CHAT} WHERE (deleted_at IS NOT NULL) = ? ORDER BY pinned DESC, updated_at DESC, created_at DESC, id",
        (deleted,),
    )
    return tuple(_chat(row) for row in rows)


def chat(connection: sqlite3.Connection, chat_id: str) -> Chat | None:
    row = connection.execute(f"{_CHAT} WHERE id = ?", (chat_id,)).fetchone()
    return _chat(row) if row else None


_CHAT = "SELECT *, (SELECT count(*) FROM messages WHERE chat_id = chats.id AND active = 1) AS message_count FROM chats"


def _chat(row: sqlite3.Row) -> Chat:
    return Chat(
        id=row["id"],
        title=row["title"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        pinned=bool(row["pinned"]),
        target=row["target"],
        draft=row["draft"],
        system_prompt=row["system_prompt"],
        sampling=records.sampling_from(records.from_json(row["sampling"])),
        composer_text=row["composer_text"],
        deleted_at=row["deleted_at"],
        message_count=row["message_count"],
    )


# ---------------------------------------------------------------- messages


def insert_message(connection: sqlite3.Connection, message: StoredMessage) -> None:
    """Add it behind the chat's last active message, whatever parent and position it names.

    The first message of the user gives an untitled chat its title.
    """
    last = connection.execute(
        "SELECT id, position FROM messages WHERE chat_id = ? AND active = 1 ORDER BY position DESC LIMIT 1",
        (message.chat_id,),
    ).fetchone()
    spans = _spans_json(
        records.covering(len(message.content), records.pack(message.spans)),
        records.covering(len(message.reasoning), records.pack(message.reasoning_spans)),
    )
    connection.execute(
        "INSERT INTO messages (id, chat_id, parent_id, position, role, content, reasoning, state, finish_reason, "
        "error, stats, spans, target, draft, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            message.id,
            message.chat_id,
            last["id"] if last else None,
            last["position"] + 1 if last else 0,
            message.role,
            clean(message.content),
            clean(message.reasoning),
            message.state,
            message.finish_reason,
            clean(message.error),
            records.totals_to_json(message.totals),
            spans,
            clean(message.target),
            clean(message.draft),
            message.created_at,
        ),
    )
    _touch(connection, message.chat_id, message.created_at)
    if message.role == "user":
        title = clean(records.title_from(message.content))
        connection.execute("UPDATE chats SET title = ? WHERE id = ? AND title = ''", (title, message.chat_id))


def insert_piece(connection: sqlite3.Connection, message_id: str, channel: str, spans: Sequence[Span]) -> None:
    """Add text to a message. Raises sqlite3.IntegrityError where there is no such message or channel."""
    text = clean("".join(span.text for span in spans))
    if text:
        connection.execute(
            "INSERT INTO pieces (message_id, channel, text, spans) VALUES (?, ?, ?, ?)",
            (message_id, channel, text, to_json(records.pack(spans))),
        )


def finish_message(
    connection: sqlite3.Connection,
    message_id: str,
    state: MessageState,
    finish_reason: str,
    error: str,
    stats: str | None,
    at_s: float,
) -> None:
    """Close a reply: its pieces become one text."""
    _fold(connection, message_id)
    done = connection.execute(
        "UPDATE messages SET state = ?, finish_reason = ?, error = ?, stats = coalesce(?, stats) WHERE id = ?",
        (state, finish_reason, clean(error), stats, message_id),
    )
    _require(done, f"message {message_id}")
    row = connection.execute("SELECT chat_id FROM messages WHERE id = ?", (message_id,)).fetchone()
    _touch(connection, row["chat_id"], at_s)


def resume_message(connection: sqlite3.Connection, message_id: str) -> None:
    """A reply that stopped is being carried on."""
    done = connection.execute(
        "UPDATE messages SET state = 'streaming', finish_reason = '', error = '' WHERE id = ?", (message_id,)
    )
    _require(done, f"message {message_id}")


def truncate_from(connection: sqlite3.Connection, message_id: str) -> None:
    """The message and all behind it leave the active branch; they are kept."""
    done = connection.execute(
        "UPDATE messages SET active = 0 WHERE active = 1 AND EXISTS (SELECT 1 FROM messages AS first WHERE "
        "first.id = ? AND first.chat_id = messages.chat_id AND first.position <= messages.position)",
        (message_id,),
    )
    _require(done, f"active message {message_id}")


def messages(connection: sqlite3.Connection, chat_id: str, all_branches: bool) -> tuple[StoredMessage, ...]:
    """In order of position; with `all_branches` also those left behind, older first."""
    rows = connection.execute(
        "SELECT * FROM messages WHERE chat_id = ? AND active >= ? ORDER BY position, created_at, rowid",
        (chat_id, 0 if all_branches else 1),
    ).fetchall()
    pieces = connection.execute(
        "SELECT pieces.* FROM pieces JOIN messages ON messages.id = pieces.message_id WHERE chat_id = ? "
        "ORDER BY pieces.id",
        (chat_id,),
    ).fetchall()
    loose: dict[str, list[sqlite3.Row]] = {}
    for piece in pieces:
        loose.setdefault(piece["message_id"], []).append(piece)
    return tuple(_message(row, loose.get(row["id"], ())) for row in rows)


def _message(row: sqlite3.Row, pieces: Iterable[sqlite3.Row]) -> StoredMessage:
    content, reasoning, spans = _together(row, pieces)
    return StoredMessage(
        id=row["id"],
        chat_id=row["chat_id"],
        role=row["role"],
        content=content,
        reasoning=reasoning,
        state=row["state"],
        finish_reason=row["finish_reason"],
        error=row["error"],
        totals=records.totals_from(records.from_json(row["stats"])),
        spans=records.unpack(content, spans["answer"]),
        reasoning_spans=records.unpack(reasoning, spans["reasoning"]),
        target=row["target"],
        draft=row["draft"],
        parent_id=row["parent_id"],
        position=row["position"],
        active=bool(row["active"]),
        created_at=row["created_at"],
    )


def _together(row: sqlite3.Row, pieces: Iterable[sqlite3.Row]) -> tuple[str, str, dict[str, records.Runs]]:
    """Content, reasoning and their runs, the message's own text followed by its pieces."""
    stored = records.from_json(row["spans"])
    stored = stored if isinstance(stored, dict) else {}
    texts = {channel: [row[column]] for channel, column in _CHANNELS.items()}
    runs = {channel: [records.covering(len(texts[channel][0]), stored.get(channel))] for channel in _CHANNELS}
    for piece in pieces:
        channel = piece["channel"]
        texts[channel].append(piece["text"])
        runs[channel].append(records.covering(len(piece["text"]), records.from_json(piece["spans"])))
    joined = {channel: records.join(*parts) for channel, parts in runs.items()}
    return "".join(texts["answer"]), "".join(texts["reasoning"]), joined


def _fold(connection: sqlite3.Connection, message_id: str) -> None:
    """Put a message's pieces into its own columns, behind what is there, so that folding twice loses nothing."""
    row = connection.execute("SELECT * FROM messages WHERE id = ?", (message_id,)).fetchone()
    pieces = connection.execute("SELECT * FROM pieces WHERE message_id = ? ORDER BY id", (message_id,)).fetchall()
    if row is None or not pieces:
        return
    content, reasoning, runs = _together(row, pieces)
    connection.execute(
        "UPDATE messages SET content = ?, reasoning = ?, spans = ? WHERE id = ?",
        (content, reasoning, _spans_json(runs["answer"], runs["reasoning"]), message_id),
    )
    connection.execute("DELETE FROM pieces WHERE message_id = ?", (message_id,))


def _spans_json(answer: records.Runs, reasoning: records.Runs) -> str | None:
    """None where all is the target's own."""
    drafted = any(run[0] for run in (*answer, *reasoning))
    return to_json({"answer": answer, "reasoning": reasoning}) if drafted else None


def _touch(connection: sqlite3.Connection, chat_id: str, at_s: float) -> None:
    connection.execute("UPDATE chats SET updated_at = max(updated_at, ?) WHERE id = ?", (at_s, chat_id))


def _require(done: sqlite3.Cursor, what: str) -> None:
    if done.rowcount == 0:
        raise LookupError(f"no {what}")
