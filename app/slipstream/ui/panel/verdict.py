"""What the panel says about a reply, and how far its gauges reach. Pure rules, no Qt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from slipstream.domain.rounds import Totals
from slipstream.domain.speculation import Mode

ENOUGH = 20  # drafted tokens before a verdict
NO_DIFFERENCE = (0.97, 1.03)
SPEED_STEPS = (20, 40, 80, 160, 320)

Translate = Callable[[str], str]


class Kind(StrEnum):
    SAVES = "saves"
    NO_DIFFERENCE = "no_difference"
    COSTS = "costs"
    PAUSED = "paused"
    MEASURING = "measuring"
    OFF = "off"
    INACTIVE = "inactive"
    READY = "ready"
    EMPTY = "empty"
    TROUBLE = "trouble"


@dataclass(frozen=True)
class Verdict:
    """One sentence and one line of numbers."""

    kind: Kind
    sentence: str
    numbers: str = ""


@dataclass(frozen=True)
class Facts:
    """What a verdict rests on. `totals` None before the first round; `streaming` while a reply is being written;
    `state` and `break_even` (0..1, 0 unknown) as the latest round says; `inactive`: why nothing speculates
    though it was asked for, empty where it does."""

    loaded: bool
    mode: Mode
    inactive: str = ""
    totals: Totals | None = None
    streaming: bool = False
    state: str = ""
    break_even: float = 0.0


def _same(text: str) -> str:
    return text


def judge(facts: Facts, tr: Translate = _same) -> Verdict:
    """The verdict. `tr` translates whole sentences before figures are filled in."""
    if not facts.loaded:
        return Verdict(Kind.EMPTY, tr("No model is loaded"), tr("Pick a target to chat with, and a draft to guess."))
    totals = facts.totals
    if facts.mode is Mode.OFF:
        return Verdict(Kind.OFF, tr("Speculation is off"), tr("Turn it on to see what the draft would save."))
    if facts.inactive:
        return Verdict(Kind.INACTIVE, tr("Speculation is not active"), facts.inactive)
    if totals is None:
        return Verdict(Kind.READY, tr("Ready to measure"), tr("The first reply shows what the draft saves."))
    if facts.state == "paused":
        return Verdict(Kind.PAUSED, tr("Speculation paused: the draft does not pay here"), _paused(facts, totals, tr))
    if totals.verified < ENOUGH:
        return _too_few(facts.streaming, totals, tr)
    if totals.speed_up is None:
        if facts.streaming:
            return Verdict(Kind.MEASURING, tr("Measuring the target alone"), tr("Plain speed is not known yet."))
        return Verdict(Kind.MEASURING, tr("No comparison for this reply"), tr("Plain speed was not measured in it."))
    return _compare(facts, totals, totals.speed_up, tr)


def _paused(facts: Facts, totals: Totals, tr: Translate) -> str:
    kept = totals.acceptance
    if kept is None or facts.break_even <= 0:
        return tr("The target alone is faster here. It is tried again later.")
    return tr("{kept} % kept; it needs {need} %. It is tried again later.").format(
        kept=percent(kept), need=percent(facts.break_even)
    )


def _too_few(streaming: bool, totals: Totals, tr: Translate) -> Verdict:
    if streaming:
        return Verdict(
            Kind.MEASURING,
            tr("Measuring: the first {count} drafted tokens").format(count=ENOUGH),
            tr("No verdict before there is enough to judge."),
        )
    return Verdict(
        Kind.MEASURING,
        tr("Too few guesses to judge this reply"),
        tr("{count} drafted tokens; a verdict needs {enough}.").format(count=totals.verified, enough=ENOUGH),
    )


def _compare(facts: Facts, totals: Totals, speed_up: float, tr: Translate) -> Verdict:
    spent, without = totals.decode_s, totals.decode_s * speed_up
    low, high = NO_DIFFERENCE
    if low <= speed_up <= high:
        words = tr("{ratio}×. Auto keeps it on and watches.") if facts.mode is Mode.AUTO else tr("{ratio}×.")
        sentence = tr("Speculation makes no difference on this reply")
        return Verdict(Kind.NO_DIFFERENCE, sentence, words.format(ratio=f"{speed_up:.2f}"))
    fields = {"spent": seconds(spent), "without": seconds(without)}
    if speed_up > high:
        sentence = tr("Speculation saves {share} % of the time on this reply").format(share=percent(1 - 1 / speed_up))
        kind = Kind.SAVES
    else:
        sentence = tr("Speculation costs {share} % more time on this reply").format(share=percent(1 / speed_up - 1))
        kind = Kind.COSTS
    if facts.streaming:
        return Verdict(kind, sentence, tr("{spent} so far; about {without} without the draft.").format(**fields))
    return Verdict(kind, sentence, tr("{spent}; about {without} without the draft.").format(**fields))


def speed_maximum(peak: float, shown: float, between_replies: bool) -> float:
    """The end of the speed scale: the next of 20, 40, 80, 160, 320 (and on, doubling) above `peak` tokens/s.

    It falls below `shown`, the scale's present end, only between replies.
    """
    end = float(SPEED_STEPS[0])
    while end <= peak:
        end *= 2
    return end if between_replies else max(end, shown)


def percent(part: float) -> int:
    """0..1 as whole percent, halves up; "0" and "100" only where nothing or all is meant."""
    whole = int(part * 100 + 0.5)
    if whole == 0 and part > 0:
        return 1
    if whole == 100 and part < 1:
        return 99
    return whole


def three(value: float) -> str:
    """Three digits: 0.60, 1.25, 12.8, 128."""
    if abs(value) < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if abs(value) < 99.95 else f"{value:.0f}"


def seconds(value: float) -> str:
    """A duration in words: "0.42 s", "11.5 s", "2 min 5 s"."""
    if value < 99.95:
        return f"{three(value)} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s"


def gib(size_bytes: float) -> str:
    """A size in GiB to three digits, without the unit."""
    return three(size_bytes / 2**30)


def memory_size(size_bytes: float) -> str:
    """A size with its unit: MiB below 0.1 GiB, where three digits of GiB would say too little."""
    return f"{three(size_bytes / 2**20)} MiB" if size_bytes < 0.1 * 2**30 else f"{gib(size_bytes)} GiB"
