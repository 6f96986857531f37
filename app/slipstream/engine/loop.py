"""The speculative loop: rounds of drafting, verifying and trimming, until the reply ends.

The target's cache holds `tokens[:-1]`; the last token is sampled but not yet decoded. Each round decodes it together
with the drafted tokens, verifies row by row, and takes back what was rejected. On every way out (done, stop string,
cancelled, failed) the caches hold a prefix of `tokens`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from slipstream.domain.protocol import FinishReason
from slipstream.domain.rounds import Round
from slipstream.engine.cache import Cache
from slipstream.engine.drafters import Draft, Drafter, Steering
from slipstream.engine.pace import Candidate, Choice, Guess, Observation, PaceController
from slipstream.engine.sampling import Chain, Dist
from slipstream.engine.verify import Proposal, Verdict, verify

_NOTHING = Draft((), ())


@dataclass(frozen=True)
class Step:
    """What one round yielded: the new `tokens`, the first `round.accepted` of them the drafter's, the last the target's."""

    tokens: tuple[int, ...]
    round: Round


@dataclass
class Clock:
    """Times within a round, in seconds."""

    draft_s: float = 0.0
    verify_s: float = 0.0
    sample_s: float = 0.0
    roll_back_s: float = 0.0
    began: float = field(default_factory=time.perf_counter)

    def since(self) -> float:
        return time.perf_counter() - self.began


class Loop:
    """One reply's rounds. Make one per reply; `rounds()` is the generator to drive it."""

    def __init__(
        self,
        target: Cache,
        drafters: Sequence[Drafter],
        pace: PaceController,
        chain: Chain,
        rng: np.random.Generator,
        is_eog: Callable[[int], bool],
        max_draft: int,
    ) -> None:
        self._target = target
        self._drafters = {drafter.name: drafter for drafter in drafters}
        self._pace = pace
        self._chain = chain
        self._rng = rng
        self._is_eog = is_eog
        self._max_draft = max_draft
        self._steering = Steering(pace.go_on, pace.draw)
        self.tokens: list[int] = []
        self.reason = FinishReason.END

    def first(self, prompt: Sequence[int]) -> int:
        """Draw the first token from the prompt's own last row. The target must hold exactly `prompt`."""
        self.tokens = list(prompt)
        for drafter in self._drafters.values():
            drafter.begin(self.tokens, self._chain, self._rng)
        dist = self._chain.dist(self._target.logits(0), self._chain.history(self.tokens))
        token = dist.draw(self._rng)
        self.tokens.append(token)
        return token

    def rounds(self, max_tokens: int) -> Iterator[Step]:
        """Rounds until the model ends, `max_tokens` more tokens came (0: no limit) or the context is full; sets
        `reason`. The caller may stop iterating at any time, and calls `settle` then."""
        number, made, started = 0, 0, time.perf_counter()
        while True:
            room = self._target.n_ctx - len(self._target)
            if room < 1:
                self.reason = FinishReason.CONTEXT
                return
            left = max_tokens - made if max_tokens else room
            if left < 1:
                self.reason = FinishReason.LENGTH
                return
            number += 1
            step = self._round(number, min(self._max_draft, room - 1, left - 1), started)
            made += len(step.tokens)
            yield step
            if self._is_eog(self.tokens[-1]):
                self.reason = FinishReason.END
                return

    def settle(self, kept: int) -> None:
        """The reply was cut after `kept` tokens of the whole sequence: forget those past it. A target whose memory
        can't cheaply go back keeps them; the next reply compares tokens before it reuses any."""
        del self.tokens[kept:]
        self._target.shorten(len(self.tokens))

    def _round(self, number: int, k_limit: int, started: float) -> Step:
        clock, depth = Clock(), len(self._target)
        candidates = self._candidates(k_limit)
        choice = self._pace.choose(candidates, depth)
        draft = self._draft(choice, candidates, clock)
        proposals = draft.proposals
        if proposals and self._candidate(candidates, choice.drafter).deterministic:
            proposals = proposals[: self._pace.verify_length(draft.guesses)]
        verdict = self._verify(proposals, choice, clock)
        new = (*(proposal.token for proposal in proposals[: verdict.accepted]), verdict.token)
        for at, token in enumerate(new):  # nothing after the model's own end
            if self._is_eog(token):
                new = new[: at + 1]
                break
        self.tokens.extend(new)
        began = time.perf_counter()
        self._target.back_to(depth + len(new))
        if draft.proposals or choice.drafter:
            self._drafters[choice.drafter].accept(min(verdict.accepted, len(new)))
        clock.roll_back_s = time.perf_counter() - began
        return self._report(number, choice, draft, len(proposals), verdict, new, clock, started)

    def _candidates(self, k_limit: int) -> list[Candidate]:
        if k_limit < 1:
            return []
        offers = (drafter.offer(self.tokens, k_limit) for drafter in self._drafters.values())
        return [offer for offer in offers if offer is not None and offer.k_limit > 0]

    @staticmethod
    def _candidate(candidates: Sequence[Candidate], name: str) -> Candidate:
        return next(candidate for candidate in candidates if candidate.drafter == name)

    def _draft(self, choice: Choice, candidates: Sequence[Candidate], clock: Clock) -> Draft:
        if not choice.drafter:
            return _NOTHING
        began = time.perf_counter()
        k_max = min(choice.k_max, self._candidate(candidates, choice.drafter).k_limit)
        draft = self._drafters[choice.drafter].draft(self.tokens, k_max, self._steering)
        clock.draft_s = time.perf_counter() - began - draft.catch_up_s
        return draft

    def _verify(self, proposals: Sequence[Proposal], choice: Choice, clock: Clock) -> Verdict:
        began = time.perf_counter()
        if proposals:
            self._target.mark()
        self._target.decode([self.tokens[-1], *(proposal.token for proposal in proposals)], len(proposals) + 1)
        decoded = time.perf_counter()
        clock.verify_s = decoded - began
        learner = self._drafters[choice.drafter].learn if proposals else None
        history = self._chain.history(self.tokens)

        def target(row: int) -> Dist:
            if row:
                history.push(proposals[row - 1].token)
            return self._chain.dist(self._target.logits(row), history)

        verdict = verify(
            proposals, target, self._rng, None if learner is None else lambda _at, p, proposal: learner(p, proposal)
        )
        clock.sample_s = time.perf_counter() - decoded
        return verdict

    def _report(
        self,
        number: int,
        choice: Choice,
        draft: Draft,
        verified: int,
        verdict: Verdict,
        new: tuple[int, ...],
        clock: Clock,
        started: float,
    ) -> Step:
        depth, accepted = len(self._target) - len(new), verdict.accepted
        python_s = clock.since() - clock.draft_s - draft.catch_up_s - clock.verify_s - clock.sample_s - clock.roll_back_s
        guesses: tuple[Guess, ...] = tuple(draft.guesses[:verified])
        self._pace.observe(
            Observation(
                choice.drafter, len(draft.proposals), verified, accepted, guesses, verdict.labels, verified + 1, depth,
                clock.draft_s, clock.verify_s, clock.sample_s, max(0.0, python_s),
                draft.catch_up_tokens, draft.catch_up_s, clock.roll_back_s,
            )
        )  # fmt: skip
        # tokens past the model's own end count in none of the figures
        cut = len(new) <= accepted
        counted = len(new) if cut else accepted
        seen = len(new) if cut else verified
        made = len(new) if cut else len(draft.proposals)
        plain_s = self._pace.plain_step_s(depth) or 0.0
        even = self._pace.break_even(choice.drafter, verified, depth) if verified else None
        done = Round(
            number, choice.drafter if verified else "", made, seen, counted, len(new),
            clock.draft_s + draft.catch_up_s, clock.verify_s + clock.roll_back_s, clock.sample_s, max(0.0, python_s),
            time.perf_counter() - started, depth, plain_s, even or 0.0, self._pace.state,
        )  # fmt: skip
        return Step(new, done)
