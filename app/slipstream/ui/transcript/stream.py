"""Markdown that arrives in bits: closes what can no longer change, so that only the end is parsed again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from markdown_it.token import Token

from slipstream.ui.transcript.pieces import Code, Para, Piece, Run, Table, flatten, make_parser

_FENCE = re.compile(r"(`{3,}|~{3,})([^\n]*)\n")
_LONG = 1000  # characters of one list or paragraph after which its finished part is closed


@dataclass(frozen=True)
class Update:
    """`closed`: pieces that are final, to be shown once more; `open`: pieces that may still change."""

    closed: tuple[Piece, ...]
    open: tuple[Piece, ...]


@dataclass
class _Fence:
    """A fenced code block that is still open at the end of the text."""

    mark: str
    language: str
    body: str

    def ends(self, line: str) -> bool:
        bare = line.strip()
        indent = len(line) - len(line.lstrip(" "))
        return indent < 4 and len(bare) >= len(self.mark) and set(bare) == {self.mark[0]}

    def piece(self) -> Code:
        body = self.body
        last = body.rfind("\n") + 1
        if body[last:] and set(body[last:].strip()) == {self.mark[0]}:
            body = body[:last]  # most likely the closing fence, half arrived
        return Code(self.language, body.removesuffix("\n"))


@dataclass
class MarkdownStream:
    """Feed text, get pieces. All closed pieces and then the open ones are the whole message, at any time.

    A block is closed once another one has begun on a finished line. Long lists and paragraphs are closed in
    parts, so that the work per call stays bounded.
    """

    _tail: str = ""
    _held: str = ""  # a "\r" whose "\n" may follow
    _number: int | None = None  # the number a list goes on with where its first part is closed
    _headless: bool = False  # the tail opens with the repeated header of a table whose first rows are closed
    _fence: _Fence | None = None
    _references: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._parser = make_parser()

    @property
    def has_references(self) -> bool:
        """Whether links were defined apart from their use: earlier text may then read differently as a whole."""
        return bool(self._references)

    def feed(self, text: str) -> Update:
        """Take more text. Cost follows the length of the open block, not of the message."""
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        text = text[: len(text) - len(self._held)].replace("\r\n", "\n").replace("\r", "\n")
        if self._fence is not None:
            start = self._fence.body.rfind("\n") + 1
            lines = (self._fence.body[start:] + text).split("\n")
            if not any(self._fence.ends(line) for line in lines[:-1]):
                self._fence.body += text
                self._tail += text
                return Update((), (self._fence.piece(),))
            self._fence = None
        self._tail += text
        closed: list[Piece] = []
        while True:
            tokens, references = self._parse(self._tail)
            cut = self._cut(tokens)
            if cut <= 0:
                break
            closed += self._close(tokens, references, cut)
        self._open_fence(tokens)
        return Update(tuple(closed), tuple(self._pieces(tokens)) if not self._fence else (self._fence.piece(),))

    def finish(self) -> Update:
        """Close everything."""
        self._tail += self._held
        self._held = ""
        tokens, references = self._parse(self._tail)
        pieces = self._pieces(tokens)
        self._references.update(references)
        self._tail, self._fence, self._number, self._headless = "", None, None, False
        return Update(tuple(pieces), ())

    def _parse(self, text: str) -> tuple[list[Token], dict[str, Any]]:
        # A definition still arriving must not be remembered half: each parse starts from the closed ones.
        env: dict[str, Any] = {"references": dict(self._references)}
        tokens = self._parser.parse(text, env)
        fresh = {name: value for name, value in env["references"].items() if name not in self._references}
        return tokens, fresh

    def _pieces(self, tokens: Sequence[Token]) -> list[Piece]:
        pieces = flatten(tokens, self._number)
        if self._headless and pieces and isinstance(pieces[0], Table):
            table = pieces.pop(0)
            assert isinstance(table, Table)
            if len(table.rows) > 1:
                pieces.insert(0, replace(table, rows=table.rows[1:], head=False))
        return pieces

    def _cut(self, tokens: Sequence[Token]) -> int:
        """The line before which everything is final; 0 for none."""
        finished = self._tail.count("\n")
        starts = [t.map[0] for t in tokens if t.level == 0 and t.nesting >= 0 and t.map]
        cut = max((start for start in starts[1:] if start < finished), default=0)
        if cut or len(self._tail) < _LONG or not tokens:
            return cut
        if tokens[0].type in ("bullet_list_open", "ordered_list_open"):
            items = [t.map[0] for t in tokens if t.type == "list_item_open" and t.level == 1 and t.map]
            return max((start for start in items[1:] if start < finished), default=0)
        if tokens[0].type == "paragraph_open":
            return self._cut_paragraph(tokens)
        if tokens[0].type == "table_open" and (tokens[0].map or [0])[0] == 0:
            return finished if finished > 2 else 0
        return 0

    def _cut_paragraph(self, tokens: Sequence[Token]) -> int:
        """A line of a long paragraph at which it may be parted without changing how either half reads."""
        start = (tokens[0].map or [0, 0])[0]
        lines = self._tail.split("\n")
        cut = len(lines) - 1
        if cut <= start:
            return self._break_line()
        whole = flatten(tokens)
        first = flatten(self._parse("\n".join(lines[:cut]))[0])
        rest = flatten(self._parse("\n".join(lines[cut:]))[0]) if lines[cut].strip() else []
        if len(whole) == len(first) == 1 and len(rest) <= 1 and isinstance(first[0], Para):
            after = rest[0].text if rest and isinstance(rest[0], Para) else ""
            if isinstance(whole[0], Para) and whole[0].text == first[0].text + ("\n" + after if after else ""):
                return cut
        return 0

    def _break_line(self) -> int:
        """Part a paragraph that is one endless line after a sentence, where both halves read alike."""
        at = self._tail.rstrip().rfind(". ")
        if at < _LONG // 2:
            return 0
        first, rest = self._tail[: at + 1], self._tail[at + 2 :]
        whole = flatten(self._parse(self._tail)[0])
        parts = [flatten(self._parse(half)[0]) for half in (first, rest)]
        if all(len(part) == 1 and isinstance(part[0], Para) for part in (whole, *parts)):
            one, two, both = ("".join(r.text for r in _runs(p[0])) for p in (*parts, whole))
            if both == f"{one} {two}" and len(_runs(whole[0])) == 1:
                self._tail = f"{first}\n{rest}"
                return 1
        return 0

    def _close(self, tokens: Sequence[Token], references: dict[str, Any], cut: int) -> list[Piece]:
        lines = self._tail.split("\n")
        head, self._tail = "\n".join(lines[:cut]), "\n".join(lines[cut:])
        for name, value in references.items():
            if value.get("map", [0, 0])[1] <= cut:
                self._references[name] = value
        closed_tokens, _ = self._parse(head)
        pieces = self._pieces(closed_tokens)
        self._headless = tokens[0].type == "table_open" and (tokens[0].map or [0, 0])[1] >= cut
        if self._headless:
            self._tail = "\n".join((*lines[:2], self._tail))
        whole_list = tokens[0].type == "ordered_list_open" and (tokens[0].map or [0, 0])[1] > cut
        if whole_list:
            numbers = [p.marker for p in pieces if isinstance(p, Para) and p.depth == 1 and p.marker.isdigit()]
            self._number = int(numbers[-1]) + 1 if numbers else None
        else:
            self._number = None
        return pieces

    def _open_fence(self, tokens: Sequence[Token]) -> None:
        """From here on text only lengthens the code, unless a closing fence comes."""
        found = _FENCE.match(self._tail)
        if found is None or len(tokens) != 1 or tokens[0].type != "fence":
            return
        words = tokens[0].info.split()
        fence = _Fence(found[1], words[0] if words else "", self._tail[found.end() :])
        lines = fence.body.split("\n")
        if not any(fence.ends(line) for line in lines):
            self._fence = fence


def _runs(piece: Piece) -> tuple[Run, ...]:
    return piece.runs if isinstance(piece, Para) else ()


def pieces_of(source: str) -> tuple[Piece, ...]:
    """The pieces of a whole message."""
    return tuple(flatten(make_parser().parse(source)))
