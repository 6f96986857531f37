"""Telling a reply's reasoning from its answer while it streams."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from slipstream.domain.protocol import Span
from slipstream.engine.text.spans import SpanBuffer, held_suffix

ANSWER = "answer"
REASONING = "reasoning"

MAX_LEADING_SPACE = 64  # whitespace before an opening tag, in characters
MAX_HEADER = 200  # a channel header, in characters; a longer one is no header


@dataclass(frozen=True)
class ReasoningTags:
    """How a model family marks its reasoning.

    Plain style: `open` … `close` once, at the reply's start. Channel style (`channels` set): `open` starts a
    header that names a channel and ends at `message`; the body runs to one of `ends`, the channel "final" is
    the answer and the rest is reasoning.
    """

    open: str
    close: str
    channels: bool = False

    @property
    def markers(self) -> tuple[str, ...]:
        """Texts of the tokens that have to reach the splitter even where the vocabulary calls them special."""
        return (self.open, *CHANNEL_MARKERS) if self.channels else (self.open, self.close)

    def opened(self, reasoning: str) -> str:
        """An unfinished reasoning as the model would have written it."""
        return self.open + ("analysis<|message|>" if self.channels else "\n") + reasoning

    def closed(self, reasoning: str) -> str:
        """A finished reasoning and what leads over to the answer."""
        if self.channels:
            analysis = f"{self.opened(reasoning)}<|end|><|start|>assistant" if reasoning else ""
            return f"{analysis}<|channel|>final<|message|>"
        return f"{self.opened(reasoning)}{self.over}"

    @property
    def over(self) -> str:
        """What stands between reasoning that is already open and the answer."""
        if self.channels:
            return "<|end|><|start|>assistant<|channel|>final<|message|>"
        return f"\n{self.close}\n\n"


CHANNEL_ENDS = ("<|end|>", "<|return|>", "<|call|>")
CHANNEL_MARKERS = ("<|start|>", "<|message|>", *CHANNEL_ENDS)
CHANNELS = ReasoningTags("<|channel|>", "<|end|>", channels=True)

# Families: Qwen, DeepSeek, GLM, SmolLM (think); Seed; Magistral; Gemma 4; EXAONE; Command; Apertus; Kimi.
PLAIN_TAGS = (
    ReasoningTags("<think>", "</think>"),
    ReasoningTags("<thinking>", "</thinking>"),
    ReasoningTags("<seed:think>", "</seed:think>"),
    ReasoningTags("[THINK]", "[/THINK]"),
    ReasoningTags("<|channel>thought", "<channel|>"),
    ReasoningTags("<thought>", "</thought>"),
    ReasoningTags("<|START_THINKING|>", "<|END_THINKING|>"),
    ReasoningTags("<|inner_prefix|>", "<|inner_suffix|>"),
    ReasoningTags("◁think▷", "◁/think▷"),
)


def tags_for(template_source: str | None) -> ReasoningTags | None:
    """The tags a chat template speaks of; None where it knows of no reasoning.

    A template that only cuts old reasoning out mentions the closing tag alone, and that is enough."""
    if not template_source:
        return None
    if "<|channel|>" in template_source and "<|message|>" in template_source:
        return CHANNELS
    for tags in PLAIN_TAGS:
        if tags.open in template_source or tags.close in template_source:
            return tags
    return None


def prompt_state(prompt: str, tags: ReasoningTags | None) -> str:
    """Where a rendered prompt leaves the model: REASONING (its end opened a tag), ANSWER (its end closed an
    empty one, so no reasoning will come), or "" (at the start of a reply)."""
    if tags is None:
        return ""
    end = prompt.rstrip()
    if tags.channels:
        header = re.search(r"<\|channel\|>\s*(\w+)[^<]*<\|message\|>\Z", end)
        return "" if header is None else ANSWER if header[1] == "final" else REASONING
    if end.endswith(tags.open):
        return REASONING
    if re.search(re.escape(tags.open) + r"\s*" + re.escape(tags.close) + r"\Z", end):
        return ANSWER
    return ""


class _State(Enum):
    START = auto()  # nothing but whitespace so far: a tag may still come
    HEADER = auto()  # in a channel header
    REASONING = auto()
    ANSWER = auto()


class ReasoningSplitter:
    """Cuts streamed spans into channels, holding back only what may become a tag.

    An opening tag counts at the start of the reply alone: one in the middle of an answer is text.
    `starts_open`: the prompt itself opened the reasoning. `answer_open`: the prompt itself is past it.
    Newlines next to a tag belong to the tag. `tags` None passes everything on as the answer.
    """

    def __init__(self, tags: ReasoningTags | None, *, starts_open: bool = False, answer_open: bool = False) -> None:
        self._tags = tags
        self._buffer = SpanBuffer()
        self._fresh = starts_open and tags is not None  # nothing emitted since the last tag
        if tags is None or answer_open:
            self._state = _State.ANSWER
        else:
            self._state = _State.REASONING if starts_open else _State.START
        self._out: list[tuple[str, Span]] = []

    def feed(self, span: Span) -> list[tuple[str, Span]]:
        """Add text; returns (channel, span) pairs that are certain now, in order."""
        self._buffer.append(span)
        while self._buffer and self._step():
            pass
        return self._flush()

    def finish(self) -> list[tuple[str, Span]]:
        """The reply ended: what was held back for a tag that never came is text after all."""
        if self._state is not _State.HEADER:
            self._emit(REASONING if self._state is _State.REASONING else ANSWER, len(self._buffer))
        self._buffer.drop(len(self._buffer))
        return self._flush()

    def _flush(self) -> list[tuple[str, Span]]:
        out, self._out = self._out, []
        return out

    def _emit(self, channel: str, count: int) -> None:
        self._out.extend((channel, span) for span in self._buffer.take(count))

    def _step(self) -> bool:
        """One move of the machine; False when it has to wait for more text."""
        if self._state is _State.START:
            return self._start()
        if self._state is _State.HEADER:
            return self._header()
        if self._state is _State.REASONING:
            return self._reasoning()
        return self._answer()

    def _start(self) -> bool:
        assert self._tags is not None
        text = self._buffer.text
        found = text.lstrip()
        space = len(text) - len(found)
        openers = (self._tags.open, "<|start|>") if self._tags.channels else (self._tags.open,)
        if space <= MAX_LEADING_SPACE:
            if found.startswith(openers):
                self._buffer.drop(space)
                if self._tags.channels:
                    self._state = _State.HEADER
                else:
                    self._buffer.drop(len(self._tags.open))
                    self._state, self._fresh = _State.REASONING, True
                return True
            if any(opener.startswith(found) for opener in openers):
                return False
        self._state = _State.ANSWER
        return True

    def _header(self) -> bool:
        text = self._buffer.text
        end = text.find("<|message|>")
        if end < 0 and len(text) < MAX_HEADER + len("<|message|>"):
            return False
        if end < 0 or end > MAX_HEADER:
            self._state = _State.ANSWER
            return True
        names = re.findall(r"<\|channel\|>\s*(\w*)", text[:end])
        self._state = _State.REASONING if names and names[-1] != "final" else _State.ANSWER
        self._fresh = False
        self._buffer.drop(end + len("<|message|>"))
        return True

    def _reasoning(self) -> bool:
        assert self._tags is not None
        if self._fresh and not self._skip_opening(self._tags):
            return False
        text = self._buffer.text
        closers = (*CHANNEL_ENDS, "<|start|>", self._tags.open) if self._tags.channels else (self._tags.close,)
        found = [(at, closer) for closer in closers if (at := text.find(closer)) >= 0]
        if not found:
            self._emit(REASONING, len(text) - held_suffix(text, closers))
            return False
        at, closer = min(found)
        self._emit(REASONING, at)
        if self._tags.channels:
            if closer in CHANNEL_ENDS:
                self._buffer.drop(len(closer))
            self._state = _State.START
        else:
            self._buffer.drop(len(closer))
            self._state, self._fresh = _State.ANSWER, True
        return True

    def _skip_opening(self, tags: ReasoningTags) -> bool:
        """Drop newlines after the tag, and the tag itself where the prompt had it already and the model wrote
        it once more. False: wait for more text."""
        self._skip_newlines()
        while not tags.channels and self._buffer.text.startswith(tags.open):
            self._buffer.drop(len(tags.open))
            self._skip_newlines()
        if tags.open.startswith(self._buffer.text):
            return False
        self._fresh = False
        return True

    def _skip_newlines(self) -> None:
        text = self._buffer.text
        self._buffer.drop(len(text) - len(text.lstrip("\r\n")))

    def _answer(self) -> bool:
        if self._fresh:
            self._skip_newlines()
            self._fresh = not self._buffer
        self._emit(ANSWER, len(self._buffer))
        return False
