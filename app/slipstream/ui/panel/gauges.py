"""The two gauges with their headings: speed, acceptance."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from slipstream.domain.rounds import Totals
from slipstream.ui.panel.verdict import ENOUGH, percent, three
from slipstream.ui.theme import px
from slipstream.ui.widgets.chips import Badge, label
from slipstream.ui.widgets.gauge import Gauge, GaugeState, Tone
from slipstream.ui.widgets.motion import Motion


@dataclass(frozen=True)
class GaugeFacts:
    """What the gauges show. Rates in tokens/s, None where unknown; `maximum` ends the speed scale; `idle_word`
    ("paused", "off", empty) says why the target decodes alone."""

    rate: float | None = None
    plain: float | None = None
    maximum: float = 20.0
    totals: Totals | None = None
    break_even: float = 0.0
    idle_word: str = ""
    paused: bool = False


def _tr(text: str) -> str:
    return QCoreApplication.translate("Gauges", text)


class Gauges(QWidget):
    """Speed on the left, acceptance on the right."""

    def __init__(self, motion: Motion, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(16)
        self.speed, self.acceptance = Gauge(motion), Gauge(motion)
        self.badge = Badge()
        for text, gauge in ((_tr("Speed"), self.speed), (_tr("Acceptance"), self.acceptance)):
            head = QWidget()
            head.setFixedHeight(px(20))  # room for the badge whether or not there is one: nothing moves when it comes
            line = QHBoxLayout(head)
            line.setContentsMargins(0, 0, 0, 0)
            line.setSpacing(8)
            line.addStretch(1)
            line.addWidget(label(text, "secondary"))
            if gauge is self.speed:
                line.addWidget(self.badge)
            line.addStretch(1)
            column = QVBoxLayout()
            column.setSpacing(0)
            column.addWidget(head)
            column.addWidget(gauge, 0, Qt.AlignmentFlag.AlignHCenter)
            row.addLayout(column)
        self.show_facts(GaugeFacts())

    def show_facts(self, facts: GaugeFacts) -> None:
        self._show_speed(facts)
        self._show_acceptance(facts)

    def _show_speed(self, facts: GaugeFacts) -> None:
        rate, plain = facts.rate, facts.plain
        ratio = rate / plain if rate is not None and plain else None
        if rate is None:
            tone = Tone.IDLE
        elif facts.idle_word:
            tone = Tone.TARGET
        elif ratio is None:
            tone = Tone.ACCENT
        else:
            tone = Tone.SPLIT if ratio >= 1 else Tone.WARN
        state = GaugeState(
            value=rate,
            maximum=facts.maximum,
            reference=plain,
            tone=tone,
            number=three(rate) if rate is not None else "–",
            unit=_tr("tokens/s"),
            reference_text=_tr("plain {rate}").format(rate=three(plain)) if plain else "",
        )
        self._show_badge(ratio, facts.idle_word, facts.paused)
        if rate is None:
            words = _tr("Speed, not measured yet")
        elif ratio is None or facts.idle_word:
            words = _tr("Speed, {rate} tokens per second").format(rate=three(rate))
        else:
            words = _tr("Speed, {rate} tokens per second, {ratio} times plain").format(
                rate=three(rate), ratio=f"{ratio:.2f}"
            )
        told = _tr("Slate: what the target does alone. Teal: what the draft adds. The mark: plain decoding.")
        self.speed.show_state(state, words, told)

    def _show_badge(self, ratio: float | None, idle_word: str, paused: bool) -> None:
        if idle_word:
            self.badge.show_text(idle_word, "", "pause" if paused else "")
        elif ratio is None:
            self.badge.show_text("")
        elif ratio < 0.97:
            self.badge.show_text(f"{ratio:.2f}×", "warn", "triangle-alert")
        else:
            self.badge.show_text(f"{ratio:.2f}×", "good" if ratio > 1.03 else "")

    def _show_acceptance(self, facts: GaugeFacts) -> None:
        totals = facts.totals
        kept = totals.acceptance if totals is not None and totals.verified >= ENOUGH else None
        needed = facts.break_even if 0 < facts.break_even <= 1 else None
        needs = _tr("pays above {need} %").format(need=percent(needed)) if needed is not None else ""
        if kept is None or totals is None:
            state = GaugeState(unit=_tr("of drafted"), reference=None)
            self.acceptance.show_state(state, _tr("Acceptance, fewer than 20 drafted tokens"), _tr("Kept guesses."))
            return
        pays = needed is None or kept >= needed
        state = GaugeState(
            value=kept * 100,
            maximum=100.0,
            reference=needed * 100 if needed is not None else None,
            tone=Tone.ACCENT if pays else Tone.WARN,
            number=str(percent(kept)),
            suffix="%",
            unit=_tr("{kept} of {count}").format(kept=totals.accepted, count=totals.verified),
            reference_text=needs,
        )
        words = _tr("Acceptance, {kept} percent of {count} drafted tokens kept").format(
            kept=percent(kept), count=totals.verified
        )
        told = _tr("Guesses of the draft that the target kept. The mark: from here on guessing pays.")
        self.acceptance.show_state(state, f"{words}, {needs}" if needs else words, told)
