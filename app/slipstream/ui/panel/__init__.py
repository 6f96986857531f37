"""The Slipstream panel: instruments on the right of the chat."""

from __future__ import annotations

from slipstream.ui.panel.panel import SlipstreamPanel
from slipstream.ui.panel.verdict import Kind, Verdict
from slipstream.ui.panel.view import Choice, PairState, PairView, choice

__all__ = ["Choice", "Kind", "PairState", "PairView", "SlipstreamPanel", "Verdict", "choice"]
