"""What is kept of a pair between runs, as plain JSON. Anything unreadable in it is dropped, never trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

VERSION = 1
_MOST_CELLS = 400
_MOST_READINGS = 32


@dataclass(frozen=True)
class DrafterRecord:
    """One drafter of the pair. Readings in units (plain steps); `seen` and `ahead` are the calibration's weights."""

    name: str
    step: tuple[float, ...] = ()
    block: tuple[float, ...] = ()
    catch_up: tuple[tuple[int, tuple[float, ...]], ...] = ()  # (bit length of the count, units a token)
    seen: tuple[float, ...] = ()
    ahead: tuple[float, ...] = ()
    usual: float = 0.85
    labels: int = 0
    rounds: int = 0
    net: float = 0.0
    interval: int = 16
    paused: bool = False


@dataclass(frozen=True)
class PaceRecord:
    """Measured costs and calibration of one pair on one device with one thread count. Empty by default."""

    level_s: float = 0.0  # seconds per unit when it was written
    rows: tuple[tuple[int, int, tuple[float, ...]], ...] = ()  # (depth bin, rows, readings in units)
    plain_python: tuple[float, ...] = ()
    spec_python: tuple[float, ...] = ()
    sample_row: tuple[float, ...] = ()
    roll_back: float = 0.0
    drafters: tuple[DrafterRecord, ...] = ()
    reply_tokens: float = 0.0  # typical length of a reply; 0 not known
    savings: float = 4.0

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "level_s": self.level_s,
            "rows": [[where, many, list(readings)] for where, many, readings in self.rows],
            "plain_python": list(self.plain_python),
            "spec_python": list(self.spec_python),
            "sample_row": list(self.sample_row),
            "roll_back": self.roll_back,
            "reply_tokens": self.reply_tokens,
            "savings": self.savings,
            "drafters": [
                {
                    "name": each.name,
                    "step": list(each.step),
                    "block": list(each.block),
                    "catch_up": [[size, list(readings)] for size, readings in each.catch_up],
                    "seen": list(each.seen),
                    "ahead": list(each.ahead),
                    "usual": each.usual,
                    "labels": each.labels,
                    "rounds": each.rounds,
                    "net": each.net,
                    "interval": each.interval,
                    "paused": each.paused,
                }
                for each in self.drafters
            ],
        }

    @classmethod
    def from_json(cls, data: object) -> PaceRecord:
        """Read what `to_json` wrote. A damaged part counts as not recorded; another version or no dict at all
        gives an empty record. Raises nothing."""
        if not isinstance(data, dict) or data.get("version") != VERSION:
            return cls()
        level_s = _number(data.get("level_s"), 0.0, 1e-6, 3600.0)
        rows = []
        for item in _list(data.get("rows"))[:_MOST_CELLS]:
            if isinstance(item, list) and len(item) == 3:
                where, many, readings = _whole(item[0], -1), _whole(item[1], 0), _readings(item[2])
                if 0 <= where < 64 and 2 <= many <= 4096 and readings and min(readings) > 0:
                    rows.append((where, many, readings))
        if level_s <= 0:
            rows = []
        drafters = [_drafter(item) for item in _list(data.get("drafters"))[:16]]
        return cls(
            level_s=level_s,
            rows=tuple(rows),
            plain_python=_readings(data.get("plain_python")),
            spec_python=_readings(data.get("spec_python")),
            sample_row=_readings(data.get("sample_row")),
            roll_back=_number(data.get("roll_back"), 0.0, 0.0, 100.0),
            drafters=tuple(each for each in drafters if each is not None),
            reply_tokens=_number(data.get("reply_tokens"), 0.0, 0.0, 1e6),
            savings=_number(data.get("savings"), 4.0, -1e4, 500.0),
        )


def _drafter(item: object) -> DrafterRecord | None:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"]:
        return None
    catch_up = []
    for pair in _list(item.get("catch_up"))[:32]:
        if isinstance(pair, list) and len(pair) == 2:
            size, readings = _whole(pair[0], 0), _readings(pair[1])
            if 1 <= size <= 40 and readings:
                catch_up.append((size, readings))
    return DrafterRecord(
        name=item["name"][:100],
        step=_readings(item.get("step")),
        block=_readings(item.get("block")),
        catch_up=tuple(catch_up),
        seen=_weights(item.get("seen")),
        ahead=_weights(item.get("ahead")),
        usual=_number(item.get("usual"), 0.85, -4.0, 4.0),
        labels=max(_whole(item.get("labels"), 0), 0),
        rounds=max(_whole(item.get("rounds"), 0), 0),
        net=_number(item.get("net"), 0.0, -1e3, 1e3),
        interval=min(max(_whole(item.get("interval"), 16), 16), 1 << 16),
        paused=item.get("paused") is True,
    )


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: object, default: float, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return default
    if isinstance(value, int) and abs(value) > 1 << 60:
        return default
    number = float(value)
    return number if math.isfinite(number) and low <= number <= high else default


def _whole(value: object, default: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 1 << 60:
        return default
    return value


def _readings(value: object) -> tuple[float, ...]:
    """Costs in units: finite, not negative. One bad reading voids the list."""
    items = _list(value)[-_MOST_READINGS:]
    numbers = tuple(_number(item, -1.0, 0.0, 1e6) for item in items)
    return () if any(number < 0 for number in numbers) else numbers


def _weights(value: object) -> tuple[float, ...]:
    items = _list(value)
    if len(items) > 64:
        return ()
    numbers = tuple(_number(item, math.nan, -1e3, 1e3) for item in items)
    return () if any(math.isnan(number) for number in numbers) else numbers
