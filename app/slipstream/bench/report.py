"""What the runs add up to: summary per task and mode, bounds of the speed-up, JSON and text."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slipstream.bench.runner import Plan, Result, Run
from slipstream.domain.rounds import Totals

CONFIDENCE = 0.95  # of each bound by itself


@dataclass(frozen=True)
class SpeedUp:
    """How many times as fast as plain: the geometric mean over prompts, and the one-sided 95 % bounds of it (None
    with fewer than two prompts)."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Row:
    """One task in one mode. Rates are over all its runs together, `tokens_per_second_low` and `_high` those of the
    slowest and the fastest run, times to first token and end to end the median, `time_s` and counts sums.
    `same_text`: the share of runs whose text is that of plain at the same prompt and repeat."""

    task: str
    mode: str
    prompts: int
    runs: int
    tokens_per_second: float | None
    tokens_per_second_low: float | None
    tokens_per_second_high: float | None
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    acceptance: float | None
    tokens_per_round: float | None
    tokens: int
    proposed: int
    drafted: int
    accepted: int
    rounds: int
    by_position: tuple[tuple[int, int], ...]
    time_s: Mapping[str, float]
    decode_s: float
    first_token_s: float
    elapsed_s: float
    same_text: float | None


def student_quantile(probability: float, freedom: int) -> float:
    """The quantile of Student's t for 0.5 ≤ probability < 1 and a whole `freedom` ≥ 1.

    With t = √ν·tan θ the distribution becomes F = ½ + Γ((ν+1)/2) / (√π·Γ(ν/2)) · ∫₀^θ cos^(ν−1) u du, a finite
    integral (Abramowitz and Stegun 26.7); it is taken by Simpson's rule and inverted by bisection."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)

    def area(theta: float, steps: int = 400) -> float:
        width = theta / steps
        weights = (1 if i in (0, steps) else 4 if i % 2 else 2 for i in range(steps + 1))
        return width / 3 * sum(w * math.cos(i * width) ** (freedom - 1) for i, w in enumerate(weights))

    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 0.5 + scale * area(middle) < probability else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def speed_up(pairs: Iterable[tuple[str, float, float]]) -> SpeedUp | None:
    """From (prompt id, rate, plain rate) of each repeat: paired t on the log ratios, one per prompt (repeats of a prompt
    are averaged first, as they say nothing about other prompts). None where there is no pair."""
    logs: dict[str, list[float]] = {}
    for name, rate, plain in pairs:
        logs.setdefault(name, []).append(math.log(rate / plain))
    means = [statistics.fmean(values) for values in logs.values()]
    if not means:
        return None
    centre = statistics.fmean(means)
    if len(means) < 2:
        return SpeedUp(math.exp(centre), None, None)
    half = student_quantile(CONFIDENCE, len(means) - 1) * statistics.stdev(means) / math.sqrt(len(means))
    return SpeedUp(math.exp(centre), math.exp(centre - half), math.exp(centre + half))


def added(totals: Iterable[Totals]) -> Totals:
    """Sums over several replies, so that rates and shares of them all follow from the one set of definitions."""
    items = list(totals)
    length = max((len(one.by_position) for one in items), default=0)
    positions = [
        (sum(p[0] for p in column), sum(p[1] for p in column))
        for column in ([one.by_position[i] for one in items if i < len(one.by_position)] for i in range(length))
    ]
    names = (
        "tokens", "first_tokens", "rounds", "spec_rounds", "proposed", "verified", "accepted", "prompt_tokens",
        "reused_tokens", "prompt_s", "first_token_s", "decode_s", "elapsed_s", "draft_s", "verify_s", "sample_s", "python_s",
    )  # fmt: skip
    return Totals(**{name: sum(getattr(one, name) for one in items) for name in names}, by_position=tuple(positions))


def summarise(runs: Sequence[Run], baseline: str = "plain") -> tuple[Row, ...]:
    """A row per task and mode, in the order the runs came in by task and by the order modes first ran."""
    tasks = tuple(dict.fromkeys(run.task for run in runs))
    modes = tuple(dict.fromkeys(run.mode for run in sorted(runs, key=lambda run: run.mode != baseline)))
    plain = {(run.id, run.repeat): run for run in runs if run.mode == baseline}
    rows = []
    for task in tasks:
        for mode in modes:
            group = [run for run in runs if run.task == task and run.mode == mode]
            if group:
                rows.append(_row(group, plain))
    return tuple(rows)


def _row(group: Sequence[Run], plain: Mapping[tuple[str, int], Run]) -> Row:
    total = added(run.totals for run in group)
    rates = [rate for run in group if (rate := run.totals.tokens_per_second)]
    matched = [(run, plain[run.id, run.repeat]) for run in group if (run.id, run.repeat) in plain]
    gain = speed_up(
        (run.id, mine, its)
        for run, base in matched
        if (mine := run.totals.tokens_per_second) and (its := base.totals.tokens_per_second)
    )
    return Row(
        task=group[0].task,
        mode=group[0].mode,
        prompts=len({run.id for run in group}),
        runs=len(group),
        tokens_per_second=total.tokens_per_second,
        tokens_per_second_low=min(rates, default=None),
        tokens_per_second_high=max(rates, default=None),
        speedup=gain.value if gain else None,
        speedup_low=gain.low if gain else None,
        speedup_high=gain.high if gain else None,
        acceptance=total.acceptance,
        tokens_per_round=total.tokens_per_round,
        tokens=total.tokens,
        proposed=total.proposed,
        drafted=total.verified,
        accepted=total.accepted,
        rounds=total.rounds,
        by_position=total.by_position,
        time_s=time_split(total),
        decode_s=total.decode_s,
        first_token_s=statistics.median(run.totals.first_token_s for run in group),
        elapsed_s=statistics.median(run.totals.elapsed_s for run in group),
        same_text=sum(run.text_sha256 == base.text_sha256 for run, base in matched) / len(matched) if matched else None,
    )


def overall(rows: Sequence[Row], mode: str) -> float | None:
    """The speed-up of a mode over all tasks: the geometric mean of the tasks'. None where it has none."""
    values = [row.speedup for row in rows if row.mode == mode and row.speedup]
    return math.exp(statistics.fmean(math.log(value) for value in values)) if values else None


def time_split(totals: Totals) -> dict[str, float]:
    """Where the rounds' time went, in seconds."""
    return {
        "draft": totals.draft_s, "verify": totals.verify_s, "sample": totals.sample_s, "python": totals.python_s,
    }  # fmt: skip


def run_json(run: Run) -> dict[str, Any]:
    """`drafted` are the drafted tokens that the target verified: acceptance is accepted ÷ drafted."""
    totals = run.totals
    return {
        "id": run.id,
        "task": run.task,
        "mode": run.mode,
        "repeat": run.repeat,
        "finish": str(run.finish),
        "tokens": totals.tokens,
        "decode_s": totals.decode_s,
        "tokens_per_second": totals.tokens_per_second,
        "prompt_tokens": totals.prompt_tokens,
        "prompt_s": totals.prompt_s,
        "proposed": totals.proposed,
        "drafted": totals.verified,
        "accepted": totals.accepted,
        "acceptance": totals.acceptance,
        "rounds": totals.rounds,
        "tokens_per_round": totals.tokens_per_round,
        "time_s": time_split(totals),
        "first_token_s": totals.first_token_s,
        "elapsed_s": totals.elapsed_s,
        "by_position": [list(pair) for pair in totals.by_position],
        "text_sha256": run.text_sha256,
    }


def settings_json(plan: Plan) -> dict[str, Any]:
    """What was asked for, file names without their folders (a report is for showing to others)."""
    return {
        "modes": [mode.label for mode in plan.modes],
        "tasks": list(dict.fromkeys(prompt.task for prompt in plan.prompts)),
        "prompts": len(plan.prompts),
        "repeats": plan.repeats,
        "warm_ups": plan.warm_ups,
        "max_tokens": plan.max_tokens,
        "sampling": asdict(plan.sampling),
        "engine": asdict(plan.load.settings),
    }


def to_json(plan: Plan, result: Result, machine: Mapping[str, Any]) -> dict[str, Any]:
    """The whole report. `machine` describes where it ran (see `machine.describe`)."""
    loaded = result.loaded
    models = {"target": loaded.target, "draft": loaded.draft}
    environment = {
        **machine,
        "models": {role: {**asdict(model), "path": _file(model.path)} for role, model in models.items() if model},
        "drafters": list(loaded.drafters),
        "devices": [asdict(device) for device in loaded.devices],
        "threads": loaded.threads,
        "n_ctx": loaded.n_ctx,
        "load_s": loaded.load_s,
        "memory_bytes": dict(loaded.memory_bytes),
        "settings": settings_json(plan),
        "started_at": result.started_at,
        "elapsed_s": result.elapsed_s,
        "cancelled": result.cancelled,
        "failures": [asdict(failure) for failure in result.failures],
    }
    summary = [{**asdict(row), "by_position": [list(p) for p in row.by_position]} for row in summarise(result.runs)]
    return {"environment": environment, "runs": [run_json(run) for run in result.runs], "summary": summary}


def _file(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1]


def table(rows: Sequence[Row]) -> str:
    """The summary as text, a block for each task and one for all of them."""
    lines: list[str] = []
    for task in dict.fromkeys(row.task for row in rows):
        mine = [row for row in rows if row.task == task]
        count = max(row.prompts for row in mine)
        lines += [f"{task} ({count} {'prompt' if count == 1 else 'prompts'})", _HEAD]
        lines += [_line(row) for row in mine] + [""]
        lines += [_positions(row) for row in mine if row.by_position] + [""]
    lines.append("speed-up over all tasks (geometric mean)")
    for mode in dict.fromkeys(row.mode for row in rows):
        gain = overall(rows, mode)
        lines.append(f"  {mode:<12} {_number(gain, 2)}")
    lines += ["", "95 % ≥ and ≤: one-sided bounds of the speed-up, from the paired runs of each prompt."]
    return "\n".join(lines)


_HEAD = (
    f"  {'mode':<12} {'tokens/s':>8} {'speed-up':>8} {'95 % ≥':>7} {'95 % ≤':>7} {'kept':>6} {'tok/round':>9} "
    f"{'draft':>6} {'verify':>6} {'sample':>6} {'python':>6} {'first s':>8} {'whole s':>8}"
)


def _line(row: Row) -> str:
    whole = sum(row.time_s.values())
    split = " ".join(f"{_percent(seconds / whole if whole else None):>6}" for seconds in row.time_s.values())
    return (
        f"  {row.mode:<12} {_number(row.tokens_per_second, 2):>8} {_number(row.speedup, 2):>8} "
        f"{_number(row.speedup_low, 2):>7} {_number(row.speedup_high, 2):>7} {_percent(row.acceptance):>6} "
        f"{_number(row.tokens_per_round, 2):>9} {split} {row.first_token_s:>8.2f} {row.elapsed_s:>8.2f}"
    )


def _positions(row: Row) -> str:
    """Of the guesses that were reached at each position, the share that was kept."""
    kept = " ".join(f"{_percent(accepted / seen if seen else None):>5}" for seen, accepted in row.by_position)
    return f"  {row.mode:<12} kept by position: {kept}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.0f} %"
