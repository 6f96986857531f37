"""Drafting methods, one file each. A new one is a file and a line in `MAKERS`."""

from __future__ import annotations

from collections.abc import Callable

from slipstream.engine.drafters import model, ngram
from slipstream.engine.drafters.base import Draft, Drafter, Parts, Steering

# each makes its drafter from the parts of a loaded pair, or None where the pair lacks what it needs
MAKERS: tuple[Callable[[Parts], Drafter | None], ...] = (ngram.make, model.make)

__all__ = ["MAKERS", "Draft", "Drafter", "Parts", "Steering"]
