"""Files no one should load: damaged, lying or of another kind than their name says.

Each maker takes the bytes of a sound model and returns those of the broken one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import gguf
import numpy as np

from .vocab import vocabulary

Maker = Callable[[bytes], bytes]

_ALIGNMENT = 32
_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 646944\n"


def _count(at: int, value: int) -> Maker:
    return lambda sound: sound[:at] + struct.pack("<Q", value) + sound[at + 8 :]


def _cut(size: int) -> Maker:
    return lambda sound: sound[:size]


def _cut_share(share: float) -> Maker:
    return lambda sound: sound[: int(len(sound) * share)]


def _swap(old: bytes, new: bytes) -> Maker:
    """Replace the first occurrence with something of the same length."""

    def swap(sound: bytes) -> bytes:
        if len(old) != len(new) or old not in sound:
            raise ValueError(f"{old!r} cannot be swapped for {new!r}")
        return sound.replace(old, new, 1)

    return swap


def _value(key: bytes, value: int) -> Maker:
    """Set a 32-bit value: the key, its type's four bytes, then the value."""

    def change(sound: bytes) -> bytes:
        at = sound.index(key) + len(key) + 4
        return sound[:at] + struct.pack("<I", value) + sound[at + 4 :]

    return change


def _array_length(key: bytes, length: int) -> Maker:
    """Set an array's 64-bit length: the key, the type, the element type, then the length."""

    def change(sound: bytes) -> bytes:
        at = sound.index(key) + len(key) + 8
        return sound[:at] + struct.pack("<Q", length) + sound[at + 8 :]

    return change


def _without_data(sound: bytes) -> bytes:
    """The whole header, not one weight."""
    first = sound.index(b"blk.0.attn_norm.weight") + 200
    return sound[: first - first % _ALIGNMENT]


BROKEN: Mapping[str, Maker] = {
    "empty": lambda sound: b"",
    "not-gguf": lambda sound: b"This is a letter to a friend, and it is not a model.\n" * 200,
    "web-page": lambda sound: b"<!DOCTYPE html><html><head><title>Sign in</title></head><body></body></html>",
    "lfs-pointer": lambda sound: _LFS_POINTER,
    "old-format": lambda sound: b"ggjt" + sound[4:],
    "zeros": lambda sound: bytes(4096),
    "magic-only": _cut(4),
    "version-only": _cut(8),
    "counts-only": _cut(24),
    "cut-in-first-key": _cut(40),
    "cut-in-vocabulary": _cut(4000),
    "cut-in-weights": _cut_share(0.5),
    "cut-at-the-end": lambda sound: sound[:-4000],
    "no-weights": _without_data,
    "version-99": lambda sound: sound[:4] + struct.pack("<I", 99) + sound[8:],
    "version-1": lambda sound: sound[:4] + struct.pack("<I", 1) + sound[8:],
    "other-byte-order": lambda sound: sound[:4] + struct.pack(">I", 3) + sound[8:],
    "huge-tensor-count": _count(8, 1 << 60),
    "huge-key-count": _count(16, 1 << 60),
    "many-keys": _count(16, 1_000_000),
    "huge-key-length": _count(24, 1 << 60),
    "huge-array": _array_length(b"tokenizer.ggml.tokens", 1 << 60),
    "long-array": _array_length(b"tokenizer.ggml.tokens", 100_000_000),
    "unknown-architecture": _swap(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0ohmys"),
    "unknown-tokenizer": _swap(b"\x04\0\0\0\0\0\0\0gpt2", b"\x04\0\0\0\0\0\0\0ohmy"),
    "missing-key": _swap(b"llama.context_length", b"llama.contest_length"),
    "missing-tensor": _swap(b"blk.1.ffn_up.weight", b"blk.1.ffn_no.weight"),
    "wrong-width": _value(b"llama.embedding_length", 96),
    "more-layers-than-tensors": _value(b"llama.block_count", 3),
}
"""llama.cpp refuses each of these with an error."""

ABORTING: Mapping[str, Maker] = {
    "no-layers": _value(b"llama.block_count", 0),
    "too-many-layers": _value(b"llama.block_count", 1_000_000),
}
"""llama.cpp ends the whole process on each of these: they must be caught before it sees them."""


def write_draft_only(path: Path, arch: str) -> Path:
    """A file that says it is an EAGLE-3, DFlash or DSpark drafter for the tiny text model, with its marks only."""
    header = "dflash" if arch == "dspark" else arch
    writer = gguf.GGUFWriter(path, header)
    writer.add_context_length(4096)
    writer.add_embedding_length(64)
    writer.add_block_count(1)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_key_length(32)
    writer.add_value_length(32)
    writer.add_feed_forward_length(96)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_array(f"{header}.target_layers", [0, 1, 2])
    if header == "eagle3":
        writer.add_uint32("eagle3.target_hidden_size", 64)
        writer.add_tensor("fc.weight", np.zeros((64, 3 * 64), np.float32))
    else:
        writer.add_uint32("dflash.block_size", 8)
    if arch == "dspark":
        writer.add_bool("dflash.sample_from_anchor", True)
        writer.add_bool("dflash.has_confidence_head", False)
        writer.add_tensor("markov_w1.weight", np.zeros((64, 64), np.float32))
    writer.add_tensor("output_norm.weight", np.ones(64, np.float32))
    vocabulary("text").write(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
