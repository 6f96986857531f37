"""Text that carries its provenance: runs of `Span` that can be cut at any character."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from slipstream.domain.protocol import Span


class SpanBuffer:
    """A queue of spans read as one text; cutting a span copies everything but its text."""

    def __init__(self) -> None:
        self._spans: deque[Span] = deque()
        self.text = ""

    def append(self, span: Span) -> None:
        if span.text:
            self._spans.append(span)
            self.text += span.text

    def take(self, count: int) -> list[Span]:
        """Remove and return the first `count` characters (fewer where there are no more)."""
        taken: list[Span] = []
        left = min(count, len(self.text))
        self.text = self.text[left:]
        while left:
            span = self._spans.popleft()
            if len(span.text) > left:
                self._spans.appendleft(replace(span, text=span.text[left:]))
                span = replace(span, text=span.text[:left])
            left -= len(span.text)
            taken.append(span)
        return taken

    def drop(self, count: int) -> None:
        """Forget the first `count` characters."""
        self.take(count)

    def __len__(self) -> int:
        return len(self.text)


def held_suffix(text: str, needles: Iterable[str]) -> int:
    """Length of the longest end of `text` that begins one of `needles` without completing it: what must be
    held back because the next characters may turn it into a needle."""
    best = 0
    for needle in needles:
        for length in range(min(len(text), len(needle) - 1), best, -1):
            if text.endswith(needle[:length]):
                best = length
                break
    return best
