"""The page shown while nothing was said: picks a model, then invites to write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from slipstream.domain.errors import ErrorInfo
from slipstream.store.library import LocalModel
from slipstream.ui.theme import logo_pixmap, pixmap, px
from slipstream.ui.transcript import Card

_WIDTH = 640
_LISTED = 6


class Welcome(QScrollArea):
    """Signals: `loadAsked(path)`, `openAsked()` for the file dialog, `cancelAsked()`, `retryAsked()`."""

    loadAsked = Signal(str)
    openAsked = Signal()
    cancelAsked = Signal()
    retryAsked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        body = QWidget()
        body.setProperty("surface", "canvas")
        self._logo = QLabel()
        self._logo.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._title = _centred("welcome")
        self._line = _centred("transcript")
        self._line.setProperty("tone", "2")
        self._cards = QWidget()
        self._list = QVBoxLayout(self._cards)
        self._list.setContentsMargins(0, px(16), 0, 0)
        self._list.setSpacing(px(12))
        column = QVBoxLayout(body)
        column.setContentsMargins(px(16), px(24), px(16), px(24))
        column.setSpacing(px(8))
        column.addStretch(1)
        column.addWidget(self._logo)
        column.addSpacing(px(8))
        column.addWidget(self._title)
        column.addWidget(self._line)
        line = QHBoxLayout()  # not an alignment: that would ignore how labels grow when they wrap
        line.addStretch(1)
        line.addWidget(self._cards)
        line.addStretch(1)
        column.addLayout(line)
        column.addStretch(2)
        self.setWidget(body)
        self._bar: QProgressBar | None = None
        self.restyle()

    def show_choice(self, starter: LocalModel | None, models: Sequence[LocalModel], error: ErrorInfo | None) -> None:
        """Nothing is loaded: offer the starter first, then models found here, then a file of one's own."""
        self._head(self.tr("Pick a model to start"), self.tr("Everything runs on this computer. No account, no cloud."))
        if error is not None:
            again = _button(self.tr("Try again"), "secondary")
            again.clicked.connect(self.retryAsked)
            self._list.addWidget(Card("bad", "circle-alert", error.message, error.hint, (again,)))
        if starter is not None:
            go = _button(self.tr("Start with SmolLM2"), "primary", "large")
            path = str(starter.path)
            go.clicked.connect(lambda: self.loadAsked.emit(path))
            text = self.tr(
                "SmolLM2 135M is here already and works offline. Good for a first try, not for hard questions."
            )
            self._list.addWidget(_Offer("circle-play", self.tr("Starter model"), text, go, chosen=True))
        others = [m for m in models if starter is None or m.path != starter.path]
        if others:
            self._list.addWidget(self._found(others))
        pick = _button(self.tr("Open a model file…"), "secondary" if starter or others else "primary", "large")
        pick.clicked.connect(self.openAsked)
        text = self.tr("Any GGUF file on this computer. It is used where it lies; nothing is copied.")
        self._list.addWidget(_Offer("folder-open", self.tr("Use a model of yours"), text, pick))

    def show_loading(self, name: str) -> None:
        self._head(self.tr("Loading {0}").format(name), self.tr("You can write your first message meanwhile."))
        self._bar = QProgressBar()
        self._bar.setRange(0, 1000)
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(self.tr("Loading"))
        self._list.addWidget(self._bar)
        stop = _button(self.tr("Cancel"), "secondary")
        stop.clicked.connect(self.cancelAsked)
        self._list.addWidget(stop, 0, Qt.AlignmentFlag.AlignHCenter)

    def set_progress(self, fraction: float) -> None:
        if self._bar is not None:
            self._bar.setValue(int(1000 * fraction))

    def show_ready(self, name: str) -> None:
        self._head(self.tr("What would you like to know?"), self.tr("{0} is loaded. Write below.").format(name))

    def restyle(self) -> None:
        self._logo.setPixmap(logo_pixmap(px(44)))
        for card in self._cards.findChildren(Card):
            card.restyle()
        for offer in self._cards.findChildren(_Offer):
            offer.restyle()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._cards.setFixedWidth(min(px(_WIDTH), self.viewport().width() - px(32)))

    def _head(self, title: str, line: str) -> None:
        self._title.setText(title)
        self._line.setText(line)
        self._bar = None
        while (item := self._list.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()

    def _found(self, models: Sequence[LocalModel]) -> QWidget:
        card = QFrame()
        card.setProperty("surface", "card")
        column = QVBoxLayout(card)
        column.setContentsMargins(px(16), px(12), px(16), px(12))
        column.setSpacing(px(4))
        head = QLabel(self.tr("Models found here"))
        head.setProperty("role", "section")
        column.addWidget(head)
        for model in models[:_LISTED]:
            line = QHBoxLayout()
            name = QLabel(model.name)
            name.setToolTip(str(model.path))
            name.setMinimumWidth(px(40))
            size = QLabel(f"{model.size_bytes / 1e9:.2f} GB")
            size.setProperty("role", "secondary")
            load = _button(self.tr("Load"), "secondary", "small")
            load.setAccessibleName(self.tr("Load {0}").format(model.name))
            if model.missing_parts:
                load.setEnabled(False)
                load.setToolTip(self.tr("Parts of this model are missing."))
            path = str(model.path)
            load.clicked.connect(lambda _=False, path=path: self.loadAsked.emit(path))
            line.addWidget(name, 1)
            line.addWidget(size)
            line.addWidget(load)
            column.addLayout(line)
        if len(models) > _LISTED:
            more = QLabel(self.tr("and {0} more, in the panel").format(len(models) - _LISTED))
            more.setProperty("role", "secondary")
            column.addWidget(more)
        return card


class _Offer(QFrame):
    """A card with a symbol, a title, a sentence and one button."""

    def __init__(self, icon_name: str, title: str, text: str, act: QPushButton, chosen: bool = False) -> None:
        super().__init__()
        self.setProperty("surface", "card")
        self._icon_name, self._chosen = icon_name, chosen
        self._icon = QLabel()
        head = QLabel(title)
        head.setProperty("role", "section")
        body = QLabel(text)
        body.setProperty("role", "body")
        body.setProperty("tone", "2")
        body.setWordWrap(True)
        row = QHBoxLayout(self)
        row.setContentsMargins(px(16), px(14), px(16), px(14))
        row.setSpacing(px(16))
        row.addWidget(self._icon)
        column = QVBoxLayout()
        column.setSpacing(px(4))
        column.addWidget(head)
        column.addWidget(body)
        row.addLayout(column, 1)
        row.addWidget(act)
        self.restyle()

    def restyle(self) -> None:
        self._icon.setPixmap(pixmap(self._icon_name, "accent.text" if self._chosen else "text.2", 20))


def _centred(role: str) -> QLabel:
    made = QLabel()
    made.setProperty("role", role)
    made.setAlignment(Qt.AlignmentFlag.AlignHCenter)
    made.setWordWrap(True)
    return made


def _button(text: str, kind: str, size: str = "") -> QPushButton:
    made = QPushButton(text)
    made.setProperty("kind", kind)
    if size:
        made.setProperty("size", size)
    return made


def short_name(path: str) -> str:
    """A model's name from its file."""
    return Path(path).stem
