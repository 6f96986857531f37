"""From a row of logits to the distribution after the sampler chain.

The chain is llama.cpp's (src/llama-sampler.cpp): penalties, top-k, top-p, min-p, temperature. Truncation looks
at the logits before temperature. A row of 152k logits is first cut to the few hundred candidates near its
maximum, which is exact whenever enough of them survive the cut; otherwise the full row is used.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstream.domain.sampling import Sampling

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64] | npt.NDArray[np.float32]

# distances below the maximum, tried in turn: on 152k tokens 5 mostly keeps dozens, 9 hundreds
_NEAR = (5.0, 9.0, 16.0)


@dataclass(frozen=True)
class Dist:
    """A distribution over token ids. `ids` [n] ascending, `probs` [n] summing to 1.
    `ids` None stands for 0..n−1: nothing was truncated."""

    ids: Ids | None
    probs: Reals

    def of(self, token: int) -> float:
        """The probability of `token`."""
        if self.ids is None:
            return float(self.probs[token]) if token < len(self.probs) else 0.0
        at = int(np.searchsorted(self.ids, token))
        return float(self.probs[at]) if at < len(self.ids) and self.ids[at] == token else 0.0

    def at(self, ids: Ids | None, size: int) -> Reals:
        """Probabilities of the given ids ([size], None: 0..size−1), 0 where not in the support."""
        if ids is None:
            full = np.zeros(size)
            if self.ids is None:
                n = min(size, len(self.probs))
                full[:n] = self.probs[:n]
            else:
                inside = self.ids < size
                full[self.ids[inside]] = self.probs[inside]
            return full
        if self.ids is None:
            inside = ids < len(self.probs)
            return np.where(inside, self.probs[np.where(inside, ids, 0)], 0.0)
        where = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[where] == ids, self.probs[where], 0.0)

    def draw(self, rng: np.random.Generator) -> int:
        total = np.cumsum(self.probs, dtype=np.float64)
        at = min(int(np.searchsorted(total, rng.random() * total[-1], side="right")), len(total) - 1)
        return at if self.ids is None else int(self.ids[at])

    def top(self) -> tuple[int, float]:
        """The likeliest token and its probability."""
        at = int(np.argmax(self.probs))
        return (at if self.ids is None else int(self.ids[at])), float(self.probs[at])

    def entropy(self) -> float:
        """In nats."""
        positive = self.probs[self.probs > 0]
        return float(-(positive * np.log(positive)).sum())

    def sharpened(self, tau: float) -> Dist:
        """∝ probs^(1/τ); τ → 0 is one-hot on the likeliest token."""
        if tau == 1.0:
            return self
        if tau <= 0:
            token, _ = self.top()
            return Dist(np.array([token]), np.ones(1))
        powered = (self.probs / self.probs.max()) ** (1.0 / tau)
        return Dist(self.ids, powered / powered.sum())


class History:
    """Counts over the last `window` tokens, for penalties (−1: all)."""

    def __init__(self, window: int, tokens: Iterable[int] = ()) -> None:
        self._window = window
        self._tokens: deque[int] = deque()
        self.counts: Counter[int] = Counter()
        for token in tokens:
            self.push(token)

    def push(self, token: int) -> None:
        self._tokens.append(token)
        self.counts[token] += 1
        if 0 <= self._window < len(self._tokens):
            self._forget(self._tokens.popleft())

    def _forget(self, token: int) -> None:
        self.counts[token] -= 1
        if not self.counts[token]:
            del self.counts[token]

    def ahead(self, tokens: Iterable[int]) -> History:
        """A copy with `tokens` after it."""
        return History(self._window, [*self._tokens, *tokens])


class Chain:
    """The sampler chain for one reply. `limit` cuts rows to the ids both models know."""

    def __init__(self, sampling: Sampling, limit: int) -> None:
        self.sampling = sampling
        self._limit = limit

    def history(self, tokens: Iterable[int]) -> History:
        if not self.sampling.penalised:
            return History(0)
        window = self.sampling.penalty_last_n
        kept = list(tokens)
        return History(window, kept[-window:] if window > 0 else kept)

    def dist(self, row: Floats, history: History) -> Dist:
        """The distribution after the chain for logits `row` [≥ limit]; one-hot when greedy."""
        row = self._penalised(row[: self._limit], history)
        s = self.sampling
        if s.greedy:
            return Dist(np.array([int(np.argmax(row))]), np.ones(1))
        peak = float(row.max())
        wanted = min(s.top_k, self._limit) if s.top_k > 0 else 0
        ids, logits, mass = self._candidates(row, peak, wanted)
        if wanted and wanted < len(logits):
            best = np.argpartition(logits, len(logits) - wanted)[len(logits) - wanted :]
            best.sort()
            ids, logits = (best if ids is None else ids[best]), logits[best]
        if s.top_p < 1:
            ids, logits = _top_p(ids, logits, s.top_p, mass)
        if s.min_p > 0:
            keep = logits >= peak + np.log(s.min_p)
            if not keep.all():
                ids, logits = (np.flatnonzero(keep) if ids is None else ids[keep]), logits[keep]
        weights = np.exp((logits - logits.dtype.type(peak)) / logits.dtype.type(s.temperature))
        return Dist(ids, weights / weights.sum(dtype=np.float64).astype(weights.dtype))

    def _candidates(self, row: Floats, peak: float, wanted: int) -> tuple[Ids | None, Reals, float | None]:
        """The ids and logits that truncation may keep, and the weight of the whole row (the peak weighs 1) where
        top-p needs it and only a part is returned. Falls back to the full row where no cut is exact."""
        s = self.sampling
        for near in _NEAR:
            ids = np.flatnonzero(row > peak - near)
            if wanted:
                if len(ids) >= wanted:
                    return ids, row[ids].astype(np.float64), None
            elif s.top_p < 1:
                mass = float(np.exp(row - np.float32(peak)).sum(dtype=np.float64))
                logits = row[ids].astype(np.float64)
                if np.exp(logits - peak).sum() >= s.top_p * mass * 1.0001:
                    return ids, logits, mass
            elif s.min_p > 0 and np.log(s.min_p) > -near:
                return ids, row[ids].astype(np.float64), None
        if wanted or s.top_p < 1 or s.min_p > 0:
            return None, row.astype(np.float64), None
        return None, row, None  # untruncated: single precision, or a row would cost milliseconds

    def _penalised(self, row: Floats, history: History) -> Floats:
        if not self.sampling.penalised or not history.counts:
            return row
        row = row.copy()
        tokens = np.fromiter(history.counts.keys(), dtype=np.int64)
        counts = np.fromiter(history.counts.values(), dtype=np.float32)
        inside = tokens < len(row)
        tokens, counts = tokens[inside], counts[inside]
        s, logits = self.sampling, row[tokens]
        logits = np.where(logits <= 0, logits * s.repeat_penalty, logits / s.repeat_penalty)
        row[tokens] = logits - counts * s.frequency_penalty - s.presence_penalty
        return row


def _top_p(
    ids: Ids | None, logits: Reals, top_p: float, mass: float | None
) -> tuple[Ids, Reals]:
    """The fewest likeliest tokens whose probabilities reach `top_p`, in id order. `mass`: the weight of all tokens
    where `logits` are only some (the likeliest weighs 1)."""
    weights = np.exp(logits - logits.max())
    order = np.argsort(-weights, kind="stable")
    reached = np.cumsum(weights[order]) / (weights.sum() if mass is None else mass)
    keep = order[: int(np.searchsorted(reached, top_p, side="left")) + 1]
    keep.sort()
    return (keep if ids is None else ids[keep]), logits[keep]
