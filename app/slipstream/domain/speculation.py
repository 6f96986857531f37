"""What the user asks of speculation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """AUTO: the pace controller decides each round. ON: always, at the pinned length. OFF: plain decoding."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


@dataclass(frozen=True)
class Speculation:
    """`length` is the pinned draft length in tokens, used by ON. `min_confidence` stops drafting where the
    draft's own top probability falls below it (0: never). `drafters` names those allowed, in registration
    order ("model", "ngram"); empty allows all that the loaded pair has."""

    mode: Mode = Mode.AUTO
    length: int = 4
    min_confidence: float = 0.0
    drafters: tuple[str, ...] = ()
