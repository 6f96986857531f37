"""Chats and messages as the rest of the program sees them, and how their parts are put into columns."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, cast

from slipstream.domain.chat import Message, Role
from slipstream.domain.protocol import Span
from slipstream.domain.rounds import Totals
from slipstream.domain.sampling import Sampling

MessageState = Literal["streaming", "done", "stopped", "failed", "interrupted"]
Channel = Literal["answer", "reasoning"]

_TITLE_CHARACTERS = 60
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Chat:
    """A row of the chat list. Times are seconds since 1970. `target` and `draft` are model paths as last used here;
    `composer_text` is what was typed and not sent; `sampling` None takes the model's defaults."""

    id: str
    title: str
    created_at: float
    updated_at: float
    pinned: bool = False
    target: str = ""
    draft: str = ""
    system_prompt: str = ""
    sampling: Sampling | None = None
    composer_text: str = ""
    deleted_at: float | None = None
    message_count: int = 0


@dataclass(frozen=True)
class StoredMessage:
    """One message. The spans' texts add up to `content` and `reasoning`. `position` counts from 0 on its branch;
    `active` is false on a branch left behind. `target` and `draft`: the models that wrote it."""

    id: str
    chat_id: str
    role: Role
    content: str
    reasoning: str = ""
    state: MessageState = "done"
    finish_reason: str = ""
    error: str = ""
    totals: Totals | None = None
    spans: tuple[Span, ...] = ()
    reasoning_spans: tuple[Span, ...] = ()
    target: str = ""
    draft: str = ""
    parent_id: str | None = None
    position: int = 0
    active: bool = True
    created_at: float = 0.0

    def message(self) -> Message:
        """As the engine wants it."""
        return Message(self.role, self.content, self.reasoning)


def title_from(text: str) -> str:
    """A title from the first message: its first line with words in it, cut between words near 60 characters."""
    for line in text.splitlines():
        words = " ".join(line.split()).strip("#>*`- ")
        if any(character.isalnum() for character in words):
            break
    else:
        return ""
    if len(words) <= _TITLE_CHARACTERS:
        return words
    cut = words.rfind(" ", _TITLE_CHARACTERS // 2, _TITLE_CHARACTERS)
    return words[: cut if cut > 0 else _TITLE_CHARACTERS - 1].rstrip(" ,.;:") + "…"


def clean(text: str) -> str:
    """The text with lone surrogates, which UTF-8 can't hold, as �; its length stays the same."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


# ---------------------------------------------------------------- spans
# Stored as runs [drafter, guess, proposed, round, length]; length in code points. The target's own text needs no
# round, so a plain reply is one run however long it is.

Runs = list[list[Any]]


def pack(spans: Iterable[Span]) -> Runs:
    """Spans as runs, neighbours of one source joined."""
    runs: Runs = []
    for span in spans:
        if span.text:
            source = [span.drafter, span.guess, span.proposed, span.round_no] if span.drafter else ["", 0, 0, 0]
            if runs and runs[-1][:4] == source:
                runs[-1][4] += len(span.text)
            else:
                runs.append([*source, len(span.text)])
    return runs


def join(*parts: Runs) -> Runs:
    """Runs one behind the other; only the ends of joined-up parts can be neighbours of one source."""
    joined: Runs = []
    for part in parts:
        if joined and part and joined[-1][:4] == part[0][:4]:
            joined[-1] = [*part[0][:4], joined[-1][4] + part[0][4]]
            part = part[1:]
        joined.extend(part)
    return joined


def unpack(text: str, runs: object) -> tuple[Span, ...]:
    """Spans whose texts add up to `text`, whatever `runs` holds: what no run covers is the target's own."""
    spans: list[Span] = []
    at = 0
    for run in runs if isinstance(runs, list) else []:
        if not _is_run(run):
            break
        drafter, guess, proposed, round_no, length = run
        piece = text[at : at + length]
        if piece:
            spans.append(Span(piece, drafter, guess, proposed, round_no))
        at += length
    if at < len(text):
        spans.append(Span(text[at:]))
    return tuple(spans)


def covering(length: int, runs: object) -> Runs:
    """Sound runs for a text of `length` code points: those given, where they are sound."""
    if isinstance(runs, list) and all(map(_is_run, runs)) and sum(run[4] for run in runs) == length:
        return runs
    return pack(unpack("x" * length, runs))


def _is_run(run: object) -> bool:
    return (
        isinstance(run, list)
        and len(run) == 5
        and isinstance(run[0], str)
        and all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in run[1:])
    )


# ---------------------------------------------------------------- JSON columns


def to_json(value: object) -> str:
    """Compact, pure ASCII. Raises TypeError or ValueError for what JSON can't hold (NaN too)."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def from_json(text: str | None) -> Any:
    """The value, or None where there is none or it is damaged."""
    if not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def sampling_to_json(sampling: Sampling | None) -> str | None:
    if sampling is None:
        return None
    return to_json({name: value for name, value in asdict(sampling).items() if not _is_broken(value)})


def sampling_from(value: object) -> Sampling | None:
    """The settings in a decoded JSON object; fields that are missing or of the wrong kind take their default."""
    if not isinstance(value, Mapping):
        return None
    seed = value.get("seed")
    good = _numbers(Sampling, value)
    if isinstance(seed, int) and not isinstance(seed, bool):
        good["seed"] = seed
    return Sampling(**good)


def totals_to_json(totals: Totals | None) -> str | None:
    if totals is None:
        return None
    plain = asdict(totals)
    # A figure that is not a number is left out rather than losing the reply it belongs to.
    return to_json({name: value for name, value in plain.items() if not _is_broken(value)})


def totals_from(value: object) -> Totals | None:
    """The totals in a decoded JSON object; tolerant like `sampling_from`."""
    if not isinstance(value, Mapping):
        return None
    good = _numbers(Totals, value)
    by_position = value.get("by_position")
    if isinstance(by_position, list) and all(_is_pair(pair) for pair in by_position):
        good["by_position"] = tuple((seen, kept) for seen, kept in by_position)
    return Totals(**good)


def _is_broken(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(number) is int for number in value)


def _numbers(cls: Any, value: Mapping[str, object]) -> dict[str, Any]:
    """The values of those fields whose default is a number, where they are finite numbers of the same kind."""
    good: dict[str, Any] = {}
    for item in fields(cls):
        number = value.get(item.name)
        if type(item.default) is int and type(number) is int:
            good[item.name] = number
        elif type(item.default) is float and type(number) in (int, float):
            try:
                as_float = float(cast(float, number))
            except OverflowError:
                continue
            if math.isfinite(as_float):
                good[item.name] = as_float
    return good
