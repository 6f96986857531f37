"""Live figures of a reply: speed over a short window. No Qt."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from slipstream.domain.rounds import Round

WINDOW_S = 2.5


class LiveRate:
    """Tokens per second over the last 2.5 s of a reply's own clock (`Round.at_s`)."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._marks: deque[tuple[float, int]] = deque()
        self.reset()

    def reset(self) -> None:
        """A new reply starts: its first token is the event at 0 s and counts in no rate."""
        self._marks.clear()
        self._marks.append((0.0, 0))

    def add(self, rounds: Iterable[Round]) -> None:
        for done in rounds:
            at_s, tokens = self._marks[-1]
            self._marks.append((max(at_s, done.at_s), tokens + done.yielded))
        # The youngest mark outside the window stays: it says when the window's first token began.
        while len(self._marks) > 2 and self._marks[1][0] <= self._marks[-1][0] - self._window_s:
            self._marks.popleft()

    @property
    def rate(self) -> float | None:
        """Tokens per second; None before any time has passed."""
        (first_s, before), (last_s, after) = self._marks[0], self._marks[-1]
        return (after - before) / (last_s - first_s) if last_s > first_s else None


def mean_of_last(rounds: Iterable[Round], count: int = 8) -> float | None:
    """The mean number of tokens verified in the last `count` rounds that speculated; None where none did."""
    lengths = [done.verified for done in rounds if done.verified > 0][-count:]
    return sum(lengths) / len(lengths) if lengths else None
