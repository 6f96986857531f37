"""Writes tiny GGUF models and keeps a folder of them, each built when first asked for.

A model takes tens of kilobytes to one megabyte and the same arguments always give the same file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import gguf
import numpy as np

from .architectures import BUILDERS, N_EMBD, Keys, Value
from .broken import ABORTING, BROKEN, write_draft_only
from .vocab import NORMAL, Vocabulary, letters_of, padded, renamed, vocabulary
from .weights import Weights

N_CTX_TRAIN = 4096
NEVER = -200.0
"""An output bias no sampler gets past."""

CYCLE = "\n the river 🙂 and a map of words:"
"""What the copycat model writes over and over after a line end."""


@dataclass(frozen=True)
class Recipe:
    """What a tiny model is made of. ``end_bias`` is the output bias of the end token."""

    arch: str = "llama"
    vocab: str | Vocabulary = "text"
    n_layer: int = 2
    seed: int = 0
    noise: float = 0.0
    noise_seed: int = 1
    gain: float | None = None
    end_bias: float = NEVER
    byte_bias: float = -5.0
    cycle: float = 0.0
    f16: bool = False
    extra: Mapping[str, Value] = field(default_factory=dict)

    def vocabulary(self) -> Vocabulary:
        return self.vocab if isinstance(self.vocab, Vocabulary) else vocabulary(self.vocab)


def _output_bias(recipe: Recipe, vocab: Vocabulary) -> list[float]:
    """Control and unused tokens stay out of reach, bytes that aren't ASCII are rare, the end is as asked."""
    bias = [0.0] * len(vocab)
    for token, kind in enumerate(vocab.types):
        if kind != NORMAL:
            bias[token] = NEVER
        elif vocab.model == "gpt2" and not vocab.texts[token].lstrip("Ġ").isascii():
            bias[token] = recipe.byte_bias
    if vocab.eos is not None:
        bias[vocab.eos] = recipe.end_bias
    return bias


def cycle_tokens(vocab: Vocabulary) -> list[int]:
    """``CYCLE`` cut into distinct tokens, longest first, as a ring the copycat can follow."""
    known = {text: token for token, text in enumerate(vocab.texts)}
    rest, tokens = letters_of(CYCLE), list[int]()
    while rest:
        size = next(n for n in range(len(rest), 0, -1) if rest[:n] in known and known[rest[:n]] not in tokens)
        tokens.append(known[rest[:size]])
        rest = rest[size:]
    return tokens


def _rings(vocab: Vocabulary) -> dict[int, int]:
    """A successor for every ordinary token: ``CYCLE`` is one ring, the others go round in dozens."""
    ring = cycle_tokens(vocab)
    others = [token for token, kind in enumerate(vocab.types) if kind == NORMAL and token not in ring]
    rings = [ring, *(others[start : start + 12] for start in range(0, len(others), 12))]
    return {token: following for each in rings for token, following in zip(each, each[1:] + each[:1], strict=True)}


def build(recipe: Recipe) -> tuple[Keys, dict[str, np.ndarray]]:
    """The header keys and tensors of a recipe."""
    vocab = recipe.vocabulary()
    gain = recipe.gain if recipe.gain is not None else (1.4 if len(vocab) < 32 else 1.0 if recipe.cycle else 3.0)
    w = Weights(recipe.seed, recipe.noise, recipe.noise_seed, 0.2 if recipe.cycle else 1.0)
    w.embedding(len(vocab), N_EMBD)
    w.vector("output_norm.weight", N_EMBD)
    w.output(_output_bias(recipe, vocab), N_EMBD, gain)
    if recipe.cycle:
        w.successors(_rings(vocab), recipe.cycle)
    keys = BUILDERS[recipe.arch](w, recipe.n_layer)
    return keys, dict(w.tensors)


def write(path: Path, recipe: Recipe) -> Path:
    """Write the recipe's model to ``path`` and return it."""
    vocab = recipe.vocabulary()
    keys, tensors = build(recipe)
    writer = gguf.GGUFWriter(path, recipe.arch)
    writer.add_name(f"Tiny {recipe.arch}")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16 if recipe.f16 else gguf.LlamaFileType.ALL_F32)
    fixed: Keys = {
        "context_length": N_CTX_TRAIN,
        "embedding_length": N_EMBD,
        "block_count": recipe.n_layer,
        "vocab_size": len(vocab),
    }
    for key, value in {**fixed, **keys, **recipe.extra}.items():
        _add(writer, f"{recipe.arch}.{key}", value)
    writer.add_layer_norm_rms_eps(1e-5)
    vocab.write(writer)
    for name, values in tensors.items():
        half = recipe.f16 and values.ndim == 2 and "conv" not in name and not name.endswith("ssm_a")
        writer.add_tensor(name, values.astype(np.float16) if half else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: gguf.GGUFWriter, key: str, value: Value) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case list():
            writer.add_array(key, value)


def write_llama(
    path: Path, vocab: str | Vocabulary = "text", seed: int = 0, noise: float = 0.0, n_layer: int = 2, f16: bool = False
) -> Path:
    """A plain full-attention model; ``noise`` > 0 makes it a draft of the same one without."""
    return write(path, Recipe(vocab=vocab, seed=seed, noise=noise, n_layer=n_layer, f16=f16))


OTHER_TEXT_ID = 300
"""Where "vocab-other-text" differs."""

_TEXT_VOCAB = vocabulary("text")
_TINY8 = Recipe(vocab="tiny8", seed=7)
_TEXT = Recipe()
_COPYCAT = replace(_TEXT, cycle=12.0, byte_bias=0.0)


def _pair(name: str, target: Recipe, noise: float) -> dict[str, Recipe]:
    return {name: target, f"{name}-draft": replace(target, noise=noise)}


RECIPES: Mapping[str, Recipe] = {
    # Plain llama over eight letters. "cut" has the first of the two layers only, "bad" knows nothing of its target.
    **_pair("tiny8", _TINY8, 0.2),
    "tiny8-cut": replace(_TINY8, n_layer=1),
    "tiny8-bad": replace(_TINY8, seed=99),
    # Plain llama over any text. "brief" ends its turn now and then, "bytes" writes broken UTF-8 too.
    **_pair("text", _TEXT, 0.1),
    "text-f16": replace(_TEXT, f16=True),
    "text-cut": replace(_TEXT, n_layer=1),
    "text-bad": replace(_TEXT, seed=99),
    "text-brief": replace(_TEXT, end_bias=4.0),
    "text-bytes": replace(_TEXT, byte_bias=0.0),
    # Goes round in circles, as n-gram drafting likes.
    **_pair("copycat", _COPYCAT, 0.25),
    # Other kinds of memory; each has a draft of its own kind, and "text-draft" shares their vocabulary.
    **_pair("sliding", replace(_TEXT, arch="gemma3"), 0.1),
    **_pair("snapshots", replace(_TEXT, arch="lfm2"), 0.1),
    **_pair("delta", replace(_TEXT, arch="qwen35"), 0.1),
    **_pair("recurrent", replace(_TEXT, arch="mamba"), 0.08),
    **_pair("hybrid", replace(_TEXT, arch="jamba"), 0.1),
    # The same over eight letters, for chi-square tests through every way of rolling back.
    **_pair("tiny8-recurrent", replace(_TINY8, arch="mamba"), 0.12),
    **_pair("tiny8-sliding", replace(_TINY8, arch="gemma3"), 0.2),
    **_pair("tiny8-snapshots", replace(_TINY8, arch="lfm2"), 0.2),
    **_pair("tiny8-delta", replace(_TINY8, arch="qwen35"), 0.15),
    **_pair("tiny8-hybrid", replace(_TINY8, arch="jamba"), 0.15),
    # Partners of "text" by vocabulary: the first three fit it, the others must be refused.
    "vocab-plus-128": replace(_TEXT, vocab=padded(_TEXT_VOCAB, 128)),
    "vocab-early-id": replace(_TEXT, vocab=renamed(_TEXT_VOCAB, 4, "differs")),
    "vocab-other-end": replace(_TEXT, vocab=replace(_TEXT_VOCAB, eos=_TEXT_VOCAB.bos)),
    "vocab-plus-129": replace(_TEXT, vocab=padded(_TEXT_VOCAB, 129)),
    "vocab-other-text": replace(_TEXT, vocab=renamed(_TEXT_VOCAB, OTHER_TEXT_ID, "differs")),
    "vocab-adds-bos": replace(_TEXT, vocab=replace(_TEXT_VOCAB, add_bos=True)),
    "vocab-adds-eos": replace(_TEXT, vocab=replace(_TEXT_VOCAB, add_eos=True)),
    "vocab-other-type": replace(_TEXT, vocab="spm"),
    # Adds a BOS as "vocab-adds-bos" does, but another one.
    "vocab-adds-other-bos": replace(_TEXT, vocab=replace(_TEXT_VOCAB, add_bos=True, bos=_TEXT_VOCAB.eos)),
}


@dataclass(frozen=True)
class TinyModels:
    """A folder of tiny models, each written when first asked for."""

    folder: Path

    def path(self, name: str) -> Path:
        """The model called ``name`` in ``RECIPES``; KeyError for another name."""
        path = self.folder / f"{name}.gguf"
        if not path.exists():
            partial = path.with_suffix(".partial")
            write(partial, RECIPES[name])
            partial.rename(path)
        return path

    def custom(self, name: str, recipe: Recipe) -> Path:
        """A model of one's own under ``name`` (written once)."""
        path = self.folder / f"custom-{name}.gguf"
        return path if path.exists() else write(path, recipe)

    def broken(self, name: str) -> Path:
        """The damaged or unsuitable file called ``name`` in ``broken.BROKEN`` or ``broken.ABORTING``."""
        path = self.folder / f"broken-{name}.gguf"
        if not path.exists():
            path.write_bytes(({**BROKEN, **ABORTING})[name](self.path("text").read_bytes()))
        return path

    def draft_only(self, arch: str) -> Path:
        """A header of an ``eagle3``, ``dflash`` or ``dspark`` drafter, which is no ordinary draft."""
        path = self.folder / f"draft-only-{arch}.gguf"
        return path if path.exists() else write_draft_only(path, arch)
