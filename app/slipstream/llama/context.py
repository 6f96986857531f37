"""A llama.cpp context: decoding, logits, trimming, snapshots. One sequence, id 0."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import llama_cpp
import numpy as np
import numpy.typing as npt

from slipstream.domain import errors
from slipstream.llama.backend import Backend
from slipstream.llama.model import Model

KV_TYPES = {"f16": 1, "q8_0": 8, "q4_0": 2}  # ggml_type
FLASH = {"auto": -1, "off": 0, "on": 1}
_PARTIAL_ONLY = 1  # LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY


@dataclass(frozen=True)
class ContextOptions:
    """`n_outputs` is the most rows of logits one decode may ask for; `n_rollback` the tokens a recurrent
    memory should be able to take back where its architecture can."""

    n_ctx: int
    n_batch: int = 512
    n_outputs: int = 1
    n_rollback: int = 0
    threads: int = 1
    kv_type: str = "f16"
    flash_attention: str = "auto"


class Context:
    """`close()` frees it. All methods belong to one thread; `abort` may be set from any."""

    def __init__(self, backend: Backend, model: Model, options: ContextOptions, abort: threading.Event) -> None:
        """Raises OutOfMemory or LoadFailed."""
        self.model = model
        self._abort = abort
        self._on_abort = llama_cpp.ggml_abort_callback(lambda _data: abort.is_set())
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = options.n_ctx
        params.n_batch = params.n_ubatch = max(options.n_batch, options.n_outputs)
        params.n_outputs_max = options.n_outputs
        params.n_rs_seq = options.n_rollback
        params.n_threads = params.n_threads_batch = options.threads
        params.type_k = params.type_v = KV_TYPES[options.kv_type]
        params.flash_attn_type = FLASH[options.flash_attention]
        params.swa_full = False  # the C default multiplies a sliding-window model's cache
        params.no_perf = True
        params.abort_callback = self._on_abort
        with backend.captured() as log:
            handle = llama_cpp.llama_init_from_model(model.handle, params)
        if not handle:
            text = "\n".join(log[-40:])
            short = "alloc" in text.lower() or "memory" in text.lower()
            kind = errors.OutOfMemory if short else errors.LoadFailed
            raise kind(
                f"A context of {options.n_ctx} tokens could not be made.", "Choose a shorter context.", text
            )
        self.log = log
        self._handle = handle
        self._memory = llama_cpp.llama_get_memory(handle)
        self.n_ctx = int(llama_cpp.llama_n_ctx(handle))
        self.n_batch = int(llama_cpp.llama_n_batch(handle))
        self.n_rollback = int(llama_cpp.llama_n_rs_seq(handle))
        self.n_vocab = model.vocab.n_tokens
        self._make_batch(self.n_batch)

    def _make_batch(self, size: int) -> None:
        # numpy arrays are filled by slice; ctypes items would cost a microsecond each
        self._tokens = np.zeros(size, dtype=np.int32)
        self._positions = np.zeros(size, dtype=np.int32)
        self._counts = np.ones(size, dtype=np.int32)
        self._wanted = np.zeros(size, dtype=np.int8)
        self._sequence = (ctypes.c_int32 * 1)(0)
        pointer = ctypes.cast(self._sequence, ctypes.POINTER(ctypes.c_int32))
        self._sequences = (ctypes.POINTER(ctypes.c_int32) * size)(*([pointer] * size))
        batch = llama_cpp.llama_batch()
        batch.token = self._tokens.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        batch.pos = self._positions.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        batch.n_seq_id = self._counts.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        batch.seq_id = self._sequences
        batch.logits = self._wanted.ctypes.data_as(ctypes.POINTER(ctypes.c_int8))
        self._batch = batch

    def decode(self, tokens: Sequence[int], position: int, outputs: int) -> None:
        """Decode `tokens` at `position`…, with logits for the last `outputs` of them. Waits for the result.

        Raises Cancelled when `abort` was set, ContextFull when no cache cell is left, DecodeFailed otherwise.
        The cache may hold a part of the tokens after an error: trim it.
        """
        count = len(tokens)
        self._tokens[:count] = tokens
        self._positions[:count] = np.arange(position, position + count, dtype=np.int32)
        self._wanted[:count] = 0
        if outputs:
            self._wanted[count - outputs : count] = 1
        self._batch.n_tokens = count
        code = llama_cpp.llama_decode(self._handle, self._batch)
        if code == 0:
            llama_cpp.llama_synchronize(self._handle)
            self._first = count - outputs
            return
        if code == 2 or self._abort.is_set():
            raise errors.Cancelled("Stopped.")
        if code == 1:
            raise errors.ContextFull("The context is full.", "Start a new chat or choose a longer context.")
        raise errors.DecodeFailed("llama.cpp could not go on.", "Load the model again.", f"llama_decode: {code}")

    def logits(self, row: int) -> npt.NDArray[np.float32]:
        """Logits [n_vocab] of output `row` of the last decode: a view, valid until the next decode."""
        pointer = llama_cpp.llama_get_logits_ith(self._handle, self._first + row)
        if not pointer:
            raise errors.DecodeFailed("llama.cpp gave no logits.", "Load the model again.", f"row {row}")
        address = ctypes.cast(pointer, ctypes.c_void_p).value or 0
        return np.ctypeslib.as_array((ctypes.c_float * self.n_vocab).from_address(address))

    def trim(self, position: int) -> bool:
        """Forget everything from `position` on. False where this memory can't go back that far."""
        return bool(llama_cpp.llama_memory_seq_rm(self._memory, 0, position, -1))

    @property
    def aborted(self) -> bool:
        """Someone asked to stop; only the CPU looks at that within a decode."""
        return self._abort.is_set()

    def clear(self) -> None:
        llama_cpp.llama_memory_clear(self._memory, True)

    def first_position(self) -> int:
        """The oldest position still in memory (sliding windows forget), −1 when empty."""
        return int(llama_cpp.llama_memory_seq_pos_min(self._memory, 0))

    def snapshot(self) -> bytes:
        """The part of the state that can't be trimmed (recurrent state, sliding window)."""
        size = llama_cpp.llama_state_seq_get_size_ext(self._handle, 0, _PARTIAL_ONLY)
        buffer = (ctypes.c_uint8 * size)()
        written = llama_cpp.llama_state_seq_get_data_ext(self._handle, buffer, size, 0, _PARTIAL_ONLY)
        if written != size:
            raise errors.DecodeFailed("The model's state could not be kept.", "Load the model again.", f"{written} of {size}")
        return bytes(buffer)

    def restore(self, data: bytes) -> bool:
        buffer = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        return bool(llama_cpp.llama_state_seq_set_data_ext(self._handle, buffer, len(data), 0, _PARTIAL_ONLY))

    def close(self) -> None:
        if self._handle is not None:
            llama_cpp.llama_free(self._handle)
            self._handle = None
