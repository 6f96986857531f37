"""Random weights that behave: seeded per tensor, with one residual channel kept constant.

Channel 0 of the residual stream holds the same value for every token and no layer writes to it, so after the last
norm it acts as a bias: column 0 of the output matrix raises or lowers a token whatever came before. That is how end
tokens are kept out of reach without an output bias, which these architectures don't have.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

ANCHOR = 2.0
"""The constant in channel 0."""


@dataclass
class Weights:
    """Collects a model's tensors by GGUF name (shapes in numpy order: rows first, GGUF's reversed).

    The same seed gives the same tensor to the same name, so a model cut to fewer layers, or one of another
    architecture, shares what it has in common. ``noise`` adds that many standard deviations, drawn from
    ``noise_seed``, to every non-zero entry of every matrix: a draft that resembles its target. ``write_scale``
    weakens what layers add to the residual stream, so that the last token alone decides the more.
    """

    seed: int
    noise: float = 0.0
    noise_seed: int = 1
    write_scale: float = 1.0
    tensors: dict[str, Array] = field(default_factory=dict)

    def _random(self, name: str, seed: int) -> np.random.Generator:
        return np.random.default_rng([seed, zlib.crc32(name.encode())])

    def _put(self, name: str, values: npt.NDArray[np.floating], noisy: bool = True) -> None:
        if self.noise and noisy:
            extra = self._random(name, 1000 + self.noise_seed).standard_normal(values.shape)
            values = values + self.noise * values.std() * extra * (values != 0)
        self.tensors[name] = values.astype(np.float32)

    def matrix(self, name: str, rows: int, columns: int, gain: float = 1.0, writes: bool = False) -> None:
        """Outputs of standard deviation ``gain`` for a unit input; ``writes``: it feeds the residual stream."""
        values = self._random(name, self.seed).standard_normal((rows, columns)) * gain / np.sqrt(columns)
        if writes:
            values[0] = 0.0
            values *= self.write_scale
        self._put(name, values)

    def vector(self, name: str, length: int, value: float = 1.0) -> None:
        """A constant vector (norm weights, biases)."""
        self._put(name, np.full(length, value), noisy=False)

    def given(self, name: str, values: npt.NDArray[np.floating]) -> None:
        """Values made elsewhere, kept as they are."""
        self._put(name, values, noisy=False)

    def embedding(self, n_vocab: int, n_embd: int, name: str = "token_embd.weight") -> None:
        """Unit normal rows, the anchor in channel 0."""
        self.matrix(name, n_vocab, n_embd, np.sqrt(n_embd))
        self.tensors[name][:, 0] = ANCHOR

    def output(self, bias: Sequence[float], n_embd: int, gain: float, name: str = "output.weight") -> None:
        """Logits of standard deviation ``gain`` plus about ``bias`` per token."""
        self.matrix(name, len(bias), n_embd, gain)
        self.tensors[name][:, 0] = bias

    def successors(self, following: dict[int, int], strength: float) -> None:
        """Raise the logit of ``following[t]`` by about ``strength`` after token t. Call after the two are made."""
        embedding, output = self.tensors["token_embd.weight"], self.tensors["output.weight"]
        for token, successor in following.items():
            direction = embedding[token, 1:]
            output[successor, 1:] += strength * direction / np.linalg.norm(direction) ** 2


Shaper = Callable[[Weights], None]
"""Adds one architecture's tensors."""
