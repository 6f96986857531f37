"""Process-wide llama.cpp state: its log and its devices."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import llama_cpp
from llama_cpp import _ggml

from slipstream.domain.protocol import DeviceInfo

_KINDS = {0: "cpu", 1: "gpu", 2: "igpu", 3: "accel"}  # ggml_backend_dev_type, ggml-backend.h


class Backend:
    """Starts llama.cpp once and keeps its log off the terminal. Make one per process and hand it on."""

    LINES = 4000

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=self.LINES)
        self._taps: list[list[str]] = []
        callback = llama_cpp.llama_log_callback(self._on_log)
        # C keeps no reference and calls it to the end of the process, past this object's own end: it must never be freed
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(callback))
        llama_cpp.llama_log_set(callback, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()

    def _on_log(self, level: int, text: bytes, _data: object) -> None:
        line = text.decode("utf-8", "replace").rstrip("\n")
        if not line:
            return
        self._lines.append(line)
        for tap in self._taps:
            tap.append(line)

    @contextmanager
    def captured(self) -> Iterator[list[str]]:
        """The lines logged inside the block, in order."""
        tap: list[str] = []
        self._taps.append(tap)
        try:
            yield tap
        finally:
            self._taps.remove(tap)

    def devices(self) -> tuple[DeviceInfo, ...]:
        """All ggml devices with their memory in bytes. A driver's free is clamped to 0..total."""
        lib, base = _ggml.libggml, _base_library()
        lib.ggml_backend_dev_count.restype = ctypes.c_size_t
        lib.ggml_backend_dev_get.restype = ctypes.c_void_p
        lib.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
        found = []
        for index in range(lib.ggml_backend_dev_count()):
            device = ctypes.c_void_p(lib.ggml_backend_dev_get(index))
            free, total = ctypes.c_size_t(), ctypes.c_size_t()
            base.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
            name = ctypes.c_char_p(base.ggml_backend_dev_name(device)).value or b""
            about = ctypes.c_char_p(base.ggml_backend_dev_description(device)).value or b""
            kind = _KINDS.get(base.ggml_backend_dev_type(device), "accel")
            found.append(
                DeviceInfo(
                    name.decode("utf-8", "replace"),
                    about.decode("utf-8", "replace").strip(),
                    kind,
                    max(0, min(free.value, total.value)),
                    total.value,
                )
            )
        return tuple(found)


def _base_library() -> ctypes.CDLL:
    """libggml-base, which holds the device getters; already loaded as a dependency of libllama."""
    from llama_cpp._ctypes_extensions import load_shared_library

    base: ctypes.CDLL = load_shared_library("ggml-base", _ggml.libggml_base_path)
    for name in ("ggml_backend_dev_name", "ggml_backend_dev_description"):
        function = getattr(base, name)
        function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    base.ggml_backend_dev_type.restype, base.ggml_backend_dev_type.argtypes = ctypes.c_int, [ctypes.c_void_p]
    base.ggml_backend_dev_memory.restype = None
    pointer = ctypes.POINTER(ctypes.c_size_t)
    base.ggml_backend_dev_memory.argtypes = [ctypes.c_void_p, pointer, pointer]
    return base
