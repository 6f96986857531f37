"""A target and a draft without llama.cpp: logits looked up from the last two tokens, behind Cache's interface."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np

from slipstream.domain import errors


class TableCache:
    """Logits [n_vocab, n_vocab, n_vocab] by the last two tokens; the same invariants as engine.cache.Cache."""

    def __init__(self, table: np.ndarray, n_ctx: int = 64) -> None:
        self._table = table.astype(np.float32)
        self.n_ctx = n_ctx
        self.tokens: list[int] = []
        self._rows: list[np.ndarray] = []
        self.context = SimpleNamespace(n_vocab=table.shape[-1])
        self.decoded = 0

    def __len__(self) -> int:
        return len(self.tokens)

    def decode(self, tokens: Sequence[int], outputs: int) -> None:
        if len(self.tokens) + len(tokens) > self.n_ctx:
            raise errors.ContextFull("full")
        self._rows = []
        for at, token in enumerate(tokens):
            self.tokens.append(token)
            if at >= len(tokens) - outputs:
                before = self.tokens[-2] if len(self.tokens) > 1 else 0
                self._rows.append(self._table[before, token])
        self.decoded += len(tokens)

    def feed(self, tokens: Sequence[int], on_chunk: object = None) -> None:
        self.decode(tokens, 0)

    def logits(self, row: int) -> np.ndarray:
        return self._rows[row]

    def mark(self) -> None:
        pass

    def back_to(self, count: int) -> None:
        del self.tokens[count:]

    def reuse(self, tokens: Sequence[int]) -> int:
        shared = 0
        for ours, theirs in zip(self.tokens, tokens[: len(tokens) - 1], strict=False):
            if ours != theirs:
                break
            shared += 1
        del self.tokens[shared:]
        return shared

    def shorten(self, count: int) -> None:
        self.back_to(count)

    def clear(self) -> None:
        self.tokens = []

    def close(self) -> None:
        pass


def tables(n_vocab: int, seed: int, spread: float = 1.6, noise: float = 0.8) -> tuple[np.ndarray, np.ndarray]:
    """A target's table and a draft's that resembles it."""
    rng = np.random.default_rng(seed)
    target = rng.normal(0, spread, (n_vocab,) * 3)
    for token in range(n_vocab):  # a liking for the next token in turn, so that the text repeats itself now and then
        target[:, token, (token + 1) % n_vocab] += 2.5
    return target, target + rng.normal(0, noise, target.shape)
