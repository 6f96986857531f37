"""What a drafter is. The loop knows no more than this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from slipstream.engine.cache import Cache
from slipstream.engine.pace import Candidate, Guess
from slipstream.engine.sampling import Chain, Dist
from slipstream.engine.verify import Proposal


@dataclass(frozen=True)
class Steering:
    """How the pace controller steers a draft made step by step. `go_on(guesses)`: pay for one more step?
    `draw(guesses)`: the last step is paid and its q known; draw from it? A token once drawn is verified."""

    go_on: Callable[[Sequence[Guess]], bool]
    draw: Callable[[Sequence[Guess]], bool]


@dataclass(frozen=True)
class Draft:
    """`proposals` in order, `guesses` beside them. Times in seconds; catching up is counted apart."""

    proposals: tuple[Proposal, ...]
    guesses: tuple[Guess, ...]
    catch_up_tokens: int = 0
    catch_up_s: float = 0.0


@dataclass(frozen=True)
class Profile:
    """What drafting costs, measured: `steps` draft steps, and `fed` tokens taken in at one go. Seconds."""

    steps: int
    steps_s: float
    fed: int
    fed_s: float


class Drafter(Protocol):
    """Calls per reply: `begin`, then per round `offer` and, for the one chosen, `draft`, `learn` for each decided
    position and `accept`. `tokens` is always the whole sequence, the last of them not yet decoded on the target."""

    name: str

    def begin(self, tokens: Sequence[int], chain: Chain, rng: np.random.Generator) -> None:
        """A new reply starts from these tokens. Must be quick: nothing is decoded here."""

    def offer(self, tokens: Sequence[int], k_limit: int) -> Candidate | None:
        """What this drafter could do now; None where it can't draft."""

    def draft(self, tokens: Sequence[int], k_max: int, steering: Steering) -> Draft:
        """Propose at most `k_max` tokens. Raises Cancelled, DecodeFailed; its own cache stays consistent."""

    def learn(self, p: Dist, proposal: Proposal) -> None:
        """A position was decided: p is the target's distribution there."""

    def accept(self, count: int) -> None:
        """So many of the last draft's tokens were kept: take the rest back."""

    def profile(self, tokens: Sequence[int]) -> Profile | None:
        """Time a few steps over `tokens`; None where drafting costs nothing. Empties the drafter's cache."""

    def reset(self) -> None:
        """Forget what was fed."""

    def state(self) -> dict[str, Any]:
        """What was learned, to be kept between runs."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Parts:
    """What a drafter may be built from. `n_vocab`: the target's. `learned`: its `state()` of an earlier run."""

    n_vocab: int
    is_eog: Callable[[int], bool]
    draft_cache: Cache | None
    learned: dict[str, Any]
