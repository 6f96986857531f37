"""The verdict: an icon, one sentence, one line of numbers, and what can be done about trouble."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from slipstream.ui.panel.verdict import Kind, Verdict
from slipstream.ui.theme import pixmap, px, set_prop
from slipstream.ui.widgets.chips import label
from slipstream.ui.widgets.motion import Pacer

HOLD_S = 2.0  # a verdict stands this long
_LOOKS = {  # surface, icon, token of the icon
    Kind.SAVES: ("good", "wind", "accent.text"),
    Kind.NO_DIFFERENCE: ("card", "equal", "text.2"),
    Kind.COSTS: ("warn", "triangle-alert", "warn.text"),
    Kind.PAUSED: ("warn", "circle-pause", "warn.text"),
    Kind.MEASURING: ("card", "loader", "text.2"),
    Kind.OFF: ("card", "circle-off", "text.2"),
    Kind.INACTIVE: ("card", "circle-off", "text.2"),
    Kind.READY: ("card", "wind", "text.2"),
    Kind.EMPTY: ("card", "info", "text.2"),
    Kind.TROUBLE: ("bad", "unlink", "bad.text"),
}
Offer = tuple[str, Callable[[], None]]


class VerdictCard(QFrame):
    """Shows the latest verdict, changing at most every 2 s. `changed(Verdict)` follows each change."""

    changed = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._wanted = Verdict(Kind.EMPTY, "")
        self._shown = Verdict(Kind.EMPTY, "")
        self._offers: tuple[Offer, ...] = ()
        self._offered: tuple[Offer, ...] = ()
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 10, 12, 10)
        row.setSpacing(8)
        self._icon = label()
        self._icon.setFixedSize(px(18), px(20))
        self._sentence, self._numbers = label(role="strong"), label(role="secondary", tone="2")
        for part in (self._sentence, self._numbers):
            part.setWordWrap(True)
        self._offer_row = QWidget()  # an empty layout in its place would upset the widths of the others
        self._buttons = QHBoxLayout(self._offer_row)
        self._buttons.setContentsMargins(0, 6, 0, 0)
        self._buttons.setSpacing(8)
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(self._sentence)
        words.addWidget(self._numbers)
        words.addWidget(self._offer_row)
        words.addStretch(1)
        self._offer_row.hide()
        self.setMinimumHeight(px(80))  # two lines and figures: what is below stays where it is
        row.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(words, 1)
        self._pacer = Pacer(HOLD_S, self._draw, self)

    @property
    def verdict(self) -> Verdict:
        """What it shows now."""
        return self._shown

    def show_verdict(self, verdict: Verdict, *, now: bool = False, offers: Sequence[Offer] = ()) -> None:
        """Show `verdict`, `now` or when the last one has stood for 2 s. `offers`: buttons, best first."""
        self._wanted, self._offers = verdict, tuple(offers)
        if now:
            self._pacer.flush()
        elif verdict != self._shown:
            self._pacer.poke()

    def _draw(self) -> None:
        if self._wanted == self._shown and self._offers == self._offered:
            return
        news = self._wanted.sentence != self._shown.sentence or self._wanted.kind is not self._shown.kind
        self._shown = verdict = self._wanted
        self._sentence.setText(verdict.sentence.removesuffix("."))  # a headline
        self._numbers.setText(verdict.numbers)
        self._numbers.setVisible(bool(verdict.numbers))
        set_prop(self, "surface", _LOOKS[verdict.kind][0])
        self._draw_icon()
        self._draw_offers()
        self.setAccessibleName(f"{verdict.sentence}. {verdict.numbers}".strip())
        if news and self.isVisible() and verdict.kind not in (Kind.READY, Kind.EMPTY):
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, verdict.sentence))
        self.changed.emit(verdict)

    def _draw_icon(self) -> None:
        _, icon, token = _LOOKS[self._shown.kind]
        self._icon.setPixmap(pixmap(icon, token, px(18)))

    def _draw_offers(self) -> None:
        self._offered = self._offers
        while (item := self._buttons.takeAt(0)) is not None:
            gone: QObject | None = item.widget()
            if isinstance(gone, QWidget):
                gone.hide()
                gone.deleteLater()
        for index, (text, act) in enumerate(self._offers):
            button = QPushButton(text)
            button.setProperty("kind", "primary" if index == 0 else "secondary")
            button.setProperty("fit", "small")
            button.clicked.connect(lambda _=False, act=act: act())
            self._buttons.addWidget(button)
        if self._offers:
            self._buttons.addStretch(1)
        self._offer_row.setVisible(bool(self._offers))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._draw_icon()
