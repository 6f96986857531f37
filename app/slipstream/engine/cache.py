"""A context together with the tokens it holds, and how each kind of memory goes back.

| memory | going back |
|---|---|
| full attention | trim |
| sliding window | trim, where the window's older cells are still there |
| recurrent or hybrid with snapshots | trim by at most `n_rollback`, once per decode |
| other recurrent or hybrid | snapshot before, restore and decode again what was kept |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from slipstream.domain import errors
from slipstream.llama.context import Context

CHUNK = 512


class Memory(StrEnum):
    FULL = "full"
    WINDOW = "window"
    SNAPSHOTS = "snapshots"
    CHECKPOINT = "checkpoint"


class Cache:
    """The invariant on every way out of a method, errors included: the context holds exactly `tokens`."""

    def __init__(self, context: Context, *, stepwise: bool = False) -> None:
        """`stepwise`: tokens are decoded one at a time and taken back together (drafts), which llama.cpp's
        snapshots, made within one decode, can't serve."""
        self.context = context
        self.tokens: list[int] = []
        self.n_ctx = context.n_ctx
        model = context.model
        if model.recurrent:
            self.memory = Memory.SNAPSHOTS if context.n_rollback and not stepwise else Memory.CHECKPOINT
        else:
            self.memory = Memory.WINDOW if model.n_swa > 0 else Memory.FULL
        self._window = model.n_swa
        self._mark: tuple[int, bytes] | None = None
        # tokens of the last decode: llama.cpp keeps a snapshot after each but the first, and says yes to more than
        # that with a wrong state (seen with llama_memory_seq_rm after one-token decodes)
        self._fresh = 0

    def __len__(self) -> int:
        return len(self.tokens)

    def decode(self, tokens: Sequence[int], outputs: int) -> None:
        """Decode after what is held. At most one batch. Raises what Context.decode raises, with the cache trimmed
        back to what it held (or emptied where its memory can't)."""
        if self.context.aborted:
            raise errors.Cancelled("Stopped.")
        held = len(self.tokens)
        if held + len(tokens) > self.n_ctx:
            raise errors.ContextFull("The context is full.", "Start a new chat or choose a longer context.")
        try:
            self.context.decode(tokens, held, outputs)
        except errors.SlipstreamError:
            self._undo(held)
            raise
        self.tokens.extend(tokens)
        self._fresh = len(tokens)

    def feed(self, tokens: Sequence[int], on_chunk: Callable[[int], None] | None = None) -> None:
        """Decode many tokens in chunks without logits; `on_chunk(done)` after each."""
        for start in range(0, len(tokens), CHUNK):
            chunk = tokens[start : start + CHUNK]
            self.decode(chunk, 0)
            if on_chunk is not None:
                on_chunk(start + len(chunk))

    def logits(self, row: int) -> npt.NDArray[np.float32]:
        return self.context.logits(row)

    def mark(self) -> None:
        """Remember this point, so that `back_to` can return behind it where trimming can't."""
        if self.memory is Memory.CHECKPOINT and (self._mark is None or self._mark[0] != len(self.tokens)):
            self._mark = (len(self.tokens), self.context.snapshot()) if self.tokens else (0, b"")

    def back_to(self, count: int) -> None:
        """Keep the first `count` tokens, whatever it takes: at worst they are decoded again."""
        if count >= len(self.tokens):
            return
        kept = self.tokens[:count]
        if self._trim(count):
            self.tokens = kept
            self._fresh = 0
            return
        if self._mark is not None and 0 < self._mark[0] <= count and self._restore():
            self.feed(kept[len(self.tokens) :])
            return
        self.clear()
        self.feed(kept)

    def shorten(self, count: int) -> None:
        """Keep the first `count` tokens where that is cheap; else leave all, for `reuse` to sort out later."""
        if count < len(self.tokens) and self._trim(count):
            del self.tokens[count:]
            self._fresh = 0

    def reuse(self, tokens: Sequence[int]) -> int:
        """Keep the longest prefix shared with `tokens` that this memory can return to; its length.
        One token is always left to decode, so that there are logits."""
        shared = 0
        for ours, theirs in zip(self.tokens, tokens[: len(tokens) - 1], strict=False):
            if ours != theirs:
                break
            shared += 1
        if shared < len(self.tokens):
            if self._trim(shared):
                del self.tokens[shared:]
                self._fresh = 0
            elif not (self._mark is not None and 0 < self._mark[0] <= shared and self._restore()):
                self.clear()
        return len(self.tokens)

    def clear(self) -> None:
        self.context.clear()
        self.tokens = []
        self._mark = None
        self._fresh = 0

    def close(self) -> None:
        self.context.close()

    def _trim(self, count: int) -> bool:
        if count == 0:
            self.context.clear()
            self._mark = None
            return True
        taken = len(self.tokens) - count
        if self.memory is Memory.CHECKPOINT:
            return False
        if self.memory is Memory.SNAPSHOTS and not taken <= min(self.context.n_rollback, self._fresh - 1):
            return False
        if self.memory is Memory.WINDOW and self.context.first_position() > max(0, count - self._window):
            return False
        return self.context.trim(count)

    def _restore(self) -> bool:
        assert self._mark is not None
        position, data = self._mark
        if not (self.context.restore(data) and self.context.trim(position)):
            return False
        del self.tokens[position:]
        self._fresh = 0
        return True

    def _undo(self, held: int) -> None:
        """After a failed decode the context may hold a part of it."""
        if self.memory in (Memory.FULL, Memory.WINDOW) and self.context.trim(held):
            return
        if held == 0 or not (self._mark is not None and self._mark[0] <= held and self._mark[0] > 0 and self._restore()):
            self.clear()
