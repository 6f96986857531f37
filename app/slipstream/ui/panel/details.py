"""The instruments under "Details": rounds, the last minute, where the time goes, memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from slipstream.domain.protocol import DeviceInfo, Loaded
from slipstream.domain.rounds import Totals
from slipstream.ui.panel.verdict import gib, memory_size, percent, three
from slipstream.ui.theme import px
from slipstream.ui.widgets.bars import Legend, Segment, StackedBar
from slipstream.ui.widgets.chips import label
from slipstream.ui.widgets.sparkline import Sparkline
from slipstream.ui.widgets.tape import RoundsTape


def _tr(text: str) -> str:
    return QCoreApplication.translate("Details", text)


class Details(QWidget):
    """Pure display: the panel hands it everything."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "window")
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 4, 0, 16)
        self.setFixedWidth(px(320))  # the scroll bar stands in the panel's right margin
        column.setSpacing(16)
        self._mean, self.tape = label(role="secondary", tone="1"), RoundsTape()
        self._plain, self.sparkline = label(role="caption", tone="2"), Sparkline()
        self._round, self.time_bar, self.time_legend = label(role="secondary", tone="1"), StackedBar(), Legend(2)
        self._memory, self.memory_bar = label(role="secondary", tone="1"), StackedBar()
        self.memory_legend = Legend(2)
        _section(column, _tr("Tokens per round"), self._mean, self.tape)
        _section(column, _tr("Last 60 s"), self._plain, self.sparkline)
        _section(column, _tr("Time per round"), self._round, self.time_bar, self.time_legend)
        self._memory_title = _section(column, _tr("Memory"), self._memory, self.memory_bar, self.memory_legend)
        column.addStretch(1)
        self.tape.setAccessibleDescription(_tr("Each column is a round: the target's token, kept and dropped guesses"))
        self.show_totals(None, None, False, None)
        self.show_memory({}, ())

    def show_totals(self, totals: Totals | None, length: float | None, auto: bool, plain: float | None) -> None:
        """`length`: mean draft length of the latest rounds in tokens; `plain`: tokens/s of the target alone."""
        mean = totals.tokens_per_round if totals else None
        parts = [_tr("mean {mean}").format(mean=three(mean))] if mean is not None else []
        if length is not None:
            words = _tr("draft length {length} auto") if auto else _tr("draft length {length}")
            parts.append(words.format(length=f"{length:.0f}" if length == int(length) else f"{length:.1f}"))
        self._mean.setText(" · ".join(parts))
        self.tape.setAccessibleName(", ".join([_tr("Tokens per round"), *parts]))
        self._plain.setText(_tr("- - plain {rate}").format(rate=three(plain)) if plain else "")
        self.sparkline.setAccessibleName(_tr("Speed over the last minute"))
        self._show_time(totals)

    def _show_time(self, totals: Totals | None) -> None:
        parts = time_parts(totals)
        self._round.setText(
            _tr("{time} ms").format(time=three(sum(part.value for part in parts) * 1000)) if parts else "–"
        )
        self.time_bar.show_segments(_tr("Time per round"), parts)
        self.time_legend.show_segments(parts or time_parts(Totals(rounds=1, verify_s=0.0), empty=True))

    def show_memory(self, memory_bytes: Mapping[str, int], devices: Sequence[DeviceInfo]) -> None:
        """`memory_bytes` as in `Loaded`; the capacity is that of the first GPU, else of the computer."""
        device = next((one for one in devices if one.kind in ("gpu", "igpu")), None)
        device = device or next(iter(devices), None)
        capacity = device.total_bytes if device else 0
        parts = memory_parts(memory_bytes, capacity)
        used = sum(memory_bytes.values())
        on_gpu = device is not None and device.kind in ("gpu", "igpu")
        self._memory_title.setText(_tr("GPU memory") if on_gpu else _tr("Memory"))
        if not memory_bytes:
            self._memory.setText("–")
        elif capacity:
            self._memory.setText(_tr("{used} of {total} GiB").format(used=gib(used), total=gib(capacity)))
        else:
            self._memory.setText(memory_size(used))
        self.memory_bar.show_segments(_tr("Memory"), parts, float(capacity))
        # the heading names the unit; here only figures fit beside the names
        self.memory_legend.show_segments([replace(part, text=gib(part.value)) for part in parts])
        self.memory_legend.setVisible(bool(parts))

    def show_loaded(self, loaded: Loaded) -> None:
        self.show_memory(loaded.memory_bytes, loaded.devices)


def time_parts(totals: Totals | None, *, empty: bool = False) -> list[Segment]:
    """Mean seconds a round spends on each kind of work; empty before the first round unless `empty` is asked for."""
    if totals is None or totals.rounds == 0:
        return []
    shares = (totals.draft_s, totals.verify_s, totals.sample_s, totals.python_s)
    whole = sum(shares)
    if whole <= 0 and not empty:
        return []
    names = (
        (_tr("draft"), "accent", "", True),
        (_tr("verify"), "target", "", False),
        (_tr("sample"), "neutral.a", "", False),
        (_tr("Python"), "neutral.b", "\\", False),
    )
    return [
        Segment(
            name,
            share / totals.rounds,
            _tr("{share} %").format(share=percent(share / whole)) if whole > 0 else "–",
            token,
            hatched,
            round_key,
        )
        for share, (name, token, hatched, round_key) in zip(shares, names, strict=True)
    ]


def memory_parts(memory_bytes: Mapping[str, int], capacity_bytes: int) -> list[Segment]:
    """The bar of memory in its fixed order, what is free at the end."""
    known = {
        "target weights": (_tr("target weights"), "target", "", False),
        "target KV": (_tr("target KV"), "kv.target", "/", False),
        "draft weights": (_tr("draft weights"), "accent", "", True),
        "draft KV": (_tr("draft KV"), "kv.draft", "/", True),
        "compute": (_tr("compute"), "neutral.a", "", False),
        "output": (_tr("output"), "neutral.b", "\\", False),
    }
    order = [*known, *(name for name in memory_bytes if name not in known)]
    parts = []
    for name in order:
        size = memory_bytes.get(name, 0)
        if size > 0:
            title, token, hatched, round_key = known.get(name, (name, "neutral.b", "\\", False))
            parts.append(Segment(title, float(size), memory_size(size), token, hatched, round_key))
    free = capacity_bytes - sum(memory_bytes.values())
    if parts and free > 0:
        parts.append(Segment(_tr("free"), float(free), memory_size(free), "track", "o"))
    return parts


def _section(column: QVBoxLayout, title: str, right: QLabel, *widgets: QWidget) -> QLabel:
    box = QVBoxLayout()
    box.setSpacing(4)
    head = QHBoxLayout()
    name = label(title, "secondary")
    head.addWidget(name)
    head.addStretch(1)
    head.addWidget(right)
    box.addLayout(head)
    for widget in widgets:
        box.addWidget(widget)
    column.addLayout(box)
    return name
