"""How likely a guess is to be accepted, learned online.

A logistic in the draft's confidence and entropy with a bias by position, fed soft labels p(d) or min(1, p/q). The
weights are tracked by an extended Kalman filter (a Gaussian over the weights, linearised at its mean; the scalar
form of recursive logistic regression): its covariance is both the step size and an honest measure of ignorance, and
a little drift per label keeps it following a text that changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from slipstream.engine.pace.rounds import Guess

_POSITIONS = (0, 1, 2, 3, 4, 4, 5, 5, 5)  # groups of positions that share a bias; later ones are group 6
_GROUPS = 7
_LAST_GROUP = _GROUPS - 1
_CENTRE = 1.2  # logit of a typical confidence (0.77)
_CENTRE_ENTROPY = 0.8
_PRIOR_MODEL = (0.85, 0.6, 0.0)  # accepted 0.70 at a typical confidence: a shade optimistic
_PRIOR_FREE = (0.8, 0.9, 0.0)  # match quality taken nearly at its word
_PRIOR_AHEAD = (0.85, 0.5, 0.0)
_DRIFT = (2e-3, 1e-4, 1e-4)
_FADE = 0.93  # of a deviation from the usual, per token of text passed without drafting
_HORIZON_FADE = 0.85  # of the same, per position looked ahead


def sigmoid(logit: float) -> float:
    if logit < -30.0:
        return 1e-13
    return 1.0 / (1.0 + math.exp(-logit))


def logit(probability: float) -> float:
    """Clipped, so that a draft that says 0 or 1 stays finite."""
    clipped = min(max(probability, 0.02), 0.996)
    return math.log(clipped / (1.0 - clipped))


class Logistic:
    """P(accept) = σ(w·x + b_position), x = (1, x1, x2)."""

    def __init__(self, mean: Sequence[float], variance: Sequence[float]) -> None:
        self.mean = list(mean)
        self.cov = [variance[0], 0.0, 0.0, variance[1], 0.0, variance[2]]  # 00 01 02 11 12 22
        self.bias = [0.0] * _GROUPS
        self.bias_var = [0.15] * _GROUPS

    def logit(self, x1: float, x2: float, position: int) -> float:
        group = _POSITIONS[position] if position < len(_POSITIONS) else _LAST_GROUP
        w0, w1, w2 = self.mean
        return w0 + w1 * x1 + w2 * x2 + self.bias[group]

    def spread(self, x1: float, x2: float, position: int) -> float:
        """Standard deviation of the logit: how little is known."""
        group = _POSITIONS[position] if position < len(_POSITIONS) else _LAST_GROUP
        a, b, c, d, e, f = self.cov
        variance = a + 2 * b * x1 + 2 * c * x2 + d * x1 * x1 + 2 * e * x1 * x2 + f * x2 * x2 + self.bias_var[group]
        return math.sqrt(max(variance, 0.0))

    def update(self, x1: float, x2: float, position: int, label: float) -> None:
        group = _POSITIONS[position] if position < len(_POSITIONS) else _LAST_GROUP
        a, b, c, d, e, f = self.cov
        a, d, f = min(a + _DRIFT[0], 2.0), min(d + _DRIFT[1], 1.0), min(f + _DRIFT[2], 1.0)
        own = min(self.bias_var[group] + 1e-4, 0.5)
        g0, g1, g2 = a + b * x1 + c * x2, b + d * x1 + e * x2, c + e * x1 + f * x2
        w = self.mean
        guess = sigmoid(w[0] + w[1] * x1 + w[2] * x2 + self.bias[group])
        slope = max(guess * (1.0 - guess), 0.02)  # floored: a sure filter must still be able to learn that it errs
        scale = 1.0 / (1.0 + slope * (g0 + g1 * x1 + g2 * x2 + own))
        step = (label - guess) * scale
        w[0] += g0 * step
        w[1] += g1 * step
        w[2] += g2 * step
        self.bias[group] += own * step
        shrink = slope * scale
        self.cov = [
            a - shrink * g0 * g0,
            b - shrink * g0 * g1,
            c - shrink * g0 * g2,
            d - shrink * g1 * g1,
            e - shrink * g1 * g2,
            f - shrink * g2 * g2,
        ]
        self.bias_var[group] = own - shrink * own * own

    def to_numbers(self) -> tuple[float, ...]:
        return (*self.mean, *self.cov, *self.bias, *self.bias_var)

    def from_numbers(self, numbers: Sequence[float], doubt: float) -> None:
        """Take recorded weights, with `doubt` added to their variances: the text may be another one by now."""
        if len(numbers) != 9 + 2 * _GROUPS:
            return
        self.mean = [min(max(value, -8.0), 8.0) for value in numbers[:3]]
        a, b, c, d, e, f = numbers[3:9]
        if min(a, d, f) > 0 and max(a, d, f) < 10 and b * b <= a * d and c * c <= a * f and e * e <= d * f:
            self.cov = [a + doubt, b, c, d + doubt / 10, e, f + doubt / 10]
        self.bias = [min(max(value, -4.0), 4.0) for value in numbers[9 : 9 + _GROUPS]]
        self.bias_var = [min(max(value, 1e-4), 0.5) for value in numbers[9 + _GROUPS :]]


class Acceptance:
    """Two views of one drafter: `seen` judges a guess whose confidence is known, `ahead` one not yet drafted.

    `ahead` knows only the run of late guesses: their calibrated logit, averaged over about three (drafts are sure or
    unsure in bursts). The average drifts back to its usual value while nothing is drafted.
    """

    def __init__(self, free: bool = False) -> None:
        self.seen = Logistic(_PRIOR_FREE if free else _PRIOR_MODEL, (0.5, 0.1, 0.05))
        self.ahead = Logistic(_PRIOR_AHEAD, (0.5, 0.1, 0.0))
        self.labels = 0
        self.run = _PRIOR_AHEAD[0]
        self.usual = _PRIOR_AHEAD[0]

    def logit_of(self, guess: Guess, position: int) -> float:
        entropy = min(max(guess.entropy, 0.0), 5.0) - _CENTRE_ENTROPY
        return self.seen.logit(logit(guess.confidence) - _CENTRE, entropy, position)

    @staticmethod
    def follow(run: float, guess_logit: float) -> float:
        """The run of late guesses with one more in it."""
        return run + 0.35 * (min(max(guess_logit, -3.0), 4.0) - run)

    def forecast(self, run: float, start: int, count: int, optimism: float = 0.0) -> Iterator[float]:
        """P(accept | all before accepted) of the guesses at positions start.., none of them drafted yet."""
        (w0, w1, _), bias, exp = self.ahead.mean, self.ahead.bias, math.exp
        base, away = w0 + w1 * (self.usual - _PRIOR_AHEAD[0]), w1 * (run - self.usual)
        if optimism:
            base += optimism * self.ahead.spread(self.usual - _PRIOR_AHEAD[0], 0.0, start)
        for position in range(start, start + count):
            z = base + away + bias[_POSITIONS[position] if position < 9 else _LAST_GROUP]
            yield 1.0 / (1.0 + exp(-z)) if z > -30.0 else 1e-13
            away *= _HORIZON_FADE

    def learn(self, guesses: Sequence[Guess], labels: Sequence[float]) -> None:
        for position, (guess, label) in enumerate(zip(guesses, labels, strict=False)):
            label = min(max(label, 0.0), 1.0)
            entropy = min(max(guess.entropy, 0.0), 5.0) - _CENTRE_ENTROPY
            confidence = logit(guess.confidence) - _CENTRE
            self.ahead.update(self.run - _PRIOR_AHEAD[0], 0.0, position, label)
            own = self.seen.logit(confidence, entropy, position)
            self.seen.update(confidence, entropy, position, label)
            self.run = self.follow(self.run, own)
            self.usual += 0.02 * (self.run - self.usual)
            self.labels += 1

    def pass_by(self, tokens: int) -> None:
        """Text went on without this drafter."""
        self.run = self.usual + (self.run - self.usual) * _FADE**tokens
