"""A code block: header with language and copy button, highlighted text that can be selected."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, QRunnable, Qt, QThreadPool, QTimer, Signal
from PySide6.QtGui import QFont, QFontMetricsF, QSyntaxHighlighter, QTextCharFormat, QTextCursor, QTextDocument
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from slipstream.ui.theme import current, font, icon, px
from slipstream.ui.transcript.lexing import LineSpans, lex

_WINDOW = 6000  # characters coloured while code still arrives; longer code is coloured whole when it ends
_LEX_EVERY_MS = 200


class CodeBlock(QFrame):
    """Shows `text` and copies exactly that."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "code")
        self.setObjectName("codeBlock")
        self._text, self._language = "", ""
        self._label = QLabel()
        self._label.setProperty("role", "caption")
        self._copy = QPushButton(" " + self.tr("Copy"))
        self._copy.setProperty("kind", "ghost")
        self._copy.setProperty("size", "small")
        self._copy.setAccessibleName(self.tr("Copy this code"))
        self._copy.setCursor(Qt.CursorShape.PointingHandCursor)
        self._copy.clicked.connect(self.copy)
        head = QHBoxLayout()
        head.setContentsMargins(px(12), px(1), px(4), px(1))
        head.addWidget(self._label, 1)
        head.addWidget(self._copy)
        self._rule = QFrame()
        self._rule.setProperty("line", "h")
        self._edit = _CodeText()
        self._paint = _Highlighter(self._edit.document())
        column = QVBoxLayout(self)
        column.setContentsMargins(1, 1, 1, 1)
        column.setSpacing(0)
        column.addLayout(head)
        column.addWidget(self._rule)
        column.addWidget(self._edit)
        self._due = QTimer(self)
        self._due.setSingleShot(True)
        self._due.timeout.connect(self._lex_now)
        self._final = False
        self._round = 0
        self._depth = 0
        self.restyle()

    @property
    def text(self) -> str:
        return self._text

    @property
    def language(self) -> str:
        return self._language

    def put(self, language: str, text: str, final: bool, depth: int = 0) -> None:
        """Show `text`; cheap where it only grew. `final`: it will not change any more. `depth`: lists around it."""
        if depth != self._depth:
            self._depth = depth
            self.restyle()
        if (language, text, final) == (self._language, self._text, self._final):
            return
        if language != self._language or not self._label.text():
            self._language = language
            self._label.setText(language or self.tr("text"))
        if text != self._text:
            cursor = QTextCursor(self._edit.document())
            cursor.movePosition(QTextCursor.MoveOperation.End)
            if text.startswith(self._text):
                cursor.insertText(text[len(self._text) :])
            else:
                cursor.select(QTextCursor.SelectionType.Document)
                cursor.insertText(text)
            self._text = text
            self._edit.fit()
        self._final = final
        if final:
            self._due.stop()
            self._lex_now()
        elif not self._due.isActive():
            self._due.start(_LEX_EVERY_MS)

    def copy(self) -> None:
        QApplication.clipboard().setText(self._text)
        self._copy.setText(" " + self.tr("Copied"))
        QTimer.singleShot(1500, self._copy, lambda: self._copy.setText(" " + self.tr("Copy")))

    def restyle(self) -> None:
        """Take up the present theme and text size."""
        theme = current()
        self.setStyleSheet(
            f"#codeBlock {{ background: {theme.css('bg.sunken')}; border: 1px solid {theme.css('line.subtle')};"
            f" border-radius: 8px; margin-left: {px(24) * self._depth}px; }}"
        )
        self._copy.setIcon(icon("copy", "text.2", 14))
        self._edit.restyle()
        self._paint.restyle()

    def _lex_now(self) -> None:
        """Colour the text: short code at once, the end of longer code while it grows, all of it on another thread."""
        if not self._language:
            return
        first_line = 0
        source = self._text
        if len(source) > _WINDOW:
            if self._final:
                self._round += 1
                job = _LexJob(self._language, source, self._round)
                job.done.connect(self._lexed)
                QThreadPool.globalInstance().start(job.run_in_pool())
                return
            at = source.rfind("\n\n", 0, len(source) - _WINDOW // 2)
            at = at + 1 if at > len(source) - 2 * _WINDOW else source.rfind("\n", 0, len(source) - _WINDOW // 2) + 1
            first_line = source.count("\n", 0, at)
            source = source[at:]
        self._paint.show(first_line, lex(self._language, source))

    def _lexed(self, number: int, spans: object) -> None:
        if number == self._round and isinstance(spans, list):
            self._paint.show_slowly(spans)


class _LexJob(QObject):
    """Lexes on a thread of the pool and reports back by a queued signal."""

    done = Signal(int, object)

    def __init__(self, language: str, source: str, number: int) -> None:
        super().__init__()
        self._args = (language, source, number)

    def run_in_pool(self) -> QRunnable:
        keep = self  # the runnable owns the job, so that it lives until its signal was sent

        class Run(QRunnable):
            def run(self) -> None:
                language, source, number = keep._args
                keep.done.emit(number, lex(language, source))

        return Run()


class _CodeText(QPlainTextEdit):
    """Read-only, as tall as its lines; scrolls sideways only."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("bare", True)
        self.setReadOnly(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setUndoRedoEnabled(False)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(px(12))
        self.horizontalScrollBar().rangeChanged.connect(lambda *_: self.fit())

    def fit(self) -> None:
        lines = self.blockCount()
        bar = self.horizontalScrollBar()
        extra = bar.sizeHint().height() if bar.maximum() > 0 else 0
        wanted = int(
            QFontMetricsF(self.font()).lineSpacing() * lines + 2 * self.document().documentMargin() + extra + 1
        )
        if self.height() != wanted or self.minimumHeight() != wanted:
            self.setFixedHeight(wanted)

    def restyle(self) -> None:
        self.setFont(font("code"))
        self.document().setDefaultFont(font("code"))
        self.setTabStopDistance(4 * QFontMetricsF(font("code")).horizontalAdvance(" "))
        self.fit()


class _Highlighter(QSyntaxHighlighter):
    """Paints spans that were found elsewhere; touches only lines whose spans changed."""

    _LINES_PER_TURN = 250

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        self._lines: list[LineSpans] = []
        self._formats: dict[str, QTextCharFormat] = {}
        self._waiting: list[LineSpans] = []
        self._turn = QTimer(self)
        self._turn.setSingleShot(True)
        self._turn.timeout.connect(self._next)
        self._at = 0

    def restyle(self) -> None:
        self._formats.clear()
        for kind in ("keyword", "string", "number", "comment"):
            made = QTextCharFormat()
            made.setForeground(current().color(f"code.{kind}"))
            if kind == "keyword":
                made.setFontWeight(QFont.Weight.Bold)
            self._formats[kind] = made
        name = QTextCharFormat()
        name.setFontWeight(QFont.Weight.Bold)
        self._formats["name"] = name
        self.rehighlight()

    def show(self, first_line: int, lines: Sequence[LineSpans]) -> None:
        while len(self._lines) < first_line + len(lines):
            self._lines.append(())
        for offset, spans in enumerate(lines):
            if self._lines[first_line + offset] != spans:
                self._lines[first_line + offset] = spans
                block = self.document().findBlockByNumber(first_line + offset)
                if block.isValid():
                    self.rehighlightBlock(block)

    def show_slowly(self, lines: list[LineSpans]) -> None:
        """A long block takes several turns of the event loop."""
        self._waiting, self._at = lines, 0
        self._turn.start(0)

    def _next(self) -> None:
        part = self._waiting[self._at : self._at + self._LINES_PER_TURN]
        self.show(self._at, part)
        self._at += len(part)
        if self._at < len(self._waiting):
            self._turn.start(0)
        else:
            self._waiting = []

    def highlightBlock(self, text: str) -> None:
        number = self.currentBlock().blockNumber()
        if number < len(self._lines):
            for start, length, kind in self._lines[number]:
                self.setFormat(start, length, self._formats[kind])
