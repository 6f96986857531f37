"""What the panel's pair card shows of the pair's state."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication

from slipstream.domain.protocol import Loaded
from slipstream.store.library import LocalModel
from slipstream.ui.pair import PairControl
from slipstream.ui.panel.view import Choice, PairState, PairView, choice, times_smaller


def pair_view(pair: PairControl, models: Sequence[LocalModel]) -> PairView:
    """The card for the present state. Names and sizes come from the loaded models, else from `models`."""
    info = pair.info
    target = choice(info.target) if info else _chosen(pair.target, models)
    draft = choice(info.draft) if info else _chosen(pair.draft, models)
    reason = pair.error.sentence() if pair.error else ""
    if pair.state == "loading":
        return PairView(target, draft, PairState.LOADING, fraction=pair.fraction, stage=pair.stage)
    if pair.state == "ready" and info is not None:
        state = PairState.COMPATIBLE if info.draft else PairState.NONE
        return PairView(target, draft, state, checks=_checks(info), loaded=True, drafters=info.drafters)
    if pair.state in ("refused", "gone"):
        mismatch = pair.error is not None and pair.error.kind == "PairMismatch"
        return PairView(target, draft, PairState.MISMATCH if mismatch else PairState.FAILED, reason)
    return PairView(target, draft)


def _chosen(path: str, models: Sequence[LocalModel]) -> Choice | None:
    if not path:
        return None
    found = next((model for model in models if str(model.path) == path), None)
    return Choice(path, size_bytes=found.size_bytes if found else 0)


def _checks(info: Loaded) -> tuple[tuple[bool, str], ...]:
    """Why a loaded pair fits, in words: the engine has checked it, these are its figures."""
    if info.draft is None:
        return ()
    both, one = info.target.n_vocab, info.draft.n_vocab
    if both == one:
        words = QCoreApplication.translate("pair", "Both know the same {0} tokens").format(f"{both:,}")
    else:
        words = QCoreApplication.translate("pair", "The tokens they share have the same text and number")
    checks = [(True, words)]
    factor = times_smaller(info.target, info.draft)
    if factor is not None:
        words = QCoreApplication.translate("pair", "The draft has {0}× fewer weights to read")
        checks.append((factor > 1, words.format(f"{factor:.1f}" if factor < 10 else f"{factor:.0f}")))
    return tuple(checks)
