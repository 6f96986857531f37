"""What a round costs, as measured.

Everything is kept in *units*: seconds divided by the level, the present time of a plain one-row decode. The level
follows context depth and whatever else slows the whole machine (heat, other programs); the ratios of one cost to
another, on which all decisions rest, hardly move with it. Only plain steps set the level: were it inferred from
speculative rounds too, a wrong ratio could pass for a slow machine and never be found out. When those rounds come out
unlike what was expected, `surprised` asks for a plain step instead.

Ratios are never fitted by a curve: real ones are jagged. What was not measured is taken to be dear.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping

DEPTH_BINS = 9
_CHANGED = 1.15
_CONTRADICTED = 1.35
_SURPRISES = 3
_UNLIKE = 0.12
_PENDING = 256
_SETTLED = 5  # plain steps that settle the level
_UNKNOWN_STEP = 0.5  # units: a draft step nobody has timed yet
_CATCH_UP_SHARE = 0.25  # of a draft step, per token fed: measured 0.24 on a CPU, far less on a GPU


class Robust:
    """A running mean that two slow readings in five cannot move: the mean of the middle fifth of the last readings.

    Three readings in a row that are all well off it show a change, not a disturbance: older ones are dropped then.
    """

    __slots__ = ("_readings", "hearsay", "value")

    def __init__(self, window: int = 15, readings: Iterable[float] = (), hearsay: bool = False) -> None:
        self._readings: deque[float] = deque(readings, maxlen=window)
        self.value: float | None = None
        self.hearsay = hearsay and bool(self._readings)  # from a record, not yet borne out by a reading of this run
        self._settle()

    def __len__(self) -> int:
        return len(self._readings)

    @property
    def readings(self) -> tuple[float, ...]:
        return tuple(self._readings)

    def add(self, reading: float) -> None:
        if self.hearsay:
            self.hearsay = False
            if self.value is not None and not self.value / _CONTRADICTED <= reading <= self.value * _CONTRADICTED:
                self._readings.clear()
                self.value = None
        self._readings.append(reading)
        if self.value is not None and len(self._readings) > 3 and self.value > 0:
            late = (self._readings[-1], self._readings[-2], self._readings[-3])
            if min(late) > _CHANGED * self.value or max(late) * _CHANGED < self.value:
                self._readings = deque(late[::-1], maxlen=self._readings.maxlen)
        self._settle()

    def clear(self) -> None:
        self._readings.clear()
        self.hearsay = False
        self.value = None

    def _settle(self) -> None:
        count = len(self._readings)
        if count < 3:  # disturbances only ever add time, so of two readings the lower is nearer
            self.value = min(self._readings) if count else None
            return
        ordered = sorted(self._readings)
        cut = max(2 * count // 5, 1)
        middle = ordered[cut : count - cut]
        self.value = sum(middle) / len(middle)


def depth_bin(depth: int) -> int:
    """0 below 1024 tokens of context, then one bin per doubling."""
    return min((max(depth, 0) >> 10).bit_length(), DEPTH_BINS - 1)


def _sound(seconds: float) -> bool:
    return math.isfinite(seconds) and seconds >= 0


class DraftCosts:
    """What one drafter costs, in units: a step per token or a call for a whole block, and feeding it what it missed."""

    def __init__(self) -> None:
        self.step = Robust()
        self.block = Robust()
        self.catch_up: dict[int, Robust] = {}  # by bit length of the count: few tokens cost more each than many

    def draft(self, k: int, *, block: bool, free: bool) -> float:
        """Units to draft k tokens."""
        if free or k <= 0:
            return 0.0
        if block:
            return self.block.value if self.block.value is not None else 2 * _UNKNOWN_STEP
        return k * self.per_step

    @property
    def per_step(self) -> float:
        return self.step.value if self.step.value is not None else _UNKNOWN_STEP

    def feed(self, tokens: int) -> float:
        """Units to feed the drafter `tokens` tokens it has not seen."""
        if tokens <= 0:
            return 0.0
        if not self.catch_up:
            return tokens * _CATCH_UP_SHARE * self.per_step
        size = tokens.bit_length()
        nearest = min(self.catch_up, key=lambda known: (abs(known - size), known))
        each = self.catch_up[nearest].value or 0.0
        return tokens * each

    def fed(self, tokens: int) -> Robust:
        """Where readings of feeding `tokens` tokens go, in units a token."""
        return self.catch_up.setdefault(tokens.bit_length(), Robust(7))


class Costs:
    """T_V(m) by rows and context depth, what goes with it, and the level that turns units into seconds."""

    def __init__(self, max_rows: int) -> None:
        self.max_rows = max_rows
        self.level_s = 0.0
        self._level = Robust()
        self._count: dict[int, int] = {}
        self._contradictions = 0
        self._surprises: deque[float] = deque(maxlen=_SURPRISES)
        self.surprised = False  # have the last speculative rounds all come out unlike what was known?
        self._rows: dict[tuple[int, int], Robust] = {}  # (depth bin, rows) → units
        self.settled = False
        self._raw: list[tuple[Robust, float]] = []  # (cell, seconds) while the level is not settled
        self._curves: dict[int, list[float]] = {}  # by depth bin; redrawn when asked for after a reading
        self._known: dict[int, dict[int, float | None]] = {}  # what they are drawn from: rows → units
        self._readings: dict[int, int] = {}  # rows → readings kept, at any depth
        self.plain_python = Robust()
        self.spec_python = Robust()
        self.sample_row = Robust()
        self.roll_back = 0.0  # a true mean: it is rare and large, a median would miss it
        self.drafters: dict[str, DraftCosts] = {}

    # ------------------------------------------------------------ learning

    def observe_rows(self, rows: int, depth: int, seconds: float) -> None:
        """One target decode of `rows` rows took `seconds`."""
        if rows < 1 or not _sound(seconds) or seconds == 0:
            return
        self._count[rows] = self._count.get(rows, 0) + 1
        if rows == 1:
            self._level.add(seconds)
            self.level_s = self._level.value or seconds
            self._surprises.clear()
            self.surprised = False
            if not self.settled:
                self._rebuild()
            return
        where = depth_bin(depth)
        cell = self._rows.setdefault((where, rows), Robust())
        known = self._measured(where, rows) if self.settled else None
        if known:
            self._surprises.append(seconds / self.level_s / known)
            if len(self._surprises) == _SURPRISES:
                late = sorted(self._surprises)
                # all the same way: three of them in one cell would also make that cell forget its past
                self.surprised = self.surprised or late[-1] < 1 - _UNLIKE or late[0] > 1 + _UNLIKE
        contradicted = cell.hearsay and cell.value and seconds / self.level_s > _CONTRADICTED * cell.value
        self.book(cell, seconds)
        if contradicted:
            self._contradictions += 1
            if self._contradictions >= 2:  # the record is of another machine, or of other settings
                for other in self._rows.values():
                    if other.hearsay:
                        other.clear()
            self._forget_curves()
        self._readings[rows] = self._readings.get(rows, 0) + 1
        for bin_, known_here in self._known.items():
            known_here[rows] = self._measured(bin_, rows)
        self._curves.clear()

    def _forget_curves(self) -> None:
        self._curves.clear()
        self._known.clear()
        self._readings.clear()
        for (_, rows), cell in self._rows.items():
            self._readings[rows] = self._readings.get(rows, 0) + len(cell)

    def book(self, cell: Robust, seconds: float) -> None:
        """A reading in seconds for a cell in units."""
        if not self.settled and len(self._raw) < _PENDING:
            self._raw.append((cell, seconds))
        if self.known:
            cell.add(seconds / self.level_s)

    def _rebuild(self) -> None:
        """Until a few plain steps were timed the level is in doubt, so readings in units are made anew with each."""
        for each in {id(cell): cell for cell, _ in self._raw}.values():
            each.clear()
        for each, seconds in self._raw:
            each.add(seconds / self.level_s)
        self._forget_curves()
        if len(self._level) >= _SETTLED:
            self.settled = True
            self._raw.clear()

    def observe_overheads(self, plain: bool, python_s: float, sample_s: float, sampled_rows: int) -> None:
        if not (_sound(python_s) and _sound(sample_s)):
            return
        self.book(self.plain_python if plain else self.spec_python, python_s)
        self.book(self.sample_row, sample_s / max(sampled_rows, 1))

    def observe_roll_back(self, seconds: float) -> None:
        if self.level_s <= 0 or not _sound(seconds):
            return
        units = seconds / self.level_s
        if self.roll_back > 0:
            units = min(units, 4 * self.roll_back + 0.5)
        self.roll_back += 0.1 * (units - self.roll_back)

    def drafter(self, name: str) -> DraftCosts:
        found = self.drafters.get(name)
        if found is None:
            found = self.drafters[name] = DraftCosts()
        return found

    # ------------------------------------------------------------ asking

    @property
    def known(self) -> bool:
        """Has a plain step been timed?"""
        return self.level_s > 0

    def count(self, rows: int) -> int:
        """How often `rows` rows were timed in this run, at any depth."""
        return self._count.get(rows, 0)

    def measured(self, rows: int) -> bool:
        """Are `rows` rows known otherwise than by their neighbours?"""
        return rows == 1 or any(many == rows and len(cell) for (_, many), cell in self._rows.items())

    def hopeful(self, depth: int) -> list[float]:
        """The curve with every row count not measured taken to cost no more than the next fewer that was."""
        out = list(self.curve(depth))
        known = {many for (_, many), cell in self._rows.items() if len(cell)}
        for rows in range(2, len(out)):
            if rows not in known:
                out[rows] = min(out[rows], out[rows - 1])
        return out

    def _measured(self, where: int, rows: int) -> float | None:
        """Units for `rows` rows at this depth, or at the nearest depth where they were measured better."""
        own = self._rows.get((where, rows))
        if own is not None and len(own) >= 3:
            return own.value
        best = own
        for away in range(1, DEPTH_BINS):
            for other in (where - away, where + away):
                cell = self._rows.get((other, rows))
                if cell is not None and (best is None or len(cell) > len(best)):
                    best = cell
            if best is not None and len(best) >= 3:
                break
        return best.value if best is not None else None

    def curve(self, depth: int) -> list[float]:
        """Units for m rows, m = 0 (unused) .. max_rows, at this depth."""
        where = depth_bin(depth)
        found = self._curves.get(where)
        if found is None:
            found = self._curves[where] = self._draw_curve(where)
        return found

    def _draw_curve(self, where: int) -> list[float]:
        measured = self._known.get(where)
        if measured is None:
            measured = self._known[where] = {rows: self._measured(where, rows) for _, rows in self._rows}
        known = sorted((rows, units) for rows, units in measured.items() if units is not None)
        bound = math.inf
        for index in range(len(known) - 1, -1, -1):
            rows, units = known[index]
            if rows > 1 and self._readings.get(rows, 0) < 3:  # read too seldom to be believed dearer than more rows are
                known[index] = (rows, units := min(units, bound))
            bound = min(bound, units)
        known.insert(0, (1, 1.0))
        curve = [0.0] * (self.max_rows + 1)
        index = 0
        for rows in range(1, self.max_rows + 1):
            while index + 1 < len(known) and known[index + 1][0] <= rows:
                index += 1
            low, low_units = known[index]
            if low == rows:
                curve[rows] = low_units
            elif index + 1 < len(known):
                high, high_units = known[index + 1]
                between = low_units + (high_units - low_units) * (rows - low) / (high - low)
                # a step may lie anywhere between: halfway from the straight line to the dearer end
                curve[rows] = (between + max(low_units, high_units)) / 2
            else:
                curve[rows] = low_units * rows / low  # beyond all measured: no gain from batching assumed
        return curve

    def plain(self) -> float:
        """Units of a plain step with its sampling and Python's share."""
        return 1.0 + (self.plain_python.value or 0.0) + (self.sample_row.value or 0.0)

    @property
    def spec_overhead(self) -> float:
        """Units a speculative round adds whatever its length."""
        python = self.spec_python.value if self.spec_python.value is not None else self.plain_python.value
        return (python or 0.0) + self.roll_back

    @property
    def per_sampled_row(self) -> float:
        return self.sample_row.value or 0.0

    # ------------------------------------------------------------ keeping

    def rows_record(self) -> tuple[tuple[int, int, tuple[float, ...]], ...]:
        """(depth bin, rows, latest readings in units)."""
        return tuple((bin_, rows, cell.readings[-7:]) for (bin_, rows), cell in sorted(self._rows.items()))

    def restore(self, level_s: float, rows: Iterable[tuple[int, int, tuple[float, ...]]]) -> None:
        if level_s <= 0:
            return
        self._level = Robust(readings=[level_s] * 3, hearsay=True)
        self.level_s = level_s
        self.settled = True
        self._count[1] = 3
        for bin_, many, readings in rows:
            self._rows[bin_, many] = Robust(readings=readings, hearsay=True)
        self._forget_curves()


def restore_catch_up(costs: DraftCosts, sizes: Mapping[int, tuple[float, ...]]) -> None:
    """Put recorded catch-up costs (by bit length of the count, units a token) back."""
    for size, readings in sizes.items():
        costs.catch_up[size] = Robust(7, readings, hearsay=True)
