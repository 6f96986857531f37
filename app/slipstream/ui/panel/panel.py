"""The Slipstream panel: the pair, what speculation does, and how much it gains."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QScrollArea, QSpinBox, QVBoxLayout, QWidget

from slipstream.domain.errors import ErrorInfo
from slipstream.domain.protocol import FinishReason, Loaded, LoadProgress, RoundDone
from slipstream.domain.rounds import Round, Totals
from slipstream.domain.speculation import Mode, Speculation
from slipstream.ui.panel.details import Details
from slipstream.ui.panel.gauges import GaugeFacts, Gauges
from slipstream.ui.panel.live import LiveRate, mean_of_last
from slipstream.ui.panel.pair import Entry, PairCard
from slipstream.ui.panel.verdict import Facts, Kind, Verdict, judge, speed_maximum
from slipstream.ui.panel.verdict_card import Offer, VerdictCard
from slipstream.ui.panel.view import PairState, PairView, choice
from slipstream.ui.theme import icon, px
from slipstream.ui.widgets.chips import label
from slipstream.ui.widgets.motion import Motion, Pacer
from slipstream.ui.widgets.segmented import Segmented

WIDTH = 336
TEXT_S = 0.25  # texts change at most four times a second
LONGEST_DRAFT = 16


class SlipstreamPanel(QWidget):
    """Shows one engine's pair and its replies. It asks for changes by signals and changes nothing itself."""

    targetPicked = Signal(str)
    draftPicked = Signal(str)  # a path, or empty for none
    unloadRequested = Signal()
    cancelLoadRequested = Signal()
    speculationChanged = Signal(object)  # Speculation
    detailsToggled = Signal(bool)
    verdictChanged = Signal(object)  # Verdict, for the narrow strip and the status bar

    def __init__(
        self, motion: Motion | None = None, parent: QWidget | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(parent)
        self._clock = clock
        self._motion = motion or Motion(self)
        self._speculation = Speculation()
        self._trouble: tuple[Verdict, tuple[Offer, ...]] | None = None
        self._live = LiveRate()
        self._recent: deque[Round] = deque(maxlen=16)
        self._totals: Totals | None = None
        self._streaming = False
        self._peak = 0.0
        self._maximum = speed_maximum(0.0, 0.0, True)
        self._plain: float | None = None
        self._break_even = 0.0
        self._state = ""
        self._build()
        self._texts = Pacer(TEXT_S, self._refresh, self, clock)
        self._refresh()

    # ---------------------------------------------------------------- build

    def _build(self) -> None:
        self.setProperty("surface", "window")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedWidth(px(WIDTH))
        self.setAccessibleName(self.tr("Slipstream panel"))
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        column = QVBoxLayout()
        column.setContentsMargins(16, 0, 16, 0)
        column.setSpacing(0)
        outer.addLayout(column)
        column.addWidget(self._header())
        self.length_row = self._length_row()
        column.addWidget(self.length_row)
        self.pair = PairCard()
        self.pair.targetPicked.connect(self.targetPicked)
        self.pair.draftPicked.connect(self.draftPicked)
        self.pair.unloadRequested.connect(self.unloadRequested)
        self.pair.cancelLoadRequested.connect(self.cancelLoadRequested)
        self.verdict = VerdictCard()
        self.verdict.changed.connect(self.verdictChanged)
        self.gauges = Gauges(self._motion)
        for widget, space in ((self.pair, 12), (self.verdict, 16), (self.gauges, 8)):
            column.addWidget(widget)
            column.addSpacing(space)
        self.details_button = QPushButton(self.tr("Details"))
        self.details_button.setProperty("kind", "disclosure")
        self.details_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.details_button.clicked.connect(lambda: self._toggle_details(not self.details_open))
        column.addWidget(self.details_button)
        self.details = Details()
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setWidget(self.details)
        self._scroll.setMinimumHeight(1)  # on a low window the details shrink, never the gauges
        outer.addWidget(self._scroll, 1)
        self._rest = QWidget()  # takes the room of closed details
        outer.addWidget(self._rest, 1)
        self.set_details_open(False)

    def _header(self) -> QWidget:
        head = QWidget()
        head.setFixedHeight(px(48))
        row = QHBoxLayout(head)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(label(self.tr("Slipstream"), "section"))
        row.addStretch(1)
        self.mode = Segmented(
            (
                (Mode.AUTO.value, self.tr("Auto"), self.tr("Guess where it pays, and as far as it pays")),
                (Mode.ON.value, self.tr("On"), self.tr("Always guess, at the length you set")),
                (Mode.OFF.value, self.tr("Off"), self.tr("Let the target work alone")),
            )
        )
        self.mode.setAccessibleName(self.tr("Speculation"))
        self.mode.picked.connect(self._pick_mode)
        row.addWidget(self.mode)
        return head

    def _length_row(self) -> QWidget:
        box = QWidget()
        row = QHBoxLayout(box)
        row.setContentsMargins(0, 0, 0, 8)
        name = label(self.tr("Draft length"), "secondary", "2")
        self.length = QSpinBox()
        self.length.setRange(1, LONGEST_DRAFT)
        self.length.setValue(self._speculation.length)
        self.length.setProperty("fit", "small")
        self.length.setSuffix(self.tr(" tokens"))
        self.length.setAccessibleName(self.tr("Draft length in tokens"))
        self.length.valueChanged.connect(self._pick_length)
        name.setBuddy(self.length)
        row.addWidget(name)
        row.addStretch(1)
        row.addWidget(self.length)
        box.hide()
        return box

    # ---------------------------------------------------------------- choices

    @property
    def speculation(self) -> Speculation:
        return self._speculation

    def set_speculation(self, speculation: Speculation) -> None:
        """Show what is asked of speculation, without a signal."""
        self._speculation = speculation
        self.mode.choose(speculation.mode.value)
        self.length.blockSignals(True)
        self.length.setValue(speculation.length)
        self.length.blockSignals(False)
        self.length_row.setVisible(speculation.mode is Mode.ON)
        self._refresh()

    def _pick_mode(self, key: str) -> None:
        self.set_speculation(replace(self._speculation, mode=Mode(key)))
        self.speculationChanged.emit(self._speculation)

    def _pick_length(self, length: int) -> None:
        self._speculation = replace(self._speculation, length=length)
        self.speculationChanged.emit(self._speculation)

    @property
    def details_open(self) -> bool:
        return not self._scroll.isHidden()

    def set_details_open(self, on: bool) -> None:
        """Open or close the details, without a signal."""
        self._scroll.setVisible(on)
        self._rest.setVisible(not on)
        self._draw_chevron()
        state = self.tr("open") if on else self.tr("closed")
        self.details_button.setAccessibleName(f"{self.tr('Details')}, {state}")

    def _toggle_details(self, on: bool) -> None:
        self.set_details_open(on)
        self.detailsToggled.emit(on)

    def _draw_chevron(self) -> None:
        self.details_button.setIcon(icon("chevron-down" if self.details_open else "chevron-right", "text.2", 16))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._draw_chevron()

    # ---------------------------------------------------------------- the pair

    def set_models(self, models: Sequence[Entry]) -> None:
        """Models the menus offer: (path, title, size in bytes), in their order."""
        self.pair.set_models(models)

    def set_pair(self, view: PairView) -> None:
        """Show a pair as it stands: chosen, being checked, loading, refused."""
        self.pair.set_view(view)
        self._trouble = None
        if view.state is PairState.MISMATCH:
            self._set_trouble(self._mismatch(view), self._without_draft())
        elif view.state is PairState.FAILED:
            self._set_trouble(Verdict(Kind.TROUBLE, self.tr("The models could not be loaded"), view.reason))
        self._refresh(now=True)

    def load_progress(self, progress: LoadProgress) -> None:
        """A load is under way."""
        view = self.pair.view
        first = view.state is not PairState.LOADING
        fraction = progress.fraction if first else max(progress.fraction, view.fraction)
        self.pair.set_view(
            replace(
                view,
                state=PairState.LOADING,
                fraction=fraction,
                stage=progress.stage,
                loaded=False,
                reason="",
                checks=(),
            )
        )
        if first:
            self._trouble = None
            self._refresh(now=True)

    def set_loaded(self, loaded: Loaded) -> None:
        """A pair is ready. A draft that was chosen and then left out is named, with the engine's reason."""
        before = self.pair.view
        view = PairView(
            target=choice(loaded.target),
            draft=choice(loaded.draft),
            state=PairState.COMPATIBLE if loaded.draft else PairState.NONE,
            loaded=True,
            drafters=loaded.drafters,
        )
        if loaded.draft is None and before.draft is not None and loaded.notices:
            view = replace(view, draft=before.draft, state=PairState.MISMATCH, reason=" ".join(loaded.notices))
        self._forget_replies()
        self.details.show_loaded(loaded)
        self.set_pair(view)

    def set_unloaded(self) -> None:
        """Both models are gone from memory; what was chosen stays."""
        self._forget_replies()
        self.details.show_memory({}, ())
        self.set_pair(replace(self.pair.view, state=PairState.NONE, loaded=False, drafters=(), reason="", checks=()))

    def load_refused(self, error: ErrorInfo) -> None:
        """A load ended without a pair."""
        view = replace(self.pair.view, loaded=False, drafters=(), reason=error.sentence(), checks=())
        if error.kind == "Cancelled":
            self.set_unloaded()
            return
        state = PairState.MISMATCH if error.kind == "PairMismatch" else PairState.FAILED
        self.details.show_memory({}, ())
        self.set_pair(replace(view, state=state))
        if state is PairState.FAILED:
            self._set_trouble(Verdict(Kind.TROUBLE, error.message, error.hint), self._load_again())
            self._refresh(now=True)

    def engine_gone(self, error: ErrorInfo) -> None:
        """The engine ended unasked. The figures of the last reply stay."""
        self._streaming = False
        self.details.sparkline.pause(self._clock())
        self.details.show_memory({}, ())
        self.pair.set_view(
            replace(
                self.pair.view, state=PairState.FAILED, loaded=False, drafters=(), reason=error.sentence(), checks=()
            )
        )
        self._set_trouble(Verdict(Kind.TROUBLE, error.message, error.hint), self._load_again())
        self._refresh(now=True)

    def _mismatch(self, view: PairView) -> Verdict:
        target = view.target.name if view.target else self.tr("this target")
        return Verdict(Kind.TROUBLE, self.tr("This draft cannot guess for {target}").format(target=target), view.reason)

    def _without_draft(self) -> tuple[Offer, ...]:
        return ((self.tr("Run without a draft"), lambda: self.draftPicked.emit("")),)

    def _load_again(self) -> tuple[Offer, ...]:
        target = self.pair.view.target
        return ((self.tr("Load again"), lambda: self.targetPicked.emit(target.path)),) if target else ()

    def _set_trouble(self, verdict: Verdict, offers: tuple[Offer, ...] = ()) -> None:
        self._trouble = (verdict, offers)

    def _forget_replies(self) -> None:
        self._live.reset()
        self._recent.clear()
        self._totals, self._plain, self._streaming = None, None, False
        self._break_even, self._state, self._peak = 0.0, "", 0.0
        self._maximum = speed_maximum(0.0, 0.0, True)
        self.details.tape.clear()
        self.details.sparkline.clear()

    # ---------------------------------------------------------------- replies

    def begin_reply(self) -> None:
        """A reply starts: its figures begin at nothing."""
        self._live.reset()
        self._streaming, self._totals = True, Totals()
        self._state, self._peak = "", 0.0
        self._refresh()

    def add_rounds(self, rounds: Sequence[RoundDone]) -> None:
        """Rounds of the present reply, oldest first; at most 30 batches a second."""
        if not rounds:
            return
        plain_rounds = [event.round for event in rounds]
        self._live.add(plain_rounds)
        self._recent.extend(plain_rounds)
        self._totals = rounds[-1].totals
        self._state = plain_rounds[-1].state
        for done in plain_rounds:
            self._break_even = done.break_even or self._break_even
        if self._totals.plain_s > 0:
            self._plain = 1 / self._totals.plain_s
        rate = self._live.rate
        if rate is not None:
            self._peak = max(self._peak, rate, self._plain or 0.0)
            self.details.sparkline.add(self._clock(), rate, self._plain)
        self.details.tape.add(plain_rounds)
        self._texts.poke()

    def end_reply(self, totals: Totals, reason: FinishReason | None = None) -> None:
        """The reply is over, for whatever reason: its means stay on show."""
        self._streaming = False
        self._totals = totals
        if totals.plain_s > 0:
            self._plain = 1 / totals.plain_s
        self._peak = max(totals.tokens_per_second or 0.0, self._plain or 0.0)
        self.details.sparkline.pause(self._clock())
        self._texts.flush()

    # ---------------------------------------------------------------- show

    def _inactive(self) -> str:
        view = self.pair.view
        if view.loaded and not view.drafters:
            return self.tr("No draft is loaded. Pick one above to have guesses made.")
        wanted = self._speculation.drafters
        if view.loaded and wanted and not set(wanted) & set(view.drafters):
            return self.tr("The chosen way of guessing is not available for this pair.")
        return ""

    def _facts(self) -> Facts:
        return Facts(
            loaded=self.pair.view.loaded,
            mode=self._speculation.mode,
            inactive=self._inactive(),
            totals=self._totals,
            streaming=self._streaming,
            state=self._state,
            break_even=self._break_even,
        )

    def _refresh(self, now: bool = False) -> None:
        """Bring every text and gauge up to date; `now` lets the verdict change at once."""
        totals = self._totals
        rate = self._live.rate if self._streaming else (totals.tokens_per_second if totals else None)
        self._maximum = speed_maximum(self._peak, self._maximum, not self._streaming)
        if self._speculation.mode is Mode.OFF:
            word = self.tr("off")
        elif self._inactive():
            word = self.tr("no draft")
        else:
            word = self.tr("paused") if self._state == "paused" else ""
        self.gauges.show_facts(
            GaugeFacts(
                rate,
                self._plain,
                self._maximum,
                totals,
                self._break_even,
                word if rate is not None else "",
                paused=self._state == "paused",
            )
        )
        length = mean_of_last(self._recent)
        self.details.show_totals(totals, length, self._speculation.mode is Mode.AUTO, self._plain)
        self._show_verdict(now)

    def _show_verdict(self, now: bool) -> None:
        if self._trouble is not None:
            verdict, offers = self._trouble
            self.verdict.show_verdict(verdict, now=True, offers=offers)
        elif self.pair.view.state in (PairState.LOADING, PairState.CHECKING):
            words = self.tr("The draft will guess, the target will check.")
            self.verdict.show_verdict(Verdict(Kind.MEASURING, self.tr("Getting the pair ready"), words), now=now)
        else:
            self.verdict.show_verdict(judge(self._facts(), self.tr), now=now)
