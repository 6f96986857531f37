"""What the panel's pair card shows while a pair is on its way."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.store.library import LocalModel
from slipstream.ui.pair import PairControl
from slipstream.ui.panel import Choice, PairState, PairView


def pair_view(pair: PairControl, models: Sequence[LocalModel]) -> PairView:
    """The card of a pair that is loading. Sizes come from `models`, where they list it."""
    target, draft = _chosen(pair.target, models), _chosen(pair.draft, models)
    return PairView(target, draft, PairState.LOADING, fraction=pair.fraction, stage=pair.stage)


def _chosen(path: str, models: Sequence[LocalModel]) -> Choice | None:
    if not path:
        return None
    found = next((model for model in models if str(model.path) == path), None)
    return Choice(path, size_bytes=found.size_bytes if found else 0)
