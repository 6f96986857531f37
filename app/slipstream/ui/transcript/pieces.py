"""Markdown as flat pieces: what a message is drawn from. No Qt here.

markdown-it-py does the parsing; this module turns its tokens into paragraphs, tables and code blocks, each of
which knows how far it is indented. Raw HTML stays text and an image becomes a link: nothing is ever fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token


@dataclass(frozen=True)
class Run:
    """Text of one look. `href` is the target of a link, "" for none."""

    text: str
    bold: bool = False
    italic: bool = False
    strike: bool = False
    code: bool = False
    href: str = ""


@dataclass(frozen=True)
class Para:
    """One paragraph. `style`: "p", "h1".."h6", "hr". `depth`: lists around it; `quote`: block quotes around it.
    `marker`: "" for none, "*" for a bullet, otherwise the item's number. `tight`: an item of a dense list."""

    style: str
    runs: tuple[Run, ...]
    depth: int = 0
    quote: int = 0
    marker: str = ""
    tight: bool = False

    @property
    def text(self) -> str:
        return "".join(run.text for run in self.runs)


@dataclass(frozen=True)
class Table:
    """A table: the first row is the header, unless `head` is false because it goes on from the table before it.
    `aligns` holds "left", "center" or "right" for each column."""

    rows: tuple[tuple[tuple[Run, ...], ...], ...]
    aligns: tuple[str, ...]
    depth: int = 0
    head: bool = True


@dataclass(frozen=True)
class Code:
    """A code block. `text` is the source, byte for byte, without the last line end."""

    language: str
    text: str
    depth: int = 0


Piece = Para | Table | Code


def make_parser() -> MarkdownIt:
    """CommonMark with tables and strikethrough; a line end shows as one, as models mean it."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.inline.ruler.before("escape", "formula", _formula)
    return parser


def _formula(state: StateInline, silent: bool) -> bool:
    r"""Keep TeX as written: `\(…\)`, `\[…\]`, `$$…$$`, and a lone `\(` or `\[` with its backslash."""
    pair = state.src[state.pos : state.pos + 2]
    closer = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}.get(pair)
    if closer is None:
        if pair not in ("\\)", "\\]"):
            return False
        end = state.pos + 2
    else:
        found = state.src.find(closer, state.pos + 2, state.posMax)
        end = found + 2 if found >= 0 else state.pos + 2
    if not silent:
        state.pending += state.src[state.pos : end]
    state.pos = end
    return True


@dataclass
class _Walk:
    """Where the flattening stands: the lists and quotes around the present token."""

    lists: list[int | None]  # the number of the next item, None for bullets
    marker: str = ""
    quote: int = 0


def flatten(tokens: Sequence[Token], first_number: int | None = None) -> list[Piece]:
    """The pieces of a parsed document. `first_number` overrides the start of a numbered list that comes first."""
    pieces: list[Piece] = []
    walk = _Walk([])
    block = ""
    tight = False
    index = 0
    while index < len(tokens):
        token = tokens[index]
        kind = token.type
        depth = len(walk.lists)
        if kind in ("bullet_list_open", "ordered_list_open"):
            start: int | None = None
            if kind == "ordered_list_open":
                start = int(token.attrGet("start") or 1) if token.attrGet("start") != 0 else 0
                if first_number is not None and index == 0:
                    start = first_number
            walk.lists.append(start)
        elif kind in ("bullet_list_close", "ordered_list_close"):
            walk.lists.pop()
        elif kind == "list_item_open":
            walk.marker = _next_marker(walk)
        elif kind == "list_item_close":
            if walk.marker:  # an empty item
                pieces.append(Para("p", (), depth, walk.quote, _take(walk), True))
        elif kind == "blockquote_open":
            walk.quote += 1
        elif kind == "blockquote_close":
            walk.quote -= 1
        elif kind in ("paragraph_open", "heading_open"):
            block, tight = token.tag, token.hidden
        elif kind == "inline":
            pieces.append(Para(block or "p", runs(token), depth, walk.quote, _take(walk), tight))
        elif kind in ("fence", "code_block"):
            if walk.marker:
                pieces.append(Para("p", (), depth, walk.quote, _take(walk), True))
            words = token.info.split() if kind == "fence" else []
            pieces.append(Code(words[0] if words else "", token.content.removesuffix("\n"), depth))
        elif kind == "hr":
            pieces.append(Para("hr", (), depth, walk.quote))
        elif kind == "table_open":
            table, index = _table(tokens, index, depth)
            pieces.append(table)
        index += 1
    return pieces


def _next_marker(walk: _Walk) -> str:
    number = walk.lists[-1]
    if number is None:
        return "*"
    walk.lists[-1] = number + 1
    return str(number)


def _take(walk: _Walk) -> str:
    marker, walk.marker = walk.marker, ""
    return marker


def _table(tokens: Sequence[Token], index: int, depth: int) -> tuple[Table, int]:
    rows: list[tuple[tuple[Run, ...], ...]] = []
    cells: list[tuple[Run, ...]] = []
    aligns: list[str] = []
    while tokens[index].type != "table_close":
        token = tokens[index]
        if token.type == "tr_open":
            cells = []
        elif token.type == "tr_close":
            rows.append(tuple(cells))
        elif token.type in ("th_open", "td_open"):
            if token.type == "th_open":
                style = str(token.attrGet("style") or "")
                aligns.append(style.partition(":")[2] or "left")
        elif token.type == "inline":
            cells.append(runs(token))
        index += 1
    return Table(tuple(rows), tuple(aligns), depth), index


def runs(inline: Token) -> tuple[Run, ...]:
    """The runs of an inline token, neighbours of one look joined."""
    found: list[Run] = []
    look = Run("")
    hrefs: list[str] = []
    for token in inline.children or []:
        kind = token.type
        if kind == "text" or kind == "html_inline":
            _add(found, replace(look, text=token.content))
        elif kind == "code_inline":
            _add(found, replace(look, text=token.content, code=True))
        elif kind in ("softbreak", "hardbreak"):
            _add(found, replace(look, text="\n"))
        elif kind == "image":
            source = str(token.attrGet("src") or "")
            _add(found, replace(look, text=token.content or source, href=source))
        elif kind in ("strong_open", "strong_close"):
            look = replace(look, bold=kind.endswith("open"))
        elif kind in ("em_open", "em_close"):
            look = replace(look, italic=kind.endswith("open"))
        elif kind in ("s_open", "s_close"):
            look = replace(look, strike=kind.endswith("open"))
        elif kind == "link_open":
            hrefs.append(look.href)
            look = replace(look, href=str(token.attrGet("href") or ""))
        elif kind == "link_close":
            look = replace(look, href=hrefs.pop() if hrefs else "")
    return tuple(found)


def _add(found: list[Run], run: Run) -> None:
    if not run.text:
        return
    if found and replace(found[-1], text="") == replace(run, text=""):
        found[-1] = replace(run, text=found[-1].text + run.text)
    else:
        found.append(run)
