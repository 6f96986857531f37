"""A loaded GGUF: weights, vocabulary, metadata."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from pathlib import Path

import llama_cpp

from slipstream.domain import errors
from slipstream.domain.protocol import ModelInfo
from slipstream.llama.backend import Backend
from slipstream.llama.vocab import Vocab


def check_file(path: str) -> None:
    """Refuse what is plainly no model before llama.cpp sees it.

    Raises ModelFileMissing or NotAGguf.
    """
    file = Path(path)
    if not file.is_file():
        raise errors.ModelFileMissing(f"The model file “{file.name}” is not there.", "Choose another file.", path)
    try:
        with file.open("rb") as stream:
            head = stream.read(8)
    except OSError as error:
        raise errors.ModelFileMissing(
            f"The model file “{file.name}” can't be read.", "Check its permissions.", str(error)
        ) from error
    if head[:4] != b"GGUF" or len(head) < 8:
        raise errors.NotAGguf(f"“{file.name}” is not a GGUF model.", "Choose a file that ends in .gguf.", path)


class Model:
    """Weights on their devices. `close()` frees them; no context may be alive then."""

    def __init__(
        self,
        backend: Backend,
        path: str,
        *,
        gpu_layers: int = -1,
        progress: Callable[[float], None] | None = None,
        cancelled: threading.Event | None = None,
    ) -> None:
        """`gpu_layers` −1 offloads all. `progress` gets 0..1 from the loading thread.

        Raises ModelFileMissing, NotAGguf, UnsupportedArchitecture, OutOfMemory, LoadFailed, Cancelled.
        """
        check_file(path)
        self.path = path
        stop = cancelled or threading.Event()

        def on_progress(fraction: float, _data: object) -> bool:
            if progress is not None:
                progress(fraction)
            return not stop.is_set()

        callback = llama_cpp.llama_progress_callback(on_progress)
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = 999 if gpu_layers < 0 else gpu_layers
        params.progress_callback = callback
        with backend.captured() as log:
            handle = llama_cpp.llama_model_load_from_file(path.encode("utf-8"), params)
        if not handle:
            if stop.is_set():
                raise errors.Cancelled("Loading was stopped.")
            raise _load_error(path, log)
        self._handle = handle
        self.vocab = Vocab(llama_cpp.llama_model_get_vocab(handle))
        self.load_log = log

    @property
    def handle(self) -> object:
        """For llama/ only."""
        return self._handle

    def close(self) -> None:
        if self._handle is not None:
            llama_cpp.llama_model_free(self._handle)
            self._handle = None

    @property
    def n_ctx_train(self) -> int:
        return int(llama_cpp.llama_model_n_ctx_train(self._handle))

    @property
    def n_swa(self) -> int:
        """Sliding window in tokens, 0 where there is none."""
        return int(llama_cpp.llama_model_n_swa(self._handle))

    @property
    def recurrent(self) -> bool:
        """Whether any layer keeps a recurrent state, which can't be trimmed token by token."""
        return bool(
            llama_cpp.llama_model_is_recurrent(self._handle) or llama_cpp.llama_model_is_hybrid(self._handle)
        )

    def has_decoder(self) -> bool:
        return bool(llama_cpp.llama_model_has_decoder(self._handle)) and not bool(
            llama_cpp.llama_model_has_encoder(self._handle)
        )

    def meta(self, key: str) -> str | None:
        """A metadata value as text; None where the key is missing."""
        size = 1024
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = llama_cpp.llama_model_meta_val_str(self._handle, key.encode(), buffer, size)
            if length < 0:
                return None
            if length < size:
                return buffer.value.decode("utf-8", "replace")
            size = length + 1

    def chat_template(self) -> str | None:
        template = llama_cpp.llama_model_chat_template(self._handle, None)
        return template.decode("utf-8", "replace") if template else None

    def info(self) -> ModelInfo:
        buffer = ctypes.create_string_buffer(256)
        llama_cpp.llama_model_desc(self._handle, buffer, 256)
        return ModelInfo(
            path=self.path,
            name=Path(self.path).stem,  # people know the file; general.name is often a training run's
            architecture=self.meta("general.architecture") or "unknown",
            description=buffer.value.decode("utf-8", "replace"),
            n_params=int(llama_cpp.llama_model_n_params(self._handle)),
            size_bytes=int(llama_cpp.llama_model_size(self._handle)),
            n_layer=int(llama_cpp.llama_model_n_layer(self._handle)),
            n_vocab=self.vocab.n_tokens,
            n_ctx_train=self.n_ctx_train,
        )


def _load_error(path: str, log: list[str]) -> errors.SlipstreamError:
    """What llama.cpp's log says of a failed load, as a typed error."""
    name, text = Path(path).name, "\n".join(log[-40:])
    lower = text.lower()
    if "unknown model architecture" in lower:
        return errors.UnsupportedArchitecture(
            f"“{name}” is of an architecture this llama.cpp does not know.", "Update Slipstream or choose another.", text
        )
    if any(word in lower for word in ("failed to allocate", "out of memory", "unable to allocate", "bad_alloc")):
        return errors.OutOfMemory(
            f"There is not enough memory to load “{name}”.", "Choose a smaller quant or offload fewer layers.", text
        )
    if any(word in lower for word in ("gguf", "magic", "not within the file bounds", "corrupted", "truncated")):
        return errors.NotAGguf(f"“{name}” is damaged or incomplete.", "Download it again.", text)
    return errors.LoadFailed(f"llama.cpp could not load “{name}”.", "The log has the details.", text)
