"""What to do about the figures, in words. Pure; every threshold is in `Thresholds`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from slipstream.bench.report import Row, overall
from slipstream.domain.protocol import ModelInfo


@dataclass(frozen=True)
class Thresholds:
    """Rules of thumb. Shares are 0..1; costs are in plain one-token steps.

    draft_share: a draft with more of its target's parameters than this is too big (10-50 × smaller is usual).
    draft_cost: one drafted token dearer than this makes the draft too slow.
    row_cost: each further token in a verifying decode dearer than this: the machine computes at its limit.
    acceptance: below it the draft is off-domain.
    small_gain, large_gain: below the one look for something better, above the other leave everything as it is.
    small_target: parameters below which a target has little to gain.
    pin_gain: a fixed length that is this much ahead of auto is worth pinning.
    loss: a speed-up below this is a loss and not noise.
    noise: two plain runs that differ by more make small differences meaningless.
    """

    draft_share: float = 0.1
    draft_cost: float = 0.25
    row_cost: float = 0.5
    acceptance: float = 0.5
    small_gain: float = 1.3
    large_gain: float = 2.0
    small_target: float = 3e9
    pin_gain: float = 1.05
    loss: float = 0.98
    noise: float = 0.05


class Tone(StrEnum):
    GOOD = "good"
    INFO = "info"
    WARN = "warn"


@dataclass(frozen=True)
class Advice:
    """`kind` names the rule, `figure` is what was measured and `threshold` what it was held against (same unit)."""

    kind: str
    tone: Tone
    title: str
    text: str
    figure: float | None = None
    threshold: float | None = None
    tasks: tuple[str, ...] = field(default=())


def advise(
    rows: Sequence[Row], target: ModelInfo, draft: ModelInfo | None, limits: Thresholds | None = None
) -> tuple[Advice, ...]:
    """Advice from a summary, the verdict first. `rows` must hold plain for there to be a verdict."""
    limits = limits or Thresholds()
    found = [_noise(rows, limits), _gain(rows, limits)]
    found += _losses(rows, limits)
    if draft is not None:
        found += [_nothing_drafted(rows), _too_big(target, draft, limits), _too_slow(rows, limits)]
        found += _off_domain(rows, limits)
    found += [_verifying(rows, limits), _small_target(rows, target, limits), _length(rows, limits)]
    return tuple(advice for advice in found if advice is not None)


def _best(rows: Sequence[Row]) -> tuple[str, float] | None:
    """Auto where it was run, for that is what people use; else the fastest mode."""
    gains = {row.mode: overall(rows, row.mode) for row in rows if not _is_plain(row.mode)}
    known = {mode: gain for mode, gain in gains.items() if gain is not None}
    if not known:
        return None
    mode = "auto" if "auto" in known else max(known, key=lambda name: known[name])
    return mode, known[mode]


def _is_plain(mode: str) -> bool:
    return mode == "plain" or mode.startswith("plain-")


def _fixed(rows: Sequence[Row]) -> list[Row]:
    """Rows of modes in which the draft model alone drafts, at a pinned length."""
    return [row for row in rows if row.mode.startswith("fixed-") and row.drafted]


def _plain_step_s(rows: Sequence[Row], task: str) -> float | None:
    rate = next((row.tokens_per_second for row in rows if row.task == task and row.mode == "plain"), None)
    return 1 / rate if rate else None


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _noise(rows: Sequence[Row], limits: Thresholds) -> Advice | None:
    again = overall(rows, "plain-2")
    if again is None or abs(again - 1) <= limits.noise:
        return None
    return Advice(
        "noise", Tone.WARN, "This machine was busy",
        f"Two plain runs of the same prompts differ by {_percent(abs(again - 1))} (above {_percent(limits.noise)}): "
        "smaller differences than that mean nothing here. Close other programs and run it again.",
        abs(again - 1), limits.noise,
    )  # fmt: skip


def _gain(rows: Sequence[Row], limits: Thresholds) -> Advice | None:
    best = _best(rows)
    if best is None:
        return None
    mode, gain = best
    if gain > limits.large_gain:
        return Advice(
            "leave", Tone.GOOD, "Leave it as it is",
            f"{_named(mode)} is {gain:.2f} times as fast as plain (above {limits.large_gain:g}).", gain, limits.large_gain,
        )  # fmt: skip
    if gain < limits.small_gain:
        need = _percent(limits.small_gain - 1)
        said = f"gains {_percent(gain - 1)}" if gain >= 1 else f"loses {_percent(1 - gain)}"
        off = "Turn speculation off for this pair, or try" if gain < limits.loss else "Try"
        return Advice(
            "small gain", Tone.INFO, "There is little gain" if gain >= limits.loss else "There is no gain",
            f"{_named(mode)} {said} over plain (a gain below {need}). {off} a smaller draft, or a shorter draft length.",
            gain, limits.small_gain,
        )  # fmt: skip
    return Advice(
        "gain", Tone.GOOD, "Speculation pays",
        f"{_named(mode)} is {gain:.2f} times as fast as plain (above {limits.small_gain:g}).", gain, limits.small_gain,
    )  # fmt: skip


def _named(mode: str) -> str:
    return {"auto": "Auto", "ngram": "N-gram drafting"}.get(mode, mode)


def _losses(rows: Sequence[Row], limits: Thresholds) -> list[Advice | None]:
    best = _best(rows)
    mode = best[0] if best else ""
    lost = [row for row in rows if row.mode == mode and row.speedup is not None and row.speedup < limits.loss]
    return [
        Advice(
            "loss", Tone.WARN, f"Slower than plain on {row.task}",
            f"{_named(mode)} ran at {row.speedup:.2f} times plain on {row.task} (below {limits.loss:g})."
            + ("" if row.speedup_high is None or row.speedup_high < 1 else " That may still be noise: run it with --repeat."),
            row.speedup, limits.loss, (row.task,),
        )
        for row in lost
        if row.speedup is not None
    ]  # fmt: skip


def _nothing_drafted(rows: Sequence[Row]) -> Advice | None:
    tried = [row for row in rows if row.mode.startswith("fixed-")]
    if not tried or any(row.drafted for row in tried):
        return None
    return Advice(
        "not active", Tone.WARN, "The draft did nothing",
        "It is loaded, but not one of its tokens was verified. Check that the two models belong together.", 0.0, 1.0,
    )  # fmt: skip


def _too_big(target: ModelInfo, draft: ModelInfo, limits: Thresholds) -> Advice | None:
    share = draft.n_params / target.n_params if target.n_params else 0.0
    if share <= limits.draft_share:
        return None
    return Advice(
        "draft too big", Tone.INFO, "The draft is big for its target",
        f"It has 1/{1 / share:.1f} of the target's parameters; 1/{1 / limits.draft_share:.0f} to 1/50 is usual. "
        "A smaller one of the same family drafts faster.",
        share, limits.draft_share,
    )  # fmt: skip


def _too_slow(rows: Sequence[Row], limits: Thresholds) -> Advice | None:
    """The draft's time per proposed token, by the task's plain step, over all fixed lengths."""
    costs = [
        (row.time_s["draft"] / step, row.proposed)
        for row in _fixed(rows)
        if row.proposed and (step := _plain_step_s(rows, row.task))
    ]
    proposed = sum(count for _, count in costs)
    cost = sum(steps for steps, _ in costs) / proposed if proposed else 0.0
    if cost <= limits.draft_cost:
        return None
    return Advice(
        "draft too slow", Tone.WARN, "The draft is slow",
        f"One drafted token takes {_percent(cost)} of the time of a plain token (above {_percent(limits.draft_cost)}). "
        "Use a smaller draft or a smaller quantisation, or put it on a faster device.",
        cost, limits.draft_cost,
    )  # fmt: skip


def _off_domain(rows: Sequence[Row], limits: Thresholds) -> list[Advice | None]:
    """Judged on the fixed length that was fastest for the task: longer ones are bound to keep less."""
    found: list[Advice | None] = []
    for task in dict.fromkeys(row.task for row in rows):
        tried = [row for row in _fixed(rows) if row.task == task]
        if not tried:
            continue
        row = max(tried, key=lambda one: one.tokens_per_second or 0.0)
        if row.acceptance is None or row.acceptance >= limits.acceptance:
            continue
        even = break_even(row)
        beyond = "" if even is None else f" At this length drafting pays above {_percent(even)}."
        found.append(
            Advice(
                "off-domain", Tone.INFO, f"The draft guesses poorly on {task}",
                f"{_percent(row.acceptance)} of its tokens were kept with {row.mode} (below {_percent(limits.acceptance)}): "
                f"this draft is not made for such text.{beyond}",
                row.acceptance, limits.acceptance, (task,),
            )
        )  # fmt: skip
    return found


def break_even(row: Row) -> float | None:
    """The acceptance above which rounds like this row's pay: (C ÷ T − 1) ÷ k with C a round's cost, T a plain step and
    k the tokens verified a round. Tokens a round ÷ speed-up is C ÷ T. None where it is not known or no share at all."""
    if not (row.speedup and row.tokens_per_round and row.rounds and row.drafted):
        return None
    share = (row.tokens_per_round / row.speedup - 1) / (row.drafted / row.rounds)
    return share if 0 <= share <= 1 else None


def _verifying(rows: Sequence[Row], limits: Thresholds) -> Advice | None:
    """What each further verified token costs. From the fixed lengths: there nearly every round has the same shape."""
    extra = tokens = 0.0
    for row in _fixed(rows):
        step = _plain_step_s(rows, row.task)
        if step:
            extra += row.time_s["verify"] / step - row.rounds
            tokens += row.drafted
    cost = extra / tokens if tokens else 0.0
    if cost <= limits.row_cost:
        return None
    return Advice(
        "verifying dear", Tone.INFO, "Verifying costs much on this machine",
        f"Each further token in a verifying pass takes {_percent(cost)} of a plain token's time "
        f"(above {_percent(limits.row_cost)}). Few CPU cores, or a device that computes at its limit, leave little to gain; "
        "a target in F16 or Q8_0 gains more here than one in Q4.",
        cost, limits.row_cost,
    )  # fmt: skip


def _small_target(rows: Sequence[Row], target: ModelInfo, limits: Thresholds) -> Advice | None:
    best = _best(rows)
    if best is None or best[1] >= limits.small_gain or not 0 < target.n_params < limits.small_target:
        return None
    return Advice(
        "target too small", Tone.INFO, "The target is small",
        f"It has {target.n_params / 1e9:.1f} billion parameters (below {limits.small_target / 1e9:g}). A bigger model on slow "
        "memory gains most from speculation, a small one least.",
        float(target.n_params), limits.small_target,
    )  # fmt: skip


def _length(rows: Sequence[Row], limits: Thresholds) -> Advice | None:
    """Auto against the best fixed length, over all tasks."""
    auto = overall(rows, "auto")
    fixed = {mode: gain for mode in dict.fromkeys(r.mode for r in _fixed(rows)) if (gain := overall(rows, mode))}
    if auto is None or not fixed:
        return None
    mode = max(fixed, key=lambda name: fixed[name])
    length, ahead = mode.split("-")[1], fixed[mode] / auto
    if ahead > limits.pin_gain:
        return Advice(
            "pin", Tone.INFO, f"Try a draft length of {length}",
            f"Always drafting {length} tokens was {_percent(ahead - 1)} faster than auto over all tasks "
            f"(above {_percent(limits.pin_gain - 1)}).",
            ahead, limits.pin_gain,
        )  # fmt: skip
    if auto < limits.loss:
        return None  # nothing here is worth keeping
    compared = f"{_percent(1 - ahead)} behind auto" if ahead < 1 else f"only {_percent(ahead - 1)} ahead of auto"
    return Advice(
        "keep auto", Tone.GOOD, "Keep speculation on auto",
        f"The best fixed length, {length}, was {compared} over all tasks.", ahead, limits.pin_gain,
    )  # fmt: skip


def in_words(advices: Sequence[Advice]) -> str:
    """One line each, for a terminal."""
    return "\n".join(f"- {advice.title}. {advice.text}" for advice in advices)
