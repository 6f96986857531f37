"""Making a conversation fit in the context, or saying in numbers why it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slipstream.domain.chat import Conversation, Message
from slipstream.domain.errors import ContextFull
from slipstream.domain.protocol import Overflow


@dataclass(frozen=True)
class Fitted:
    """`dropped`: messages left out; `dropped_turns`: the turns they made up; `prompt_tokens`: what `conversation` counts."""

    conversation: Conversation
    dropped: int
    prompt_tokens: int
    dropped_turns: int = 0


def fit(
    conversation: Conversation,
    count: Callable[[Conversation], int],
    n_ctx: int,
    reserve: int,
    policy: Overflow,
) -> Fitted:
    """The conversation, with as few of its oldest turns dropped as it takes to fit in `n_ctx − reserve` tokens.

    A turn is a user message and all that follows it up to the next; system messages always stay, and so does
    the last turn. `count` renders and tokenizes, so it is asked O(log turns) times. `reserve` is the room kept
    for the reply. Raises ContextFull, with the counts, under STOP or when not even the last turn fits.
    """
    room = n_ctx - reserve
    total = count(conversation)
    if total <= room:
        return Fitted(conversation, 0, total)
    starts = _turn_starts(conversation)
    if policy is Overflow.STOP or len(starts) < 2:
        raise _full(conversation, total, n_ctx, reserve, alone=len(starts) < 2)

    counted: dict[int, int] = {}

    def fits(turns: int) -> bool:
        counted[turns] = count(_without(conversation, starts[turns]))
        return counted[turns] <= room

    low, high = 0, len(starts) - 1  # dropping `low` turns is too little; `high` must be shown to be enough
    if not fits(high):
        raise _full(conversation, counted[high], n_ctx, reserve, alone=True)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle
    kept = _without(conversation, starts[high])
    return Fitted(kept, len(conversation) - len(kept), counted[high], dropped_turns=high)


def _turn_starts(conversation: Conversation) -> list[int]:
    """Index at which each turn starts. Whatever stands before the first user message joins no user turn and
    is a turn of its own, so that no cut leaves an answer without its question in front."""
    starts = [index for index, message in enumerate(conversation) if message.role == "user"]
    spoken = [index for index, message in enumerate(conversation) if message.role != "system"]
    if spoken and (not starts or spoken[0] < starts[0]):
        starts.insert(0, spoken[0])
    return starts


def _without(conversation: Conversation, before: int) -> Conversation:
    """The conversation without its messages before `before`, system messages apart."""

    def kept(index: int, message: Message) -> bool:
        return index >= before or message.role == "system"

    return tuple(message for index, message in enumerate(conversation) if kept(index, message))


def _full(conversation: Conversation, tokens: int, n_ctx: int, reserve: int, *, alone: bool) -> ContextFull:
    held = f"the context holds {n_ctx:,}, of which {reserve:,} are kept free for the reply"
    detail = f"{len(conversation)} messages, {tokens} tokens, n_ctx {n_ctx}, reserve {reserve}"
    if not alone:
        return ContextFull(
            f"This conversation takes {tokens:,} tokens; {held}.",
            "Start a new chat, let the oldest turns be dropped, or load the model with a larger context.",
            detail,
        )
    system = any(message.role == "system" for message in conversation)
    what = "The system prompt and the last message" if system else "The last message"
    return ContextFull(
        f"{what} alone {'take' if system else 'takes'} {tokens:,} tokens; {held}.",
        "Shorten the message, or load the model with a larger context.",
        detail,
    )
