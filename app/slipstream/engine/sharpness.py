"""How sharp a sampled draft should be: q_τ ∝ q^(1/τ), chosen by what was kept before.

Any τ that depends on the draft alone keeps the output exact, so the choice is free: take the τ with the largest
running mean of Σ min(p, q_τ) among positions where the draft was about as sure as it is now.
"""

from __future__ import annotations

from typing import Any

from slipstream.engine.sampling import Dist
from slipstream.engine.verify import overlap

GRID = (0.0, 0.5, 0.75, 1.0, 1.25)
_EDGES = (0.3, 0.5, 0.7, 0.9)
_START = 3  # grid index of τ = 1, plain rejection sampling
_PRIOR_WEIGHT = 8.0
_HALF_LIFE = 0.995
_LARGE = 4096


def bin_of(confidence: float) -> int:
    return sum(confidence >= edge for edge in _EDGES)


class Sharpness:
    def __init__(self) -> None:
        self._sums = [[0.0] * len(GRID) for _ in range(len(_EDGES) + 1)]
        self._weights = [0.0] * (len(_EDGES) + 1)
        self._skip = 0

    def choose(self, confidence: float) -> float:
        """τ for a position whose top draft probability is `confidence`."""
        at = bin_of(confidence)
        if self._weights[at] < _PRIOR_WEIGHT:
            return GRID[_START]
        sums = self._sums[at]
        best = max(range(len(GRID)), key=lambda i: sums[i])
        # a difference under half a percent is noise: keep rejection sampling, whose acceptance varies less
        return GRID[best] if sums[best] > 1.005 * sums[_START] else GRID[_START]

    def learn(self, p: Dist, base: Dist) -> None:
        """Score every τ on a decided position: p after the chain, `base` the draft's own distribution."""
        if len(base.probs) > _LARGE:
            self._skip = (self._skip + 1) % 16
            if self._skip:
                return  # untruncated distributions cost milliseconds to sharpen: learn from a few
        token, confidence = base.top()
        at = bin_of(confidence)
        sums = self._sums[at]
        for index, tau in enumerate(GRID):
            kept = p.of(token) if tau == 0 else overlap(p, base.sharpened(tau))
            sums[index] = sums[index] * _HALF_LIFE + kept
        self._weights[at] = self._weights[at] * _HALF_LIFE + 1

    def to_json(self) -> dict[str, Any]:
        return {"grid": list(GRID), "sums": self._sums, "weights": self._weights}

    @classmethod
    def from_json(cls, data: Any) -> Sharpness:
        """Tolerant: anything odd gives a fresh one."""
        made = cls()
        try:
            if list(data["grid"]) != list(GRID):
                return made
            sums = [[float(x) for x in row] for row in data["sums"]]
            weights = [float(x) for x in data["weights"]]
        except (KeyError, TypeError, ValueError):
            return made
        if [len(row) for row in sums] == [len(GRID)] * len(made._sums) and len(weights) == len(made._weights):
            made._sums, made._weights = sums, weights
        return made
