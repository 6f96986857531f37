"""A thin hand on llama.cpp's C API, for tests that look at models below the application's own layer."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import llama_cpp
import numpy as np
import numpy.typing as npt

PARTIAL_ONLY: int = llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY


def _drop(level: int, text: bytes, user_data: object) -> None:
    """Drops llama.cpp's log."""


_silent = llama_cpp.llama_log_callback(_drop)


class Session:
    """One model with one context and one sequence; use as a context manager.

    Caches are F32 and flash attention is off, so that logits hardly depend on how tokens were cut into batches
    (1e-5; with llama.cpp's defaults 1e-2, for attention then sums in half precision).
    """

    def __init__(self, path: Path, n_ctx: int = 512, n_rs_seq: int = 0, n_ubatch: int = 64) -> None:
        llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        model_params = llama_cpp.llama_model_default_params()
        model_params.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), model_params)
        if not self.model:
            raise ValueError(f"llama.cpp refuses {path.name}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = n_ctx, n_ctx, n_ubatch
        params.n_threads = params.n_threads_batch = 1
        params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.type_k = params.type_v = llama_cpp.GGML_TYPE_F32
        params.swa_full = False
        params.n_rs_seq = n_rs_seq
        self.ctx = llama_cpp.llama_init_from_model(self.model, params)
        if not self.ctx:
            raise ValueError(f"no context for {path.name}")
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.n_vocab: int = llama_cpp.llama_vocab_n_tokens(self.vocab)
        self.memory = llama_cpp.llama_get_memory(self.ctx)
        self.position = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        llama_cpp.llama_free(self.ctx)
        llama_cpp.llama_model_free(self.model)

    @property
    def n_rs_seq(self) -> int:
        """Snapshots the context really keeps."""
        return int(llama_cpp.llama_n_rs_seq(self.ctx))

    def span(self) -> tuple[int, int]:
        """Oldest and newest position in memory, (-1, -1) when empty."""
        return (
            int(llama_cpp.llama_memory_seq_pos_min(self.memory, 0)),
            int(llama_cpp.llama_memory_seq_pos_max(self.memory, 0)),
        )

    def decode(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """Decode at the next positions; logits of every row, shape (len(tokens), n_vocab)."""
        batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
        try:
            batch.n_tokens = len(tokens)
            for row, token in enumerate(tokens):
                batch.token[row] = token
                batch.pos[row] = self.position + row
                batch.n_seq_id[row] = 1
                batch.seq_id[row][0] = 0
                batch.logits[row] = 1
            code = llama_cpp.llama_decode(self.ctx, batch)
            if code != 0:
                raise ValueError(f"llama_decode returned {code}")
            self.position += len(tokens)
            pointer = llama_cpp.llama_get_logits(self.ctx)
            return np.ctypeslib.as_array(pointer, (len(tokens), self.n_vocab)).copy()
        finally:
            llama_cpp.llama_batch_free(batch)

    def remove(self, start: int) -> bool:
        """Remove positions ``start``.. from memory; the next decode follows on when it worked."""
        done = bool(llama_cpp.llama_memory_seq_rm(self.memory, 0, start, -1))
        if done:
            self.position = start
        return done

    def clear(self) -> None:
        """Forget everything."""
        llama_cpp.llama_memory_clear(self.memory, True)
        self.position = 0

    def save(self, flags: int = PARTIAL_ONLY) -> bytes:
        """The sequence's state under ``flags``."""
        size = llama_cpp.llama_state_seq_get_size_ext(self.ctx, 0, flags)
        buffer = (ctypes.c_uint8 * size)()
        written = llama_cpp.llama_state_seq_get_data_ext(self.ctx, buffer, size, 0, flags)
        return bytes(buffer[:written])

    def restore(self, state: bytes, flags: int = PARTIAL_ONLY) -> int:
        """Put a saved state back; the number of bytes read, 0 when refused."""
        buffer = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        return int(llama_cpp.llama_state_seq_set_data_ext(self.ctx, buffer, len(state), 0, flags))

    def tokenize(self, text: str, special: bool = True) -> list[int]:
        """Token ids of the text."""
        data = text.encode()
        room = len(data) + 8
        tokens = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), tokens, room, True, special)
        return list(tokens[:count])

    def text(self, tokens: Sequence[int], special: bool = False) -> str:
        """The tokens' bytes, invalid UTF-8 replaced."""
        piece, out = ctypes.create_string_buffer(256), b""
        for token in tokens:
            size = llama_cpp.llama_token_to_piece(self.vocab, token, piece, 256, 0, special)
            out += piece.raw[:size]
        return out.decode(errors="replace")

    def generate(self, prompt: Sequence[int], count: int, rng: np.random.Generator | None = None) -> list[int]:
        """Continue a prompt from an empty memory: greedily, or sampling the full distribution with ``rng``."""
        self.clear()
        logits, tokens = self.decode(prompt)[-1], list[int]()
        for _ in range(count):
            token = int(logits.argmax()) if rng is None else int(rng.choice(self.n_vocab, p=softmax(logits)))
            tokens.append(token)
            logits = self.decode([token])[-1]
        return tokens


def softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Probabilities over the last axis."""
    weights: npt.NDArray[np.float64] = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def acceptance(
    target: Path, draft: Path, prompt: Sequence[int], count: int = 200, seed: int = 0
) -> tuple[float, float]:
    """Teacher-forced acceptance over the target's own samples: mean Σ min(p, q), and mean p(argmax q)."""
    with Session(target) as t, Session(draft) as d:
        tokens = t.generate(prompt, count, np.random.default_rng(seed))
        t.clear()
        rows = [*prompt, *tokens]
        width = min(t.n_vocab, d.n_vocab)
        p = softmax(t.decode(rows)[len(prompt) - 1 :, :width])
        q = softmax(d.decode(rows)[len(prompt) - 1 :, :width])
        one_hot = p[np.arange(len(p)), q.argmax(axis=-1)]
        return float(np.minimum(p, q).sum(axis=-1).mean()), float(one_hot.mean())
