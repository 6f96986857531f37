"""The transcript: messages in one column, following the text until the user scrolls away."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QPoint, Qt, QTimer, Signal, SignalInstance
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from slipstream.store.records import StoredMessage
from slipstream.ui.theme import icon, px
from slipstream.ui.transcript.message import AssistantMessage, Card, UserMessage, figures_of

_COLUMN, _LEAST = 672, 320
_BATCH = 30  # messages built at a time, newest first: a chat of 2,000 opens at once
_NEAR_PX = 48
_HOLD_MS = 150

Row = UserMessage | AssistantMessage | Card


class Transcript(QScrollArea):
    """Shows a chat. `show_chat` for a stored one; `add_user`, `add_reply` and what they return while it goes on."""

    linkAsked = Signal(str)
    againAsked = Signal(str)  # id of the reply
    continueAsked = Signal(str)
    recoverAsked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName(self.tr("Conversation"))
        self._body = QWidget()
        self._body.setProperty("surface", "canvas")
        self._column = QWidget()
        self._column.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        self._rows = QVBoxLayout(self._column)
        self._rows.setContentsMargins(0, px(20), 0, px(24))
        self._rows.setSpacing(px(20))
        outer = QVBoxLayout(self._body)
        outer.setContentsMargins(0, 0, 0, 0)
        line = QHBoxLayout()  # not an alignment: that would ignore how labels grow when they wrap
        line.setContentsMargins(0, 0, 0, 0)
        line.addStretch(1)
        line.addWidget(self._column)
        line.addStretch(1)
        outer.addLayout(line)
        outer.addStretch(1)
        self.setWidget(self._body)
        self._waiting: list[StoredMessage] = []  # older messages not built yet
        self._follow = True
        self._anchor: tuple[QWidget, int] | None = None  # a row and its distance from the top, while older ones come
        self._let_go = QTimer(self)
        self._let_go.setSingleShot(True)
        self._let_go.timeout.connect(self._release)
        bar = self.verticalScrollBar()
        bar.valueChanged.connect(self._scrolled)
        bar.rangeChanged.connect(self._grew)
        self._latest = QPushButton(self.tr("Latest"), self)
        self._latest.setProperty("kind", "latest")
        self._latest.setProperty("size", "small")
        self._latest.setToolTip(self.tr("Go to the end and follow the text"))
        self._latest.clicked.connect(self.follow)
        self._latest.hide()

    # ------------------------------------------------------------ content

    def rows(self) -> list[Row]:
        """The widgets shown, oldest first."""
        items = (self._rows.itemAt(i) for i in range(self._rows.count()))
        found = (item.widget() for item in items if item is not None)
        return [row for row in found if isinstance(row, UserMessage | AssistantMessage | Card)]

    def clear(self) -> None:
        for row in self.rows():
            self._remove(row)
        self._waiting = []
        self._anchor = None
        self._follow = True
        self._place_latest()

    def show_chat(self, messages: Sequence[StoredMessage]) -> None:
        """Show a stored chat at its end. Only the newest messages are built; older ones when scrolled to."""
        self.clear()
        self._waiting = list(messages)
        self._build_more()
        self.follow()

    def add_user(self, text: str) -> UserMessage:
        row = UserMessage(text)
        self._rows.addWidget(row)
        self.follow()
        return row

    def add_reply(self, message_id: str) -> AssistantMessage:
        row = self._wire(AssistantMessage(message_id))
        self._rows.addWidget(row)
        return row

    def add_card(self, card: Card) -> None:
        self._rows.addWidget(card)

    def reply(self, message_id: str) -> AssistantMessage | None:
        return next((r for r in self.rows() if isinstance(r, AssistantMessage) and r.message_id == message_id), None)

    def remove_cards(self) -> None:
        for row in self.rows():
            if isinstance(row, Card):
                self._remove(row)

    def remove_from(self, message_id: str) -> None:
        """Take a reply and all below it away."""
        found = False
        for row in self.rows():
            found = found or (isinstance(row, AssistantMessage) and row.message_id == message_id)
            if found:
                self._remove(row)

    def restyle(self) -> None:
        for row in self.rows():
            row.restyle()
        self._latest.setIcon(icon("arrow-down", "text.2", 16))

    # ------------------------------------------------------------ scrolling

    @property
    def following(self) -> bool:
        return self._follow

    def follow(self) -> None:
        """Go to the end and stay there as text comes."""
        self._follow = True
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())
        self._place_latest()

    def _scrolled(self, value: int) -> None:
        bar = self.verticalScrollBar()
        if self._anchor is None:
            self._follow = value >= bar.maximum() - px(_NEAR_PX)
            if value < px(400) and self._waiting and bar.maximum() > 0:
                first = self.rows()[0]
                self._anchor = (first, first.mapTo(self._body, QPoint()).y() - value)
                self._build_more()
                self._let_go.start(_HOLD_MS)
        self._place_latest()

    def _hold(self) -> None:
        """Keep what was looked at in its place while the rows above it find their heights."""
        if self._anchor is not None:
            row, offset = self._anchor
            self.verticalScrollBar().setValue(row.mapTo(self._body, QPoint()).y() - offset)

    def _release(self) -> None:
        self._hold()
        self._anchor = None

    def _grew(self, _least: int, most: int) -> None:
        if self._anchor is not None:
            QTimer.singleShot(0, self, self._hold)  # the rows have their places one turn later
        elif self._follow:
            self.verticalScrollBar().setValue(most)

    def _place_latest(self) -> None:
        self._latest.setVisible(not self._follow and self.verticalScrollBar().maximum() > 0)
        self._latest.adjustSize()
        where = self.viewport().geometry()
        self._latest.move(
            where.center().x() - self._latest.width() // 2, where.bottom() - self._latest.height() - px(8)
        )
        self._latest.raise_()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._column.setFixedWidth(max(px(_LEAST), min(px(_COLUMN), self.viewport().width() - px(64))))
        self._place_latest()
        if self._follow:
            self.follow()

    # ------------------------------------------------------------ building

    def _build_more(self) -> None:
        batch = self._waiting[-_BATCH:]
        del self._waiting[-_BATCH:]
        for message in reversed(batch):
            row = self._stored(message)
            if row is not None:
                self._rows.insertWidget(0, row)

    def _stored(self, message: StoredMessage) -> Row | None:
        if message.role == "user":
            return UserMessage(message.content)
        if message.role != "assistant":
            return None
        row = self._wire(AssistantMessage(message.id))
        row.set_stored(message.content, message.reasoning)
        row.end(figures_of(message.totals))
        if message.state in ("interrupted", "streaming"):
            row.show_stopped(self.tr("This reply was interrupted. All that had arrived is here."))
        elif message.state == "stopped":
            row.show_stopped(self.tr("You stopped this reply."))
        elif message.state == "failed":
            row.show_stopped(message.error or self.tr("This reply could not be finished."))
        return row

    def _wire(self, row: AssistantMessage) -> AssistantMessage:
        def pass_on(signal: SignalInstance) -> Callable[[], None]:
            return lambda: signal.emit(row.message_id)

        row.linkAsked.connect(self.linkAsked)
        row.againAsked.connect(pass_on(self.againAsked))
        row.continueAsked.connect(pass_on(self.continueAsked))
        row.recoverAsked.connect(pass_on(self.recoverAsked))
        return row

    def _remove(self, row: QWidget) -> None:
        self._rows.removeWidget(row)
        row.hide()
        row.deleteLater()
