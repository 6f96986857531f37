"""What passes between the loop and the pace controller: offers, the choice, and what a round then cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Guess:
    """What is known of a drafted token before its value is drawn.

    `confidence`: the draft's top probability, or the quality of an n-gram match, 0..1. `entropy`: nats, 0 where
    not known.
    """

    confidence: float
    entropy: float = 0.0


@dataclass(frozen=True)
class Candidate:
    """A drafter on offer this round.

    `deterministic`: its draft may be cut after drafting (one-hot, block, n-gram). `block`: one call drafts all.
    `free`: drafting costs nothing worth counting, and `guesses` are already known. `catch_up_tokens`: tokens the
    drafter must be fed first (before its first use the whole prompt). `k_limit`: the most it can draft now.
    """

    drafter: str
    deterministic: bool
    block: bool
    free: bool
    guesses: tuple[Guess, ...] = ()
    catch_up_tokens: int = 0
    k_limit: int = 16


@dataclass(frozen=True)
class Choice:
    """How to run the next round: `drafter` "" is a plain step; at most `k_max` tokens are drafted.

    `reason`: "plain", "win" (predicted to pay), "probe" (to learn, paid from the budget), "pinned", "off", or
    "honest" (a plain step that keeps the measured cost of one honest).
    """

    drafter: str
    k_max: int
    reason: str


@dataclass(frozen=True)
class Observation:
    """What a round did. Times in seconds; `catch_up_s` and `roll_back_s` are part of no other figure.

    `guesses`: of the verified tokens, in order. `labels`: p(d) or min(1, p/q) up to and including the first
    rejection. `rows` = verified + 1 rows decoded on the target; `depth`: tokens in its cache before the round.
    """

    drafter: str
    proposed: int
    verified: int
    accepted: int
    guesses: tuple[Guess, ...]
    labels: tuple[float, ...]
    rows: int
    depth: int
    draft_s: float
    verify_s: float
    sample_s: float
    python_s: float
    catch_up_tokens: int = 0
    catch_up_s: float = 0.0
    roll_back_s: float = 0.0
