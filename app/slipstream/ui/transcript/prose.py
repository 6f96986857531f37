"""Text as a browser widget: paragraphs, lists, quotes and tables, as tall as they are and never scrolling alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt, QUrl, Signal
from PySide6.QtGui import (
    QBrush,
    QFont,
    QFontMetricsF,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextFormat,
    QTextFrameFormat,
    QTextLength,
    QTextListFormat,
    QTextOption,
    QTextTableCellFormat,
    QTextTableFormat,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextBrowser, QToolTip, QWidget

from slipstream.ui.theme import current, font, px
from slipstream.ui.transcript.pieces import Para, Run, Table

_QUOTE = QTextFormat.Property.UserProperty + 1
_INDENT = 24
_LINE = 128.0  # per cent of the font's own line: 22 px for 14 px Inter
_ALIGN = {
    "left": Qt.AlignmentFlag.AlignLeft,
    "center": Qt.AlignmentFlag.AlignHCenter,
    "right": Qt.AlignmentFlag.AlignRight,
}


class FlowText(QTextBrowser):
    """A read-only text that is as tall as its content. Links only report that they were asked for, and no
    resource is ever loaded."""

    linkAsked = Signal(str)

    def __init__(self, parent: QWidget | None = None, role: str = "transcript") -> None:
        super().__init__(parent)
        self.setOpenLinks(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setUndoRedoEnabled(False)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextBrowserInteraction | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(0)
        self.document().setDefaultFont(font(role))
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.document().setDefaultTextOption(option)
        self.document().documentLayout().documentSizeChanged.connect(self.fit)
        self.anchorClicked.connect(lambda url: self.linkAsked.emit(url.toString()))

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        return None

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # the transcript scrolls, not this

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip:
            href = self.anchorAt(self.viewport().mapFromGlobal(event.globalPos()))  # type: ignore[attr-defined]
            QToolTip.showText(event.globalPos() if href else QPoint(), href, self)  # type: ignore[attr-defined]
            return True
        return bool(super().event(event))

    def sizeHint(self) -> QSize:
        return QSize(0, self._wanted())

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self._wanted())

    def _wanted(self) -> int:
        return max(1, int(self.document().size().height() + 0.999))

    def fit(self, *_: object) -> None:
        """Be as tall as the text at this width."""
        wanted = self._wanted()
        if self.height() != wanted or self.minimumHeight() != wanted:
            self.setFixedHeight(wanted)


class Prose(FlowText):
    """A run of paragraphs. The last ones can be taken back and written anew, as the text grows."""

    def __init__(self, parent: QWidget | None = None, role: str = "transcript", tone: str = "text.1") -> None:
        super().__init__(parent, role)
        self._role, self._tone = role, tone
        self._paras: list[Para] = []
        self._starts: list[int] = []

    @property
    def paras(self) -> Sequence[Para]:
        return self._paras

    @property
    def length(self) -> int:
        """Characters shown."""
        return self.document().characterCount() - 1

    def put(self, index: int, paras: Sequence[Para]) -> None:
        """Have `paras` from paragraph `index` on; what stays the same is not touched."""
        same = 0
        while same < len(paras) and index + same < len(self._paras) and self._paras[index + same] == paras[same]:
            same += 1
        index += same
        paras = paras[same:]
        if index == len(self._paras) and not paras:
            return
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        if index < len(self._paras):
            cursor.setPosition(self._starts[index])
            cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
            cursor.removeSelectedText()
            del self._paras[index:], self._starts[index:]
        cursor.movePosition(QTextCursor.MoveOperation.End)
        for para in paras:
            self._starts.append(cursor.position())
            self._write(cursor, para)
            self._paras.append(para)
        cursor.endEditBlock()

    def restyle(self) -> None:
        """Write everything anew in the present theme and text size."""
        paras = list(self._paras)
        self.document().setDefaultFont(font(self._role))
        self._paras, self._starts = [], []
        self.document().clear()
        self.put(0, paras)

    def _write(self, cursor: QTextCursor, para: Para) -> None:
        # The document always holds one block; each paragraph after the first brings its own.
        made = self._block_format(para, first=not self._paras)
        base = self._char_format(para)
        if self._paras:
            cursor.insertBlock(made, base)
        else:
            cursor.setBlockFormat(made)
            cursor.setBlockCharFormat(base)
        listed = cursor.currentList()
        if listed is not None and not para.marker:
            listed.remove(cursor.block())
            cursor.setBlockFormat(made)
        if para.marker:
            _put_marker(cursor, para)
        write_runs(cursor, para.runs, base)

    def _block_format(self, para: Para, first: bool) -> QTextBlockFormat:
        made = QTextBlockFormat()
        made.setLineHeight(_LINE, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        made.setBottomMargin(px(4 if para.tight else 10))
        if self._paras and self._paras[-1].tight and not para.depth:
            made.setTopMargin(px(6))  # a dense list ends here
        if para.style.startswith("h") and para.style != "hr":
            made.setTopMargin(0 if first else px(10))
            made.setBottomMargin(px(8))
            made.setHeadingLevel(int(para.style[1]))
        if para.style == "hr":
            made.setProperty(
                QTextFormat.Property.BlockTrailingHorizontalRulerWidth,
                QTextLength(QTextLength.Type.PercentageLength, 100),
            )
            made.setLineHeight(px(8), QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        # A marked paragraph is indented by its list.
        made.setLeftMargin(px(_INDENT) * (0 if para.marker else para.depth) + px(16) * para.quote)
        if para.quote:
            made.setProperty(_QUOTE, para.quote)
        return made

    def _char_format(self, para: Para) -> QTextCharFormat:
        made = QTextCharFormat()
        level = para.style[1:] if para.style.startswith("h") else ""
        role = {"1": "page", "2": "verdict", "3": "section"}.get(level, "section" if level.isdigit() else self._role)
        made.setFont(font(role))
        made.setForeground(QBrush(current().color("text.2" if para.quote else self._tone)))
        return made

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        block = self.document().begin()
        while block.isValid():
            depth = block.blockFormat().property(_QUOTE)
            if depth:
                box = self.document().documentLayout().blockBoundingRect(block)
                for level in range(int(depth)):
                    painter.fillRect(QRectF(px(16) * level, box.top(), 3, box.height()), current().color("track"))
            block = block.next()
        painter.end()
        super().paintEvent(event)


def _put_marker(cursor: QTextCursor, para: Para) -> None:
    made = QTextListFormat()
    made.setIndent(max(1, para.depth))
    if para.marker == "*":
        styles = (QTextListFormat.Style.ListDisc, QTextListFormat.Style.ListCircle, QTextListFormat.Style.ListSquare)
        made.setStyle(styles[(para.depth - 1) % 3])
    else:
        made.setStyle(QTextListFormat.Style.ListDecimal)
        made.setStart(int(para.marker))
    cursor.document().setIndentWidth(px(_INDENT))
    cursor.createList(made)


def write_runs(cursor: QTextCursor, runs: Iterable[Run], base: QTextCharFormat) -> None:
    """Insert `runs` at the cursor. A line end inside a run stays within the paragraph."""
    theme = current()
    for run in runs:
        made = QTextCharFormat(base)
        if run.code:
            mono = font("code")
            mono.setPixelSize(max(1, round(QFontMetricsF(base.font()).height() * 0.74)))
            made.setFont(mono)
            made.setBackground(QBrush(theme.color("bg.sunken")))
        if run.bold:
            made.setFontWeight(QFont.Weight.DemiBold if not run.code else QFont.Weight.Bold)
        if run.italic:
            made.setFontItalic(True)
        if run.strike:
            made.setFontStrikeOut(True)
        if run.href:
            made.setAnchor(True)
            made.setAnchorHref(run.href)
            made.setFontUnderline(True)
            made.setForeground(QBrush(theme.color("accent.text")))
        cursor.insertText(run.text.replace("\n", "\u2028"), made)


class TableView(FlowText):
    """One table. Rows already shown are kept while it grows."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, "body")
        self._table: Table | None = None

    @property
    def table(self) -> Table | None:
        return self._table

    def put(self, table: Table) -> None:
        if table == self._table:
            return
        self._table = table
        self.restyle()

    def restyle(self) -> None:
        table = self._table
        if table is None or not table.rows:
            return
        document = self.document()
        document.clear()
        document.setDefaultFont(font("body"))
        columns = max(len(row) for row in table.rows)
        cursor = QTextCursor(document)
        cursor.beginEditBlock()
        made = cursor.insertTable(len(table.rows), max(1, columns), _table_format())
        for y, row in enumerate(table.rows):
            head = table.head and y == 0
            for x, cell in enumerate(row):
                self._cell(made.cellAt(y, x), cell, head, table.aligns[x] if x < len(table.aligns) else "left")
        after = QTextBlockFormat()  # Qt wants a paragraph behind a table
        after.setLineHeight(1, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.setBlockFormat(after)
        small = QTextCharFormat()
        small.setFontPointSize(1)
        cursor.setBlockCharFormat(small)
        cursor.endEditBlock()

    def _cell(self, cell: Any, runs: Sequence[Run], head: bool, align: str) -> None:
        theme = current()
        look = QTextTableCellFormat()
        look.setPadding(px(6))
        look.setLeftPadding(0)
        look.setRightPadding(px(16))
        look.setBottomBorder(1)
        look.setBottomBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
        look.setBottomBorderBrush(QBrush(theme.color("line.control" if head else "line.subtle")))
        cell.setFormat(look)
        base = QTextCharFormat()
        base.setFont(font("strong" if head else "body"))
        base.setForeground(QBrush(theme.color("text.2" if head else "text.1")))
        at = cell.firstCursorPosition()
        block = QTextBlockFormat()
        block.setAlignment(_ALIGN.get(align, Qt.AlignmentFlag.AlignLeft))
        at.setBlockFormat(block)
        write_runs(at, runs, base)


def _table_format() -> QTextTableFormat:
    made = QTextTableFormat()
    made.setBorder(0)
    made.setCellSpacing(0)
    made.setCellPadding(0)
    made.setBorderCollapse(True)
    made.setWidth(QTextLength(QTextLength.Type.PercentageLength, 100))
    made.setBottomMargin(px(6))
    return made
