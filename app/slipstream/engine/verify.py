"""Verification: which drafted tokens stay, and what follows them. Pure.

Rejection sampling after Leviathan et al. 2023 (arXiv:2211.17192) and Chen et al. 2023 (arXiv:2302.01318): a token
drawn from q is kept with probability min(1, p/q), else the next token comes from (p − q)₊ normalised. A one-hot
draft is the same rule with q = 1 on the token. Both keep p exactly, provided every sampled token is verified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slipstream.engine.sampling import Dist


@dataclass(frozen=True)
class Proposal:
    """A drafted token. `q`: the distribution it was drawn from, None for one-hot drafts.
    `base`: the draft's own distribution after the chain, from which q was sharpened (for learning τ)."""

    token: int
    q: Dist | None = None
    base: Dist | None = None


@dataclass(frozen=True)
class Verdict:
    """`accepted` drafted tokens stay, then comes `token`. `labels`: the chance each position had of being kept,
    up to and including the first rejection."""

    accepted: int
    token: int
    labels: tuple[float, ...]


def overlap(p: Dist, q: Dist) -> float:
    """Σ min(p, q): the chance that a token drawn from q is kept."""
    if p.ids is not None and (q.ids is None or len(p.ids) <= len(q.ids)):
        return float(np.minimum(p.probs, q.at(p.ids, len(p.probs))).sum())
    return float(np.minimum(q.probs, p.at(q.ids, len(q.probs))).sum())


def residual(p: Dist, proposal: Proposal) -> Dist:
    """What remains of p once the proposal was rejected: (p − q)₊ normalised; for one-hot, p without the token."""
    if proposal.q is None:
        rest = p.probs.copy()
        at = proposal.token if p.ids is None else int(np.searchsorted(p.ids, proposal.token))
        if at < len(rest) and (p.ids is None or p.ids[at] == proposal.token):
            rest[at] = 0.0
    else:
        rest = np.maximum(p.probs - proposal.q.at(p.ids, len(p.probs)), 0.0)
    total = rest.sum()
    # nothing is left only where p ≤ q everywhere, that is p = q up to rounding: then p itself is right
    return Dist(p.ids, rest / total) if total > 0 else p


def verify(
    proposals: Sequence[Proposal],
    target: Callable[[int], Dist],
    rng: np.random.Generator,
    learn: Callable[[int, Dist, Proposal], None] | None = None,
) -> Verdict:
    """`target(i)` gives p for the token after the first i proposals; rows past the first rejection are never asked.

    `learn(i, p, proposal)` is told of each decided position.
    """
    labels = []
    for index, proposal in enumerate(proposals):
        p = target(index)
        if learn is not None:
            learn(index, p, proposal)
        if proposal.q is None:
            chance = label = p.of(proposal.token)
        else:
            # the token was drawn from q, so q(token) > 0
            chance = min(1.0, p.of(proposal.token) / max(proposal.q.of(proposal.token), 1e-300))
            label = overlap(p, proposal.q)
        labels.append(min(1.0, label))
        if chance < 1.0 and rng.random() >= chance:
            return Verdict(index, residual(p, proposal).draw(rng), tuple(labels))
    return Verdict(len(proposals), target(len(proposals)).draw(rng), tuple(labels))
