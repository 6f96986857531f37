"""N-gram speculation: what followed the longest earlier match of the text's end, copied. No model, no memory.

The index maps each pair of tokens to where it ended before. Candidates are compared backwards; the longest match
wins, among equals the latest (llama.cpp's `ngram-map` takes the latest match even where a longer one exists).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from slipstream.engine.drafters.base import Draft, Parts, Profile, Steering
from slipstream.engine.pace import Candidate, Guess
from slipstream.engine.sampling import Chain, Dist
from slipstream.engine.verify import Proposal

_KEY = 2  # tokens that must match at least
_LOOK = 24  # earlier places compared
_LONGEST = 32  # tokens compared backwards


class NgramDrafter:
    name = "ngram"

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._places: dict[tuple[int, ...], list[int]] = {}
        self._ready: list[int] = []
        self._guesses: tuple[Guess, ...] = ()

    def begin(self, tokens: Sequence[int], chain: Chain, rng: np.random.Generator) -> None:
        if list(tokens[: len(self._tokens)]) != self._tokens:
            self.reset()
        self._index(tokens)

    def offer(self, tokens: Sequence[int], k_limit: int) -> Candidate | None:
        self._index(tokens)
        self._ready, self._guesses = self._copy(k_limit)
        if not self._ready:
            return None
        return Candidate(self.name, True, True, True, guesses=self._guesses, k_limit=len(self._ready))

    def draft(self, tokens: Sequence[int], k_max: int, steering: Steering) -> Draft:
        return Draft(tuple(Proposal(token) for token in self._ready[:k_max]), self._guesses[:k_max])

    def learn(self, p: Dist, proposal: Proposal) -> None:
        pass

    def accept(self, count: int) -> None:
        pass

    def profile(self, tokens: Sequence[int]) -> Profile | None:
        return None

    def reset(self) -> None:
        self._tokens = []
        self._places = {}

    def state(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        pass

    def _index(self, tokens: Sequence[int]) -> None:
        """Add what is new. The text's very end is left out, or it would match itself."""
        known = self._tokens
        for at in range(len(known), len(tokens)):
            if at >= _KEY:
                self._places.setdefault(tuple(known[at - _KEY : at]), []).append(at)
            known.append(tokens[at])

    def _copy(self, k_limit: int) -> tuple[list[int], tuple[Guess, ...]]:
        known = self._tokens
        end = len(known)
        places = self._places.get(tuple(known[end - _KEY :])) if end > _KEY else None
        if not places or k_limit < 1:
            return [], ()
        matches = [(self._match(at), at) for at in places[-_LOOK:]]
        length, source = max(matches)
        following = known[source]
        rivals = [m for m, at in matches if m >= min(length, 6)]
        agree = sum(known[at] == following for m, at in matches if m >= min(length, 6)) / len(rivals)
        copied: list[int] = []
        for offset in range(k_limit):
            at = source + offset
            # a copy may run into itself: then the text is repeating
            copied.append(known[at] if at < end else copied[at - end])
        confidence = [agree * (1.0 - 1.0 / (2.0 + length + offset)) for offset in range(k_limit)]
        return copied, tuple(Guess(c, 0.0) for c in confidence)

    def _match(self, at: int) -> int:
        """How many tokens before `at` equal those at the end."""
        known, end = self._tokens, len(self._tokens)
        length = _KEY
        while length < _LONGEST and length < at and known[at - 1 - length] == known[end - 1 - length]:
            length += 1
        return length


def make(parts: Parts) -> NgramDrafter:
    return NgramDrafter()
