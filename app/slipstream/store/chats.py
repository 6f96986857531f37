"""The chat store: all a window needs to keep conversations, without ever waiting for the disk."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from slipstream.domain.chat import Role
from slipstream.domain.errors import StoreFailed
from slipstream.domain.protocol import Span
from slipstream.domain.rounds import Totals
from slipstream.domain.sampling import Sampling
from slipstream.store import queries, records
from slipstream.store.database import Opened, open_database, open_spare
from slipstream.store.records import Channel, Chat, MessageState, StoredMessage, clean, title_from
from slipstream.store.writer import INTERVAL_S, ChatWriter

__all__ = ["Channel", "Chat", "ChatStore", "MessageState", "StoredMessage", "new_id", "title_from"]


def new_id() -> str:
    """A new id for a chat or message; made by the caller, so that a write has nothing to answer."""
    return uuid.uuid4().hex


class ChatStore:
    """Chats in an SQLite file. Methods may be called from any thread and return at once.

    Writes are fire-and-forget and happen in the order of the calls; reads return a Future (for asyncio:
    `await asyncio.wrap_future(store.list_chats())`) that sees all earlier writes and fails with StoreFailed.
    Failed writes go to `on_error` on the store's own thread, once until saving works again (`on_recovered`, also
    there); the text stays in memory and is tried again. `opened` resolves to sentences for the user
    (a damaged database set aside, a file that can't be used).
    """

    def __init__(
        self,
        path: Path,
        on_error: Callable[[StoreFailed], None],
        *,
        on_recovered: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._now = now
        self._writer = ChatWriter(
            path,
            partial(_open, path, now),
            partial(open_spare, path),
            on_error,
            on_recovered=on_recovered,
            clock=clock,
            interval_s=interval_s,
        )
        self.opened: Future[tuple[str, ...]] = self._writer.opened

    # ------------------------------------------------------------ reads

    def list_chats(self, deleted: bool = False) -> Future[tuple[Chat, ...]]:
        """Pinned ones first, then newest first. `deleted` lists those that can still be brought back."""
        return self._writer.read(partial(queries.chats, deleted=deleted))

    def get_chat(self, chat_id: str) -> Future[Chat | None]:
        return self._writer.read(partial(queries.chat, chat_id=chat_id))

    def load_messages(self, chat_id: str, all_branches: bool = False) -> Future[tuple[StoredMessage, ...]]:
        """The chat's messages in order, with the text of a reply still running so far."""
        return self._writer.read(partial(queries.messages, chat_id=chat_id, all_branches=all_branches))

    # ------------------------------------------------------------ chats

    def create_chat(
        self,
        chat_id: str,
        *,
        title: str = "",
        target: str = "",
        draft: str = "",
        system_prompt: str = "",
        sampling: Sampling | None = None,
    ) -> Chat:
        """Add a chat and return it as it will be listed. An empty title is filled from the first message."""
        now_s = self._now()
        chat = Chat(
            chat_id, title, now_s, now_s, target=target, draft=draft, system_prompt=system_prompt, sampling=sampling
        )
        self._writer.write(partial(queries.insert_chat, chat=chat))
        return chat

    def rename_chat(self, chat_id: str, title: str) -> None:
        """An empty title is filled again from the next message of the user."""
        self._set(chat_id, "title", " ".join(title.split()))

    def set_pinned(self, chat_id: str, pinned: bool) -> None:
        self._set(chat_id, "pinned", int(pinned))

    def set_models(self, chat_id: str, target: str, draft: str) -> None:
        """Remember which pair this chat uses (paths; empty: none)."""
        self._set(chat_id, "target", target)
        self._set(chat_id, "draft", draft)

    def set_system_prompt(self, chat_id: str, text: str) -> None:
        self._set(chat_id, "system_prompt", text)

    def set_sampling(self, chat_id: str, sampling: Sampling | None) -> None:
        self._set(chat_id, "sampling", records.sampling_to_json(sampling))

    def set_composer_text(self, chat_id: str, text: str) -> None:
        """Keep what is typed and not sent. May be called at every key: written at most every 250 ms."""
        self._set(chat_id, "composer_text", text, urgent=False)

    def delete_chat(self, chat_id: str) -> None:
        """Take it off the list. `restore_chat` brings it back; gone for good thirty days later."""
        self._set(chat_id, "deleted_at", self._now())

    def restore_chat(self, chat_id: str) -> None:
        """Undo a delete."""
        self._set(chat_id, "deleted_at", None)

    # ------------------------------------------------------------ messages

    def add_message(
        self,
        message_id: str,
        chat_id: str,
        role: Role,
        content: str = "",
        *,
        state: MessageState = "done",
        target: str = "",
        draft: str = "",
    ) -> StoredMessage:
        """Add a message behind the last one. A reply to come: role "assistant", state "streaming", then `append`."""
        message = StoredMessage(
            message_id,
            chat_id,
            role,
            clean(content),
            state=state,
            target=target,
            draft=draft,
            created_at=self._now(),
        )
        self._writer.write(partial(queries.insert_message, message=message))
        return message

    def append(self, message_id: str, channel: Channel, text: str, spans: Sequence[Span] = ()) -> None:
        """Add text to a running reply; on disk within 250 ms. `spans`, where given, add up to `text`."""
        if not text:
            return
        if "".join(span.text for span in spans) != text:
            spans = (Span(text),)  # never lose text to wrong provenance
        self._writer.append(message_id, channel, spans)

    def finish(
        self,
        message_id: str,
        state: MessageState = "done",
        *,
        finish_reason: str = "",
        error: str = "",
        totals: Totals | None = None,
    ) -> None:
        """Close a reply: "done", "stopped" or "failed" (then `error` says why), with its figures."""
        stats, at_s = records.totals_to_json(totals), self._now()
        self._writer.write(
            lambda connection: queries.finish_message(connection, message_id, state, finish_reason, error, stats, at_s)
        )

    def resume(self, message_id: str) -> None:
        """A reply that was stopped or interrupted is carried on: `append` and `finish` as before."""
        self._writer.write(partial(queries.resume_message, message_id=message_id))

    def truncate_from(self, message_id: str) -> None:
        """Take this message and all behind it off the conversation, to answer again or edit. They stay stored as
        another branch."""
        self._writer.write(partial(queries.truncate_from, message_id=message_id))

    # ------------------------------------------------------------ ending

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until everything is on disk; False where it isn't (yet). Blocks: not for the window's thread."""
        return self._writer.flush(timeout_s)

    def close(self, timeout_s: float | None = 10.0) -> bool:
        """Write what waits and end the thread. False where something could not be saved."""
        return self._writer.close(timeout_s)

    def _set(self, chat_id: str, column: str, value: str | float | None, urgent: bool = True) -> None:
        self._writer.write(partial(queries.set_chat, chat_id=chat_id, column=column, value=value), urgent)


def _open(path: Path, now: Callable[[], float]) -> Opened:
    """Open, recover what a crash left, and purge old deletes."""
    opened = open_database(path)
    connection = opened.connection
    try:
        connection.execute("BEGIN IMMEDIATE")
        queries.recover(connection)
        queries.purge(connection, now())
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return opened
