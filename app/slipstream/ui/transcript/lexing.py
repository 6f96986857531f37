"""Code to coloured spans, with Pygments. No Qt here."""

from __future__ import annotations

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType, is_token_subtype
from pygments.util import ClassNotFound

LineSpans = tuple[tuple[int, int, str], ...]  # start and length in UTF-16 units, as Qt counts, and the kind

_KINDS: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "comment"),
    (Keyword, "keyword"),
    (Operator.Word, "keyword"),
    (String, "string"),
    (Number, "number"),
    (Name.Function, "name"),
    (Name.Class, "name"),
    (Name.Tag, "keyword"),
)


def lex(language: str, source: str) -> list[LineSpans]:
    """The coloured spans of each line; nothing is coloured for a language Pygments does not know."""
    lexer = _lexer(language)
    lines: list[list[tuple[int, int, str]]] = [[]]
    if lexer is None:
        return [() for _ in range(source.count("\n") + 1)]
    column = 0
    for _, token, text in lexer.get_tokens_unprocessed(source):
        kind = next((name for parent, name in _KINDS if is_token_subtype(token, parent)), "")
        for index, part in enumerate(text.split("\n")):
            if index:
                lines.append([])
                column = 0
            length = len(part) if part.isascii() else len(part.encode("utf-16-le", "surrogatepass")) // 2
            if kind and length:
                lines[-1].append((column, length, kind))
            column += length
    return [tuple(line) for line in lines]


def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language)
    except (ClassNotFound, ValueError):
        return None
