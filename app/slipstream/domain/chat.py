"""Conversations as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Message:
    """One turn. `reasoning` is what the model thought before its answer (empty where it has no such channel)."""

    role: Role
    content: str
    reasoning: str = ""


Conversation = tuple[Message, ...]
