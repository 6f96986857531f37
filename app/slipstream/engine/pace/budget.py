"""What speculation may lose, and when a drafter that lost is tried again. All amounts in units (plain steps)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

REPLY = 256  # tokens: the reply the promise is about
GRANT = 3.6  # what such a reply may lose from the start: 1.4 % of it
_EARLY_SHARE = 0.0025  # earned of generation time until then, so that the whole stays below 2 %
_LATE_SHARE = 0.0165  # and thereafter
_LONG_RUN_SHARE = 0.01
_SAVINGS_CAP = 500.0
_PROBE_FIRST = 16  # tokens
_PROBE_LAST = 2048
_WINDOW = 24  # rounds over which a drafter must not run below plain
_WINDOW_LEAST = 10


@dataclass
class Budget:
    """An account of what speculation won and lost against plain decoding, measured.

    A reply starts with a grant, earns a share of generation time, and is credited or charged with every round's real
    gain. No round is begun whose worst outcome the account cannot pay, so a reply of 256 tokens or more is never
    behind plain decoding by 2 %. `savings` is the same account over all replies at 1 %: losses of one reply shrink
    the grant of the next, so that in the long run the loss is below 1 %.

    The one exception is `invest`: feeding a drafter a long prompt, where a win is well founded. What that costs is
    owed by the rounds to come and covered by savings, not by the reply's own account.
    """

    savings: float = GRANT
    balance: float = GRANT
    debt: float = 0.0  # catch-up not yet earned back
    outlay: float = 0.0  # all such catch-up of this reply
    done: float = 0.0  # units of generation in this reply

    def begin_reply(self, expected_tokens: float) -> None:
        scale = min(1.0, max(0.15, expected_tokens / REPLY))
        self.balance = min(scale * GRANT, max(self.savings, 0.0))
        self.debt = self.outlay = 0.0
        self.done = 0.0

    def earn(self, units: float) -> None:
        """Generation went on for `units`."""
        self.done += units
        self.savings = min(self.savings + _LONG_RUN_SHARE * units, _SAVINGS_CAP)
        self.balance += (_EARLY_SHARE if self.done < REPLY else _LATE_SHARE) * units

    def settle(self, gain: float) -> None:
        """A round won (or, negative, lost) `gain` against plain decoding."""
        if gain > 0 and self.debt > 0:
            paid = min(gain, self.debt)
            self.debt -= paid
            self.savings = min(self.savings + paid, _SAVINGS_CAP)
            gain -= paid
        self._add(gain)

    def invest(self, units: float) -> None:
        """Feed a drafter more than the reply can pay for: owed by what it wins next."""
        self.debt += units
        self.outlay += units
        self.savings -= units

    def _add(self, units: float) -> None:
        self.balance += units
        self.savings = min(self.savings + units, _SAVINGS_CAP)


@dataclass
class Trial:
    """One drafter's standing: is it in use, paused, and when may it be tried again?"""

    interval: int = _PROBE_FIRST  # tokens from one try to the next, doubling while they fail
    since_probe: int = _PROBE_LAST  # tokens since the last one; the first is due at once
    paused: bool = False
    rounds: int = 0  # rounds taken because predicted to win
    net: float = 0.0  # mean gain of such a round, late ones weighing most
    window: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    @property
    def proven(self) -> bool:
        """It has won over many rounds: worth an outlay that only later rounds pay back."""
        return self.rounds >= 48 and self.net > 0.03 and not self.paused

    @property
    def due(self) -> bool:
        return self.since_probe >= self.interval

    def pass_by(self, tokens: int) -> None:
        self.since_probe += tokens
        if self.paused and self.due:
            self.paused = False  # on trial again, with a fresh window

    def won(self, gain: float) -> None:
        """Book a round that was predicted to win. Over a window it must not be clearly behind plain decoding."""
        self.rounds += 1
        self.net += max(0.03, 1.0 / self.rounds) * (gain - self.net)
        self.window.append(gain)
        count = len(self.window)
        if count < _WINDOW_LEAST:
            return
        mean = sum(self.window) / count
        spread = (sum((each - mean) ** 2 for each in self.window) / (count - 1) / count) ** 0.5
        if mean < -spread - 1e-9:
            self.paused = True
            self.window.clear()
            self._failed()
        elif count == _WINDOW and mean > 0:
            self.interval = _PROBE_FIRST

    def probed(self, gain: float) -> None:
        """Book a probe: a round not predicted to win."""
        self.since_probe = 0
        if gain <= 0:
            self._failed()

    def _failed(self) -> None:
        self.since_probe = 0
        self.interval = min(self.interval * 2, _PROBE_LAST)
