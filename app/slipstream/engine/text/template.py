"""A model's chat template: from a conversation to the prompt the model was trained on.

The template came with the model and is not trusted: it runs in a process of its own (`template_child`), and
whatever it does, a prompt comes out here within the time limit, by the model's template or by a fallback that
says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from slipstream.domain.chat import Conversation, Message
from slipstream.domain.errors import TemplateFailed
from slipstream.engine.text import fallback as repairs
from slipstream.engine.text.fallback import FallbackStyle
from slipstream.engine.text.reasoning import ANSWER, REASONING, ReasoningTags, prompt_state, tags_for
from slipstream.engine.text.template_process import ChildFailed, TemplateProcess

OUTPUT_SLACK_CHARS = 2 << 20  # a prompt may be this much longer than twice its conversation
SOURCE_LIMIT_CHARS = 1 << 20
PROBE_PATIENCE = 4  # × the time limit, once, while loading: the machine is busiest then
STRIKES = 2  # renders in a row that had to be killed before the template is given up
THINKING_WORDS = ("enable_thinking", "thinking_budget", "reasoning_effort", "reasoning_content")

_NEEDLE = "Slipstream-needle-7c1"
_SYSTEM_NEEDLE = "Slipstream-needle-e90"


@dataclass(frozen=True)
class Rendered:
    """A prompt as text, special tokens written out.

    `starts_with_bos`: the BOS is in it already, so tokenize without adding one (many templates write it, and
    two of them harm the reply). `reasoning_open`: the prompt ends inside the reasoning; `answer_open`: it ends
    past it, so that no tag is to be looked for. `stops`: extra stop strings, for a fallback format the model may
    not know how to end. `notice`: a sentence for the user where something was not as the template wants it.
    """

    prompt: str
    notice: str = ""
    reasoning_open: bool = False
    answer_open: bool = False
    starts_with_bos: bool = False
    stops: tuple[str, ...] = ()


class _Refused(Exception):
    """The template gave no prompt. `final`: asking it in another way would not help. `slow`: it was cut off."""

    def __init__(self, why: str, *, final: bool, slow: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.final = final
        self.slow = slow


class ChatTemplate:
    """One loaded model's template and its process. Made once per load; `close` it with the model.

    Making one starts the process and tries the template on two tiny conversations, to learn whether it works,
    takes a system message, and wants plain or typed content. It never raises: a template that does not work
    sets `fallback` and `notice`.
    """

    def __init__(
        self,
        source: str | None,
        bos_token: str,
        eos_token: str,
        *,
        command: Sequence[str] | None = None,
        time_limit_s: float = 2.0,
        fallback_style: FallbackStyle = "chatml",
    ) -> None:
        self._source = source or ""
        self._bos = bos_token
        self._eos = eos_token
        self._time_limit_s = time_limit_s
        self._style: FallbackStyle = fallback_style
        self._process = TemplateProcess(command)
        self._strikes = 0
        self._typed_content = False
        self._takes_system = True
        self._closed = False
        self._broken = ""  # why the template can't be used at all
        self._probe()
        self.tags: ReasoningTags | None = None if self.fallback else tags_for(source)

    @property
    def fallback(self) -> bool:
        """The template is missing or broken; every prompt is made by the fallback format."""
        return bool(self._broken)

    @property
    def notice(self) -> str:
        """What to tell the user about this model's template; empty where it works."""
        return self._fallback_notice(self._broken) if self._broken else ""

    @property
    def has_thinking(self) -> bool:
        """The template knows of reasoning: it names a tag or a switch for it."""
        return not self.fallback and (self.tags is not None or any(w in self._source for w in THINKING_WORDS))

    def render(
        self,
        conversation: Conversation,
        *,
        add_generation_prompt: bool = True,
        continue_last: bool = False,
        thinking: bool | None = None,
        tools: list[dict[str, Any]] | None = None,
    ) -> Rendered:
        """The prompt for `conversation`. With `continue_last` the last message is the assistant's unfinished one:
        the prompt ends with its text. `thinking` None leaves the choice to the template.

        Raises TemplateFailed where there is nothing to render: an empty conversation, a `continue_last` without
        an assistant message, a closed template. A template's own failure never raises; it ends in the fallback.
        """
        unfinished = self._check(conversation, continue_last)
        if unfinished is not None:
            conversation, add_generation_prompt = conversation[:-1], True
        if not self._broken:
            try:
                prompt, notice = self._by_template(conversation, add_generation_prompt, thinking, tools)
                return self._finish(prompt, notice, unfinished, self.tags)
            except _Refused as refused:
                why = refused.why
        else:
            why = self._broken
        prompt = repairs.render(conversation, self._style, add_generation_prompt)
        if unfinished is not None and self._style != "chatml" and unfinished.content[:1].strip():
            prompt += " "
        return self._finish(prompt, self._fallback_notice(why), unfinished, None, repairs.stops_for(self._style))

    def close(self) -> None:
        """End the process. Safe to call twice."""
        self._closed = True
        self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------ asking the template

    def _check(self, conversation: Conversation, continue_last: bool) -> Message | None:
        if self._closed:
            raise TemplateFailed("The chat template is closed.", "Load the model again.")
        if not conversation:
            raise TemplateFailed("The chat is empty.", "Write a message first.")
        if not continue_last:
            return None
        if conversation[-1].role != "assistant" or len(conversation) < 2:
            raise TemplateFailed("There is no unfinished reply to carry on.", "Ask again instead.")
        return conversation[-1]

    def _probe(self) -> None:
        """Learn from two tiny conversations what the template takes; set `_broken` where nothing works."""
        if not self._source.strip():
            self._broken = "the file has none"
            return
        if len(self._source) > SOURCE_LIMIT_CHARS:
            self._broken = "it is too long"
            return
        user = Message("user", _NEEDLE)
        why = "it leaves the message out"
        for self._typed_content in (False, True):
            try:
                if _NEEDLE in self._first_ask(user):
                    break
            except _Refused as refused:
                why = refused.why
                if refused.final:
                    self._broken = why
                    return
        else:
            self._broken = why
            return
        try:
            prompt = self._ask((Message("system", _SYSTEM_NEEDLE), user), True, None, None)
            self._takes_system = _SYSTEM_NEEDLE in prompt and _NEEDLE in prompt
        except _Refused:
            self._takes_system = False

    def _first_ask(self, user: Message) -> str:
        try:
            return self._ask((user,), True, None, None)
        except _Refused as refused:
            if not refused.slow:
                raise
            return self._ask((user,), True, None, None, patience=PROBE_PATIENCE)

    def _by_template(
        self, conversation: Conversation, generate: bool, thinking: bool | None, tools: list[dict[str, Any]] | None
    ) -> tuple[str, str]:
        """(prompt, notice) by the first form of the conversation the template takes. Raises _Refused."""
        first: _Refused | None = None
        for form, notice in self._forms(conversation):
            try:
                return self._ask(form, generate, thinking, tools), notice
            except _Refused as refused:
                first = first or refused
                if refused.final:
                    break
        assert first is not None
        raise first

    def _forms(self, conversation: Conversation) -> Iterator[tuple[Conversation, str]]:
        """The conversation as it is, then with ever more done to it to please a template; never twice the same."""
        folded = repairs.merge_neighbours(repairs.fold_system(conversation))
        fold_notice = ""
        if any(message.role == "system" for message in conversation):
            fold_notice = "This model takes no system prompt; it was put in front of your first message."
        greeted_notice = "This model wants a question first; an empty one was put before the reply that opens the chat."
        as_they_are = [
            (conversation, ""),
            (repairs.merge_neighbours(conversation), ""),
        ]
        changed = [
            (folded, fold_notice),
            (repairs.user_first(folded), f"{fold_notice} {greeted_notice}".strip()),
        ]
        seen: set[Conversation] = set()
        for form, notice in ([] if fold_notice and not self._takes_system else as_they_are) + changed:
            if form not in seen:
                seen.add(form)
                yield form, notice

    def _ask(
        self,
        conversation: Conversation,
        generate: bool,
        thinking: bool | None,
        tools: list[dict[str, Any]] | None,
        patience: float = 1,
    ) -> str:
        size = sum(len(message.content) + len(message.reasoning) for message in conversation)
        request = {
            "source": self._source,
            "variables": {
                "messages": [self._as_dict(message) for message in conversation],
                "add_generation_prompt": generate,
                "bos_token": self._bos,
                "eos_token": self._eos,
                "tools": tools,
                "documents": None,
                **self._thinking_variables(thinking),
            },
            "output_limit": OUTPUT_SLACK_CHARS + 2 * size,
        }
        try:
            answer = self._process.ask(request, self._time_limit_s * patience)
        except ChildFailed as failure:
            raise self._strike(failure) from failure
        self._strikes = 0
        prompt = answer.get("prompt")
        if isinstance(prompt, str):
            return prompt
        raise _Refused(_tidy(str(answer.get("error"))), final=answer.get("kind") != "template")

    def _strike(self, failure: ChildFailed) -> _Refused:
        """A killed render costs its whole time limit, so a template that needs killing twice is given up."""
        if failure.reason == "closed":
            raise TemplateFailed("The chat template is closed.", "Load the model again.") from failure
        why = {
            "slow": "it takes too long",
            "memory": "it needs too much memory",
            "start": "the process that reads it did not start",
        }.get(failure.reason, "the process that reads it ended")
        self._strikes += 1
        if self._strikes >= STRIKES:
            self._broken = why
        return _Refused(why, final=True, slow=failure.reason == "slow")

    def _as_dict(self, message: Message) -> dict[str, Any]:
        content: Any = [{"type": "text", "text": message.content}] if self._typed_content else message.content
        fields: dict[str, Any] = {"role": message.role, "content": content}
        if message.role == "assistant" and message.reasoning:
            # Qwen, DeepSeek and GLM read the first, gpt-oss the second.
            fields |= {"reasoning_content": message.reasoning, "thinking": message.reasoning}
        return fields

    def _thinking_variables(self, thinking: bool | None) -> dict[str, Any]:
        """Every family has its own switch; one a template does not read does nothing."""
        if thinking is None:
            return {}
        switches: dict[str, Any] = {"enable_thinking": thinking, "thinking": thinking}
        if not thinking:
            switches["thinking_budget"] = 0  # Seed
            if "<|channel|>" in self._source:
                switches["reasoning_effort"] = "low"  # gpt-oss can't do without
        return switches

    # ------------------------------------------------------------ making the result

    def _finish(
        self,
        prompt: str,
        notice: str,
        unfinished: Message | None,
        tags: ReasoningTags | None,
        stops: tuple[str, ...] = (),
    ) -> Rendered:
        state = prompt_state(prompt, tags)
        if unfinished is not None:
            prompt, state = _carry_on(prompt, state, unfinished, tags)
        return Rendered(
            prompt,
            notice,
            reasoning_open=state == REASONING,
            answer_open=state == ANSWER,
            starts_with_bos=bool(self._bos) and prompt.startswith(self._bos),
            stops=stops,
        )

    def _fallback_notice(self, why: str) -> str:
        return (
            f"The model's own chat template could not be used ({why}). Replies are asked for in the "
            f"{repairs.STYLE_NAMES[self._style]} format and may be worse for it."
        )


def _carry_on(prompt: str, state: str, message: Message, tags: ReasoningTags | None) -> tuple[str, str]:
    """(prompt, state) with an unfinished message's text at the end, its reasoning first, whatever the
    template's generation prompt has opened already."""
    reasoning, content = message.reasoning, message.content
    if tags is None or not (reasoning or content):
        return prompt + content, state if tags and not content else ANSWER if content else state
    if state == ANSWER and reasoning and not tags.channels:  # an empty block; the real one takes its place
        prompt = re.sub(re.escape(tags.open) + r"\s*" + re.escape(tags.close) + r"\s*\Z", "", prompt)
        state = ""
    if state == ANSWER:
        return prompt + content, ANSWER
    if state == REASONING:
        tail = f"{reasoning.rstrip()}{tags.over}{content}" if content else reasoning
    elif content:
        tail = (tags.closed(reasoning.rstrip()) if reasoning or tags.channels else "") + content
    else:
        tail = tags.opened(reasoning)
    return prompt + tail, ANSWER if content else REASONING


def _tidy(text: str) -> str:
    """A template's own words, made safe to show: one line, bounded."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[:400]).split()).rstrip(".")
    return f"{line[:160]}…" if len(line) > 160 else line or "it failed without a reason"
