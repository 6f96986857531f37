"""Rounds and what they add up to: the one place that states what acceptance and tokens/s mean."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Round:
    """One target decode that verifies `verified` ≥ 0 drafted tokens and yields accepted + 1 tokens.

    `proposed`: tokens the drafter made; `verified`: those decoded on the target; `accepted`: those kept.
    Tokens past a stop count in none. `yielded` is accepted + 1, less where a stop cut the round short.
    `drafter` is empty for a plain round. Times in seconds; `python_s` is the rest of the round's wall time.
    `plain_s`: the measured time of a plain one-token step at this depth (0: not measured yet);
    `break_even`: the acceptance above which a round of this length pays (0: unknown).
    `state`: "off", "auto", "on", "paused", "measuring": what the pace controller is doing.
    """

    number: int
    drafter: str
    proposed: int
    verified: int
    accepted: int
    yielded: int
    draft_s: float = 0.0
    verify_s: float = 0.0
    sample_s: float = 0.0
    python_s: float = 0.0
    at_s: float = 0.0  # seconds since the first event of the reply
    depth: int = 0  # tokens in the target's cache before the round
    plain_s: float = 0.0
    break_even: float = 0.0
    state: str = "auto"

    @property
    def total_s(self) -> float:
        return self.draft_s + self.verify_s + self.sample_s + self.python_s


@dataclass(frozen=True)
class Totals:
    """Sums over one reply. The first token is drawn from the prompt's own decode, before any round: a reply
    starts as `Totals(tokens=1, first_tokens=1, …)` and tokens/s leaves that token out."""

    tokens: int = 0
    first_tokens: int = 0
    rounds: int = 0
    spec_rounds: int = 0
    proposed: int = 0
    verified: int = 0
    accepted: int = 0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    prompt_s: float = 0.0
    first_token_s: float = 0.0  # request to first token
    decode_s: float = 0.0  # first event to last
    elapsed_s: float = 0.0  # request to last token
    draft_s: float = 0.0
    verify_s: float = 0.0
    sample_s: float = 0.0
    python_s: float = 0.0
    plain_s: float = 0.0  # latest measured plain step, seconds
    by_position: tuple[tuple[int, int], ...] = field(default=())  # (verified, accepted) at guess 1, 2, …

    @property
    def acceptance(self) -> float | None:
        """accepted ÷ verified, 0..1; None where nothing was verified."""
        return self.accepted / self.verified if self.verified else None

    @property
    def tokens_per_round(self) -> float | None:
        """Σ(a + 1) ÷ rounds; None before the first round."""
        # a round cut by a stop yields less than accepted + 1
        return (self.tokens - self.first_tokens) / self.rounds if self.rounds else None

    @property
    def tokens_per_second(self) -> float | None:
        """(tokens − those of the first event) ÷ time from first event to last; None with one event only."""
        return (self.tokens - self.first_tokens) / self.decode_s if self.decode_s > 0 else None

    @property
    def speed_up(self) -> float | None:
        """tokens/s × the measured time of a plain one-token step; None where that was not measured."""
        rate = self.tokens_per_second
        return rate * self.plain_s if rate is not None and self.plain_s > 0 else None

    def add(self, done: Round) -> Totals:
        """The totals with one more round in them."""
        positions = list(self.by_position)
        for index in range(done.verified if done.drafter else 0):
            if index > done.accepted:
                break  # past the first rejection nothing was decided
            while len(positions) <= index:
                positions.append((0, 0))
            seen, kept = positions[index]
            positions[index] = (seen + 1, kept + (index < done.accepted))
        return replace(
            self,
            tokens=self.tokens + done.yielded,
            rounds=self.rounds + 1,
            spec_rounds=self.spec_rounds + (done.verified > 0),
            proposed=self.proposed + done.proposed,
            verified=self.verified + done.verified,
            accepted=self.accepted + done.accepted,
            decode_s=done.at_s,
            draft_s=self.draft_s + done.draft_s,
            verify_s=self.verify_s + done.verify_s,
            sample_s=self.sample_s + done.sample_s,
            python_s=self.python_s + done.python_s,
            plain_s=done.plain_s or self.plain_s,
            by_position=tuple(positions),
        )
