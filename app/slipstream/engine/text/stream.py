"""From a token's bytes to text that can be shown: UTF-8, stop strings, reasoning."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from dataclasses import replace

from slipstream.domain.protocol import Span
from slipstream.engine.text.reasoning import ReasoningSplitter
from slipstream.engine.text.spans import SpanBuffer, held_suffix


class Utf8Stream:
    """Bytes in, text out. A character split over tokens waits for its last byte; bytes that can't become a
    character turn into U+FFFD as soon as that is certain."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, data: bytes) -> str:
        return self._decoder.decode(data)

    def finish(self) -> str:
        """The stream ended. A character cut short is dropped: it is no error of the text's, the reply merely
        stopped inside it, and a U+FFFD would be read back by the model when the reply is carried on."""
        self._decoder.reset()
        return ""


class StopStrings:
    """Watches text for stop strings.

    The stop that is *complete* first wins (of several completed by the same character, the longest), which makes
    the result independent of how the text was cut into pieces. Only the longest end of the text that may still
    become a stop is held back. Empty stops are ignored.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(dict.fromkeys(stop for stop in stops if stop))
        self._held = ""
        self.stopped = False

    def feed(self, text: str) -> tuple[str, bool]:
        """(text that may be shown, whether a stop was met). After a stop nothing more comes out."""
        if self.stopped:
            return "", True
        text = self._held + text
        found = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)[1]], True
        keep = len(text) - held_suffix(text, self._stops)
        self._held = text[keep:]
        return text[:keep], False

    def flush(self) -> str:
        """The text ended without a stop: what was held back."""
        held, self._held = self._held, ""
        return held


class TextStream:
    """One reply's text, token by token: UTF-8, then stop strings, then the reasoning splitter.

    A token whose bytes end inside a character gives that character to the token that completes it. Stop
    strings see the raw text, tags included, so they stop reasoning and answer alike.
    """

    def __init__(self, stops: Iterable[str] = (), splitter: ReasoningSplitter | None = None) -> None:
        self._utf8 = Utf8Stream()
        self._stops = StopStrings(stops)
        self._splitter = splitter or ReasoningSplitter(None)
        self._pending = SpanBuffer()

    @property
    def stopped(self) -> bool:
        """A stop string was met; call `finish` for what the splitter still holds."""
        return self._stops.stopped

    def push(self, token_bytes: bytes, source: Span) -> list[tuple[str, Span]]:
        """(channel, span) pairs that are certain now. `source` says where the token is from; its text is ignored."""
        if self.stopped:
            return []
        text = self._utf8.feed(token_bytes)
        if not text:
            return []
        self._pending.append(replace(source, text=text))
        emit, _ = self._stops.feed(text)
        return self._split(len(emit))

    def finish(self) -> list[tuple[str, Span]]:
        """The reply ended, by a stop or otherwise: everything still held back."""
        out = self._split(len(self._stops.flush()))
        return out + self._splitter.finish()

    def _split(self, count: int) -> list[tuple[str, Span]]:
        out: list[tuple[str, Span]] = []
        for span in self._pending.take(count):
            out.extend(self._splitter.feed(span))
        return out
