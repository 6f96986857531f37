"""Which llama.cpp back end to build, and why."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FLAGS = {"cpu": [], "cuda": ["-DGGML_CUDA=ON"], "vulkan": ["-DGGML_VULKAN=ON"], "metal": ["-DGGML_METAL=ON"]}


class Unknown(Exception):
    """The back end asked for does not exist."""


@dataclass(frozen=True)
class Choice:
    name: str
    why: str

    @property
    def flags(self) -> list[str]:
        off = ["-DGGML_METAL=OFF"] if self.name == "cpu" and sys.platform == "darwin" else []
        return FLAGS[self.name] + off


def choose(
    asked: str | None,
    platform: str = sys.platform,
    which: Callable[[str], str | None] = shutil.which,
    library: Callable[[str], str | None] = ctypes.util.find_library,
) -> Choice:
    """Metal on a Mac; CUDA with nvcc and a driver; Vulkan with its SDK; else the CPU."""
    if asked:
        if asked not in FLAGS:
            raise Unknown(f"There is no back end “{asked}”. Choose one of {', '.join(FLAGS)}.")
        return Choice(asked, "as asked")
    if platform == "darwin":
        return Choice("metal", "every Mac with Apple Silicon has it")
    if which("nvcc"):
        if which("nvidia-smi") or library("cuda") or library("nvcuda"):
            return Choice("cuda", "nvcc and an NVIDIA driver are here")
        why = "nvcc is here, but no NVIDIA driver"
    else:
        why = "no CUDA compiler"
    headers = Path("/usr/include/vulkan/vulkan.h").exists() or bool(os.environ.get("VULKAN_SDK"))
    if which("glslc") and headers and library("vulkan"):
        return Choice("vulkan", "the Vulkan SDK is here")
    return Choice("cpu", f"{why}, no Vulkan SDK")
