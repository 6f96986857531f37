"""What the pair card shows, as data. No Qt."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath

from slipstream.domain.protocol import ModelInfo

_QUANT = re.compile(r"(?<![A-Za-z0-9])((?:I?Q\d\w*)|BF16|F16|F32|MXFP4\w*)(?![A-Za-z0-9])", re.IGNORECASE)


class PairState(StrEnum):
    NONE = "none"  # nothing chosen, or a target without a draft
    CHECKING = "checking"
    COMPATIBLE = "compatible"
    MISMATCH = "mismatch"  # `reason` says which rule failed
    LOADING = "loading"  # `fraction` of the load is done
    FAILED = "failed"  # `reason` says what happened


@dataclass(frozen=True)
class Choice:
    """A chosen model: its file, and what is known of it (`size_bytes` 0: not known yet)."""

    path: str
    title: str = ""
    size_bytes: int = 0
    info: ModelInfo | None = None

    @property
    def name(self) -> str:
        """How it is called: its own name, the library's title, else the file's name without the quantisation."""
        found = (self.info.name if self.info else "") or self.title
        return found or PurePath(self.path).name.removesuffix(".gguf")

    @property
    def size(self) -> int:
        return self.info.size_bytes if self.info else self.size_bytes

    @property
    def quant(self) -> str:
        """The quantisation, as the file's name or the model's description says it; empty where neither does."""
        for text in (PurePath(self.path).stem, self.info.description if self.info else "", self.title):
            found = _QUANT.search(text)
            if found:
                return found[1].upper()
        return ""


@dataclass(frozen=True)
class PairView:
    """The pair card. `reason` is a sentence for a state that needs one; `checks` are the lines "Why?" lists, each
    with whether it holds; `stage` as in `LoadProgress`."""

    target: Choice | None = None
    draft: Choice | None = None
    state: PairState = PairState.NONE
    reason: str = ""
    checks: tuple[tuple[bool, str], ...] = ()
    fraction: float = 0.0
    stage: str = ""
    loaded: bool = False
    drafters: tuple[str, ...] = ()


def choice(info: ModelInfo | None) -> Choice | None:
    """The choice a loaded model stands for."""
    return Choice(info.path, info.name, info.size_bytes, info) if info else None


def times_smaller(target: ModelInfo, draft: ModelInfo) -> float | None:
    """How many times fewer weights the draft has; None where a count is unknown."""
    return target.n_params / draft.n_params if target.n_params > 0 and draft.n_params > 0 else None
