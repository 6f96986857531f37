"""The widget of one message's Markdown: grows with the text and touches only what is still open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from slipstream.ui.theme import px
from slipstream.ui.transcript.code import CodeBlock
from slipstream.ui.transcript.pieces import Code, Para, Piece, Table
from slipstream.ui.transcript.prose import FlowText, Prose, TableView
from slipstream.ui.transcript.stream import MarkdownStream, pieces_of

_PROSE_CHARACTERS = 4000  # then a new text widget begins: the cost of a line added stays bounded


@dataclass
class _Group:
    """One widget and the pieces it shows, from piece `first` of the message on."""

    widget: Prose | TableView | CodeBlock
    first: int
    count: int


class MarkdownView(QWidget):
    """Shows Markdown. `append` while it streams, `finish` at the end, `set_source` for a stored message."""

    linkAsked = Signal(str)

    def __init__(self, parent: QWidget | None = None, role: str = "transcript", tone: str = "text.1") -> None:
        super().__init__(parent)
        self._role, self._tone = role, tone
        self._bits: list[str] = []
        self._stream = MarkdownStream()
        self._groups: list[_Group] = []
        self._closed = 0
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(px(10))

    @property
    def source(self) -> str:
        """The Markdown as it came."""
        if len(self._bits) > 1:
            self._bits = ["".join(self._bits)]
        return self._bits[0] if self._bits else ""

    def append(self, text: str) -> None:
        if not text:
            return
        self._bits.append(text)
        update = self._stream.feed(text)
        self._show(update.closed, update.open)

    def finish(self) -> None:
        """No more text comes (`append` may still follow, as when a reply is continued)."""
        rebuild = self._stream.has_references
        update = self._stream.finish()
        if rebuild or self._stream.has_references:
            self._rebuild()
        else:
            self._show(update.closed, ())

    def reopen(self) -> None:
        """More text will follow a finished message: its last block may go on, so it is read anew."""
        source = self.source
        self._stream = MarkdownStream()
        update = self._stream.feed(source)
        self._closed = 0
        self._show(update.closed, update.open)

    def set_source(self, source: str) -> None:
        self._bits = [source]
        self._rebuild()

    def restyle(self) -> None:
        for group in self._groups:
            group.widget.restyle()

    def groups(self) -> Sequence[QWidget]:
        """The widgets shown, top to bottom."""
        return [group.widget for group in self._groups]

    def _rebuild(self) -> None:
        self._stream = MarkdownStream()
        self._closed = 0
        self._show(pieces_of(self.source), ())

    def _show(self, closed: Sequence[Piece], open_: Sequence[Piece]) -> None:
        """Have exactly the pieces closed before, then `closed`, then `open_`."""
        first = self._closed
        pieces = [*closed, *open_]
        at = next((i for i, g in enumerate(self._groups) if g.first + g.count > first), len(self._groups))
        if at == len(self._groups) and at and pieces and self._takes_more(self._groups[-1], pieces[0]):
            at -= 1
        final = first + len(closed)
        index = first
        while index - first < len(pieces):
            at, index = self._place(at, index, pieces, first, final)
        for group in self._groups[at:]:
            self._drop(group)
        del self._groups[at:]
        self._closed = final

    def _place(self, at: int, index: int, pieces: Sequence[Piece], first: int, final: int) -> tuple[int, int]:
        """Show what belongs into group `at`, from piece `index` on; the next group and piece."""
        piece = pieces[index - first]
        if isinstance(piece, Para):
            group = self._group(at, Prose, index)
            prose = group.widget
            assert isinstance(prose, Prose)
            paras: list[Para] = []
            length = sum(len(p.text) for p in prose.paras[: index - group.first])
            for item in pieces[index - first :]:
                if not isinstance(item, Para) or (paras and length > _PROSE_CHARACTERS):
                    break
                paras.append(item)
                length += len(item.text)
            prose.put(index - group.first, paras)
            group.count = index - group.first + len(paras)
            return at + 1, index + len(paras)
        group = self._group(at, TableView if isinstance(piece, Table) else CodeBlock, index)
        group.count = 1
        if isinstance(piece, Code) and isinstance(group.widget, CodeBlock):
            group.widget.put(piece.language, piece.text, index < final, piece.depth)
        elif isinstance(piece, Table) and isinstance(group.widget, TableView):
            group.widget.put(piece)
        return at + 1, index + 1

    def _takes_more(self, group: _Group, piece: Piece) -> bool:
        return isinstance(piece, Para) and isinstance(group.widget, Prose) and group.widget.length <= _PROSE_CHARACTERS

    def _group(self, at: int, kind: type[Prose] | type[TableView] | type[CodeBlock], index: int) -> _Group:
        """Group `at`, made new where there is none of this kind. A widget in use is kept: text selected in it too."""
        if at < len(self._groups):
            group = self._groups[at]
            if type(group.widget) is kind and (kind is Prose or group.first == index):
                if group.first > index:
                    group.first = index
                return group
            self._drop(group)
            del self._groups[at]
        widget = Prose(role=self._role, tone=self._tone) if kind is Prose else kind()
        if isinstance(widget, FlowText):
            widget.linkAsked.connect(self.linkAsked)
        made = _Group(widget, index, 0)
        self._groups.insert(at, made)
        self._column.insertWidget(at, widget)
        widget.show()
        return made

    def _drop(self, group: _Group) -> None:
        self._column.removeWidget(group.widget)
        group.widget.hide()
        group.widget.deleteLater()
