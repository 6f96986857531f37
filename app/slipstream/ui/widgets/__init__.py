"""Painted instruments and small controls, each usable by itself."""

from __future__ import annotations

from slipstream.ui.widgets.bars import Legend, Segment, StackedBar
from slipstream.ui.widgets.buttons import IconButton, Switch
from slipstream.ui.widgets.chips import Badge, label
from slipstream.ui.widgets.gauge import Gauge, GaugeState, Tone
from slipstream.ui.widgets.motion import Glide, Motion, Pacer
from slipstream.ui.widgets.segmented import Segmented
from slipstream.ui.widgets.sparkline import Sparkline
from slipstream.ui.widgets.tape import RoundsTape

__all__ = [
    "Badge",
    "Gauge",
    "GaugeState",
    "Glide",
    "IconButton",
    "Legend",
    "Motion",
    "Pacer",
    "RoundsTape",
    "Segment",
    "Segmented",
    "Sparkline",
    "StackedBar",
    "Switch",
    "Tone",
    "label",
]
