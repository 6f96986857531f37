"""The conversation shown and the reply that runs: between the engine's events, the store and the widgets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from PySide6.QtCore import QObject, Signal

from slipstream.domain.chat import Conversation, Message
from slipstream.domain.errors import ErrorInfo
from slipstream.domain.protocol import (
    Cancel,
    EngineGone,
    Event,
    Failed,
    Finished,
    FinishReason,
    Generate,
    Notice,
    PromptProgress,
    RoundDone,
    Text,
)
from slipstream.domain.rounds import Totals
from slipstream.store.chats import Channel, Chat, ChatStore, MessageState, StoredMessage, new_id
from slipstream.ui.bridge import Bridge
from slipstream.ui.composer import Composer
from slipstream.ui.keeper import SettingsKeeper
from slipstream.ui.later import Later
from slipstream.ui.pair import PairControl
from slipstream.ui.transcript import AssistantMessage, Transcript, figures_of


@dataclass
class Reply:
    """The reply that runs now. Its chat need not be the one shown."""

    request_id: int
    chat_id: str
    message_id: str
    answer: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)
    thinking_since_s: float | None = None
    thought_s: float | None = None
    stopping: bool = False

    def message(self) -> Message:
        return Message("assistant", "".join(self.answer), "".join(self.reasoning))


class ChatSession(QObject):
    """Shows one chat and runs one reply at a time.

    Everything said is in the store before it is in the engine, and a message queued or half typed is kept as the
    chat's unsent text, so that nothing is lost whatever ends.
    """

    chatChanged = Signal()  # another chat is shown, or its title is known
    listChanged = Signal(list)  # the chats, for the sidebar
    busyChanged = Signal(bool)
    replyBegan = Signal()
    roundsDone = Signal(list)
    replyEnded = Signal(object, object)  # Totals, FinishReason or None
    contextUsed = Signal(int, int)
    announced = Signal(str)

    def __init__(
        self,
        bridge: Bridge,
        pair: PairControl,
        store: ChatStore,
        keeper: SettingsKeeper,
        later: Later,
        transcript: Transcript,
        composer: Composer,
        clock: Callable[[], float] = time.monotonic,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._bridge, self._pair, self._store, self._keeper, self._later = bridge, pair, store, keeper, later
        self._transcript, self._composer, self._clock = transcript, composer, clock
        self._request_id = 0
        self._ticket = 0
        self._chats: list[Chat] = []
        self._messages: list[tuple[str, Message]] = []
        self._queued: tuple[str, str] | None = None  # chat id, text
        self._continue_when_loaded = ""
        self._opening = False
        self.chat_id = ""  # "" is a new chat that nothing was said in yet
        self.reply: Reply | None = None
        composer.sent.connect(self.send)
        composer.stopAsked.connect(self.stop)
        composer.draftChanged.connect(self._keep_draft)
        transcript.againAsked.connect(self.again)
        transcript.continueAsked.connect(self.carry_on)
        transcript.recoverAsked.connect(self.recover)
        pair.loaded.connect(self._pair_loaded)
        pair.changed.connect(self.refresh_composer)
        self.refresh_composer()

    # ------------------------------------------------------------ chats

    @property
    def title(self) -> str:
        chat = self.chat(self.chat_id)
        return (chat.title if chat else "") or self.tr("New chat")

    @property
    def empty(self) -> bool:
        return not self._messages

    @property
    def chats(self) -> list[Chat]:
        """As listed last."""
        return self._chats

    @property
    def opening(self) -> bool:
        """Whether the chat's messages are still being read."""
        return self._opening

    def chat(self, chat_id: str) -> Chat | None:
        return next((chat for chat in self._chats if chat.id == chat_id), None)

    def refresh_list(self) -> None:
        self._later.then(self._store.list_chats(), self._listed)

    def _listed(self, chats: Sequence[Chat]) -> None:
        self._chats = list(chats)
        self.listChanged.emit(self._chats)
        self.chatChanged.emit()

    def new_chat(self) -> None:
        """Show an empty chat. It is stored with its first message."""
        self._leave()
        self.chat_id = ""
        self._messages = []
        self._transcript.clear()
        self._composer.set_text("")
        self._show_queue()
        self._shown()

    def show_chat(self, chat_id: str) -> None:
        if chat_id == self.chat_id:
            return
        self._leave()
        ticket = self._ticket
        self._opening = True
        self.chat_id = chat_id
        self._messages = []
        self._transcript.clear()
        self._composer.set_text("")
        self.chatChanged.emit()
        self._later.then(self._store.get_chat(chat_id), lambda chat: self._got_chat(ticket, chat))
        self._later.then(self._store.load_messages(chat_id), lambda found: self._got_messages(ticket, found))

    def delete_chat(self, chat_id: str) -> None:
        """Off the list; `restore_chat` undoes it."""
        if self.reply is not None and self.reply.chat_id == chat_id:
            self.stop()
        self._store.delete_chat(chat_id)
        if chat_id == self.chat_id:
            self.new_chat()
        self.refresh_list()

    def restore_chat(self, chat_id: str) -> None:
        self._store.restore_chat(chat_id)
        self.refresh_list()
        self.show_chat(chat_id)

    def _leave(self) -> None:
        self._composer.save_now()
        blank = not self._messages and not self._opening and not self._composer.text.strip()
        if self.chat_id and blank and self._queued is None:
            self._store.delete_chat(self.chat_id)  # nothing was ever said in it, nor is anything typed
            self.refresh_list()
        self._ticket += 1
        self._opening = False
        self._continue_when_loaded = ""

    def _shown(self) -> None:
        self._keeper.change(last_chat=self.chat_id)
        self.chatChanged.emit()
        self.refresh_composer()

    def _got_chat(self, ticket: int, chat: Chat | None) -> None:
        if ticket != self._ticket:
            return
        if chat is None or chat.deleted_at is not None:
            self.new_chat()
            return
        typed = self._composer.text  # what was typed while it loaded comes after what was saved
        kept = chat.composer_text
        if self._queued is not None and self._queued[0] == chat.id:
            kept = kept.removeprefix(self._queued[1]).removeprefix("\n\n")
        self._composer.set_text(f"{kept}\n{typed}" if kept and typed else kept or typed)
        self._show_queue()

    def _got_messages(self, ticket: int, found: Sequence[StoredMessage]) -> None:
        if ticket != self._ticket:
            return
        self._opening = False
        running = self.reply if self.reply is not None and self.reply.chat_id == self.chat_id else None
        shown = []
        for one in found:
            if running is not None and one.id == running.message_id:
                now = running.message()
                one = replace(one, content=now.content, reasoning=now.reasoning)
            shown.append(one)
        self._messages = [(one.id, one.message()) for one in shown]
        self._transcript.show_chat(shown)
        if running is not None:
            row = self._transcript.reply(running.message_id)
            if row is not None:
                row.begin(continued=True)
                if running.answer or running.reasoning:
                    row.set_status("")
        self._shown()

    # ------------------------------------------------------------ talking

    def send(self, text: str) -> None:
        """Say `text`: at once, or when the running reply ends."""
        if not text.strip():
            return
        if self.reply is not None or not self._pair.ready:
            self._need_chat()
            self._queued = (self.chat_id, text)
            self._show_queue()
            self._keep_draft(self._composer.text)
            return
        self._say(text)

    def _need_chat(self) -> None:
        if not self.chat_id:
            chat = self._store.create_chat(
                new_id(),
                target=self._pair.target,
                draft=self._pair.draft,
                system_prompt=self._keeper.now.system_prompt,
            )
            self.chat_id = chat.id
            self._chats.insert(0, chat)
            self._keeper.change(last_chat=chat.id)

    def _say(self, text: str) -> None:
        self._need_chat()
        message = self._store.add_message(new_id(), self.chat_id, "user", text)
        self._messages.append((message.id, message.message()))
        self._transcript.remove_cards()
        self._transcript.add_user(message.content)
        self._keep_draft(self._composer.text)
        self.refresh_list()
        self._answer()

    def _answer(self) -> None:
        """Begin a new reply to what was said last."""
        message_id = new_id()
        self._store.add_message(
            message_id,
            self.chat_id,
            "assistant",
            state="streaming",
            target=self._pair.target,
            draft=self._pair.draft,
        )
        self._store.set_models(self.chat_id, self._pair.target, self._pair.draft)
        conversation = self._conversation()
        self._messages.append((message_id, Message("assistant", "")))
        row = self._transcript.add_reply(message_id)
        self._begin(Reply(self._next_request(), self.chat_id, message_id), row, conversation, False)

    def _conversation(self) -> Conversation:
        chat = self.chat(self.chat_id)
        prompt = chat.system_prompt if chat else self._keeper.now.system_prompt
        system = (Message("system", prompt),) if prompt.strip() else ()
        return (*system, *(message for _, message in self._messages))

    def _begin(self, reply: Reply, row: AssistantMessage | None, conversation: Conversation, continued: bool) -> None:
        settings = self._keeper.now
        chat = self.chat(self.chat_id)
        sampling = chat.sampling if chat and chat.sampling else settings.sampling
        self.reply = reply
        if row is not None:
            row.begin(continued)
        self._bridge.send(
            Generate(
                reply.request_id,
                conversation,
                sampling,
                settings.speculation(self._pair.target, self._pair.draft or None),
                settings.max_tokens,
                overflow=settings.overflow,
                continue_last=continued,
            )
        )
        self._transcript.follow()
        self.busyChanged.emit(True)
        self.replyBegan.emit()
        self.refresh_composer()

    def _next_request(self) -> int:
        self._request_id += 1
        return self._request_id

    def stop(self) -> None:
        """Stop the running reply. What was generated stays."""
        if self.reply is not None and not self.reply.stopping:
            self.reply.stopping = True
            self._bridge.send(Cancel())

    def again(self, message_id: str = "") -> None:
        """Answer again: the reply (the last one by default) makes way, and stays stored as another branch."""
        if self.reply is not None or not self._pair.ready:
            return
        replies = [at for at, (one, m) in enumerate(self._messages) if m.role == "assistant"]
        at = next((at for at in replies if self._messages[at][0] == message_id), replies[-1] if replies else -1)
        if at < 0:
            return
        gone = self._messages[at][0]
        self._store.truncate_from(gone)
        del self._messages[at:]
        self._transcript.remove_from(gone)
        self._answer()

    def carry_on(self, message_id: str) -> None:
        """Continue a reply that was stopped or interrupted, if it is the last message."""
        if self.reply is not None or not self._messages or self._messages[-1][0] != message_id:
            return
        if not self._pair.ready:
            self.recover(message_id)
            return
        _, so_far = self._messages[-1]
        if not so_far.content:
            self.again(message_id)  # nothing of the answer to carry on
            return
        self._store.resume(message_id)
        reply = Reply(self._next_request(), self.chat_id, message_id, [so_far.content], [so_far.reasoning])
        self._begin(reply, self._transcript.reply(message_id), self._conversation(), True)

    def recover(self, message_id: str) -> None:
        """Load the pair again and continue this reply once it is there."""
        if self._pair.ready:
            self.carry_on(message_id)
        elif self._pair.target:
            self._continue_when_loaded = message_id
            if self._pair.state != "loading":
                self._pair.reload()

    def _pair_loaded(self, _loaded: object) -> None:
        message_id, self._continue_when_loaded = self._continue_when_loaded, ""
        if message_id:
            self.carry_on(message_id)
        if self.reply is None:
            self._send_queued()

    # ------------------------------------------------------------ events

    def handle(self, events: Sequence[Event]) -> None:
        """Take a batch of the engine's events about replies."""
        rounds: list[RoundDone] = []
        for event in events:
            reply = self.reply
            if reply is None or getattr(event, "request_id", reply.request_id) != reply.request_id:
                continue
            if isinstance(event, Text):
                self._text(reply, event)
            elif isinstance(event, RoundDone):
                reply.totals = event.totals
                rounds.append(event)
            elif isinstance(event, PromptProgress):
                self._reading(reply, event)
            elif isinstance(event, Notice):
                row = self._row(reply)
                if row is not None:
                    row.add_notice(event.message)
            elif isinstance(event, Finished):
                self._flush_rounds(rounds)
                self._finished(reply, event)
            elif isinstance(event, Failed):
                self._flush_rounds(rounds)
                self._broke(reply, event.error, "failed")
            elif isinstance(event, EngineGone):
                self._flush_rounds(rounds)
                self._broke(reply, event.error, "interrupted")
        self._flush_rounds(rounds)

    def _flush_rounds(self, rounds: list[RoundDone]) -> None:
        if rounds:
            last = rounds[-1].totals
            size = self._pair.info.n_ctx if self._pair.info else 0
            self.contextUsed.emit(last.prompt_tokens + last.tokens, size)
            self.roundsDone.emit(list(rounds))
            rounds.clear()

    def _row(self, reply: Reply) -> AssistantMessage | None:
        return self._transcript.reply(reply.message_id) if reply.chat_id == self.chat_id else None

    def _text(self, reply: Reply, event: Text) -> None:
        text = event.text
        if not text:
            return
        now = self._clock()
        row = self._row(reply)
        channel: Channel = "reasoning" if event.channel == "reasoning" else "answer"
        self._store.append(reply.message_id, channel, text, event.spans)
        if channel == "reasoning":
            reply.reasoning.append(text)
            reply.thinking_since_s = reply.thinking_since_s or now
        else:
            reply.answer.append(text)
        if row is not None:
            row.append(channel, text)
        if reply.thinking_since_s is not None and reply.thought_s is None:
            seconds = now - reply.thinking_since_s
            if channel == "answer":
                reply.thought_s = seconds
            if row is not None:
                row.set_thinking(seconds, done=channel == "answer")

    def _reading(self, reply: Reply, event: PromptProgress) -> None:
        row = self._row(reply)
        if row is None or reply.answer or reply.reasoning:
            return
        if event.done < event.total:
            words = self.tr("Reading the prompt, {0} of {1} tokens")
            row.set_status(words.format(f"{event.done:,}", f"{event.total:,}"))
        else:
            row.set_status(self.tr("Waiting for the first token"))

    def _finished(self, reply: Reply, event: Finished) -> None:
        stopped = event.reason is FinishReason.CANCELLED
        row = self._end(reply, event.totals, "stopped" if stopped else "done", event.reason.value, "")
        if row is not None:
            if stopped:
                row.show_stopped(self.tr("You stopped this reply."))
            elif event.reason is FinishReason.LENGTH:
                row.show_stopped(self.tr("This reply reached the length you allowed."))
            elif event.reason is FinishReason.CONTEXT:
                row.add_notice(self.tr("The context is full, so the reply ends here. Start a new chat to go on."))
        self.contextUsed.emit(event.n_past, event.n_ctx)
        self.replyEnded.emit(event.totals, event.reason)
        self.announced.emit(self.tr("Reply stopped") if stopped else self.tr("Reply finished"))
        self._send_queued(give_back=stopped)

    def _broke(self, reply: Reply, error: ErrorInfo, state: MessageState) -> None:
        row = self._end(reply, reply.totals, state, "", error.sentence())
        if row is not None:
            row.show_gone(error) if state == "interrupted" else row.show_failed(error)
        self.replyEnded.emit(reply.totals, None)
        self.announced.emit(error.message)
        self._send_queued(give_back=True)

    def _end(
        self, reply: Reply, totals: Totals, state: MessageState, reason: str, error: str
    ) -> AssistantMessage | None:
        self._store.finish(reply.message_id, state, finish_reason=reason, error=error, totals=totals)
        self.reply = None
        if reply.chat_id == self.chat_id and self._messages and self._messages[-1][0] == reply.message_id:
            self._messages[-1] = (reply.message_id, reply.message())
        row = self._row(reply)
        if row is not None:
            if reply.thinking_since_s is not None:
                seconds = reply.thought_s or self._clock() - reply.thinking_since_s
                row.set_thinking(seconds, done=True)
            row.end(figures_of(totals))
        self.busyChanged.emit(False)
        self.refresh_composer()
        self.refresh_list()
        return row

    # ------------------------------------------------------------ composer

    def refresh_composer(self) -> None:
        """Say whether a message can go out now, and if not why."""
        pair = self._pair
        reasons = {
            "none": self.tr("Pick a model first."),
            "loading": self.tr("Loading {0}. You can write meanwhile.").format(pair.name),
            "gone": self.tr("The engine stopped. Load the models again to go on."),
            "refused": self.tr("The models could not be loaded. Pick another."),
        }
        self._composer.set_busy(self.reply is not None)
        self._composer.set_ready(pair.ready, reasons.get(pair.state, ""))

    def _show_queue(self) -> None:
        mine = self._queued is not None and self._queued[0] == self.chat_id
        self._composer.set_queued(self._queued[1] if self._queued is not None and mine else "")

    def _keep_draft(self, typed: str) -> None:
        """Save what is typed, with a queued message before it: both would be there after a crash."""
        if not self.chat_id:
            if not typed.strip():
                return
            self._need_chat()
            self.refresh_list()
        queued = self._queued[1] if self._queued is not None and self._queued[0] == self.chat_id else ""
        self._store.set_composer_text(self.chat_id, f"{queued}\n\n{typed}" if queued and typed else queued or typed)

    def _send_queued(self, give_back: bool = False) -> None:
        """The reply ended: send what waits, or put it back into the composer where it did not end well."""
        if self._queued is None:
            return
        chat_id, text = self._queued
        if chat_id != self.chat_id:
            self._queued = None  # it is that chat's unsent text already
        elif give_back:
            self._queued = None
            typed = self._composer.text
            self._composer.set_text(f"{text}\n\n{typed}" if typed else text)
        elif self._pair.ready and self.reply is None:
            self._queued = None
            self._show_queue()
            self._say(text)
            return
        self._show_queue()
