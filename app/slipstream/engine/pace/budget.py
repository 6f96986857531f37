"""What speculation may lose, and when a drafter that lost is tried again. All amounts in units (plain steps)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

SHARE = 0.01  # of generation time
GRANT = 2.0  # what a reply may lose before it has earned any: 0.8 % of 256 tokens
_SAVINGS_CAP = 500.0
_PROBE_FIRST = 16  # tokens
_PROBE_LAST = 2048
_WINDOW = 24  # rounds over which a drafter must not run below plain
_WINDOW_LEAST = 10


@dataclass
class Budget:
    """An account of what speculation won and lost against plain decoding, measured.

    A reply starts with `GRANT` at most, earns 1 % of generation time, and is credited or charged with every round's
    real gain. No round is begun whose worst outcome the account cannot pay, so at no moment is a reply behind plain
    decoding by more than GRANT + 1 %. `savings` is the same account over all replies: losses of one reply shrink the
    grant of the next, so that in the long run the loss is below 1 %.
    """

    savings: float = GRANT
    balance: float = GRANT
    debt: float = 0.0  # catch-up of proven drafters not yet earned back

    def begin_reply(self, expected_tokens: int | None) -> None:
        grant = GRANT if expected_tokens is None else min(GRANT, max(0.3, GRANT * expected_tokens / 256))
        self.balance = min(grant, max(self.savings, 0.0))
        self.debt = 0.0

    def earn(self, units: float) -> None:
        """Generation went on for `units`."""
        self._add(SHARE * units)

    def settle(self, gain: float) -> None:
        """A round won (or, negative, lost) `gain` against plain decoding."""
        if gain > 0 and self.debt > 0:
            paid = min(gain, self.debt)
            self.debt -= paid
            self.savings = min(self.savings + paid, _SAVINGS_CAP)
            gain -= paid
        self._add(gain)

    def invest(self, units: float) -> None:
        """Catch-up of a proven drafter: owed by what it wins next, not by the account."""
        self.debt += units
        self.savings -= units

    def _add(self, units: float) -> None:
        self.balance += units
        self.savings = min(self.savings + units, _SAVINGS_CAP)


@dataclass
class Trial:
    """One drafter's standing: is it in use, paused, and when may it be probed again?"""

    interval: int = _PROBE_FIRST  # tokens from one probe to the next, doubling while probes fail
    since_probe: int = _PROBE_LAST  # tokens since the last one; the first is due at once
    paused: bool = False
    rounds: int = 0  # rounds taken because predicted to win
    net: float = 0.0  # mean gain of such a round, late ones weighing most
    window: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    trying: list[float] = field(default_factory=list)  # gains of the probes since the pause

    @property
    def proven(self) -> bool:
        """It has won over many rounds: worth an outlay that only later rounds pay back."""
        return self.rounds >= 48 and self.net > 0.03 and not self.paused

    @property
    def probe_due(self) -> bool:
        return self.since_probe >= self.interval

    def pass_by(self, tokens: int) -> None:
        self.since_probe += tokens

    def won(self, gain: float) -> None:
        """Book a round that was predicted to win."""
        self.rounds += 1
        self.net += max(0.03, 1.0 / self.rounds) * (gain - self.net)
        self.window.append(gain)
        count = len(self.window)
        if count < _WINDOW_LEAST:
            return
        mean = sum(self.window) / count
        spread = (sum((each - mean) ** 2 for each in self.window) / (count - 1) / count) ** 0.5
        if mean < -0.5 * spread - 1e-9:
            self.paused = True
            self.window.clear()
            self.trying.clear()
            self.since_probe = 0
        elif count == _WINDOW and mean > 0:
            self.interval = _PROBE_FIRST

    def probed(self, gain: float) -> None:
        """Book a probe. Two probes that together did not lose end a pause."""
        self.since_probe = 0
        self.trying.append(gain)
        if self.paused and len(self.trying) >= 2 and sum(self.trying[-2:]) >= 0:
            self.paused = False
            self.window.clear()
            self.trying.clear()
        else:
            self.interval = min(self.interval * 2, _PROBE_LAST)
