"""A small model as the draft: it samples from its own distribution, a token per step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from slipstream.engine.cache import Cache
from slipstream.engine.drafters.base import Draft, Parts, Profile, Steering
from slipstream.engine.pace import Candidate, Guess
from slipstream.engine.sampling import Chain, Dist, Floats
from slipstream.engine.sharpness import Sharpness
from slipstream.engine.verify import Proposal

_NEAR = 9.0
_PROFILE_STEPS = 6


class ModelDrafter:
    name = "model"

    def __init__(self, cache: Cache, parts: Parts) -> None:
        self._cache = cache
        self._vocab = cache.context.n_vocab
        self._shared = min(self._vocab, parts.n_vocab)
        self._is_eog = parts.is_eog
        self._sharpness = Sharpness.from_json(parts.learned.get("sharpness"))
        self._chain: Chain | None = None
        self._rng = np.random.default_rng(0)
        self._start = 0  # tokens in the cache that the sequence already held when the last draft began

    def begin(self, tokens: Sequence[int], chain: Chain, rng: np.random.Generator) -> None:
        self._cache.reuse([self._own(token) for token in tokens])
        self._chain = Chain(chain.sampling, self._shared)
        self._rng = rng

    def offer(self, tokens: Sequence[int], k_limit: int) -> Candidate | None:
        # the last drafted token is never decoded, so k tokens need k − 1 cells after the sequence
        room = min(k_limit, self._cache.n_ctx - len(tokens) + 1)
        if room < 1:
            return None
        missing = len(tokens) - len(self._cache)
        return Candidate(
            self.name, False, False, False, catch_up_tokens=missing if missing > 2 else 0, k_limit=room
        )

    def draft(self, tokens: Sequence[int], k_max: int, steering: Steering) -> Draft:
        chain, cache = self._chain, self._cache
        assert chain is not None, "begin comes first"
        missing = [self._own(token) for token in tokens[len(cache) :]]
        behind, caught_up_s = 0, 0.0
        if len(missing) > 2:
            began = time.perf_counter()
            cache.feed(missing[:-1])
            behind, caught_up_s = len(missing) - 1, time.perf_counter() - began
            missing = missing[-1:]
        cache.mark()
        cache.decode(missing, 1)
        self._start = len(cache)
        history = chain.history(tokens)
        proposals: list[Proposal] = []
        guesses: list[Guess] = []
        while True:
            proposal, guess = self._propose(cache.logits(0)[: self._shared], chain, history)
            guesses.append(guess)
            if not steering.draw(guesses):
                guesses.pop()
                break
            proposal = self._drawn(proposal, guess)
            proposals.append(proposal)
            if len(proposals) >= k_max or self._is_eog(proposal.token) or not steering.go_on(guesses):
                break
            cache.decode([proposal.token], 1)
            history.push(proposal.token)
        return Draft(tuple(proposals), tuple(guesses), behind, caught_up_s)

    def _propose(self, row: Floats, chain: Chain, history: Any) -> tuple[Proposal, Guess]:
        """The draft's own distribution and what it says of itself, before anything is drawn."""
        base = chain.dist(row, history)
        if not chain.sampling.greedy:
            token, confidence = base.top()
            return Proposal(token, None, base), Guess(confidence, base.entropy())
        token = int(base.ids[0]) if base.ids is not None else 0
        peak = row[token]
        near = row[row > peak - _NEAR] - peak
        weights = np.exp(near)
        total = float(weights.sum())
        entropy = float(np.log(total) - (weights * near).sum() / total)
        return Proposal(token), Guess(min(1.0, 1.0 / total), max(0.0, entropy))

    def _drawn(self, proposal: Proposal, guess: Guess) -> Proposal:
        base = proposal.base
        if base is None:
            return proposal
        tau = self._sharpness.choose(guess.confidence)
        if tau <= 0:
            return proposal
        q = base.sharpened(tau)
        return Proposal(q.draw(self._rng), q, base)

    def learn(self, p: Dist, proposal: Proposal) -> None:
        if proposal.base is not None:
            self._sharpness.learn(p, proposal.base)

    def accept(self, count: int) -> None:
        # the draft keeps what it computed for accepted tokens; the last drafted one was never decoded
        self._cache.back_to(min(len(self._cache), self._start + count))

    def profile(self, tokens: Sequence[int]) -> Profile | None:
        cache, half = self._cache, len(tokens) // 2
        cache.clear()
        cache.decode(list(tokens[:2]), 1)  # the first decode reads the weights from disk
        began = time.perf_counter()
        cache.decode(list(tokens[2:half]), 0)
        fed_s = time.perf_counter() - began
        steps = tokens[half : half + _PROFILE_STEPS]
        began = time.perf_counter()
        for token in steps:
            cache.decode([token], 1)
            cache.logits(0).argmax()
        steps_s = time.perf_counter() - began
        cache.clear()
        return Profile(len(steps), steps_s, half - 2, fed_s)

    def reset(self) -> None:
        self._cache.clear()

    def state(self) -> dict[str, Any]:
        return {"sharpness": self._sharpness.to_json()}

    def close(self) -> None:
        self._cache.close()

    def _own(self, token: int) -> int:
        """The target may know up to 128 tokens more; the draft reads its own last token in their place. That only
        makes its guess poorer, never the text wrong."""
        return token if token < self._vocab else self._vocab - 1


def make(parts: Parts) -> ModelDrafter | None:
    return ModelDrafter(parts.draft_cache, parts) if parts.draft_cache is not None else None
