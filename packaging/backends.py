"""Which llama.cpp back end to build, and why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from system import Host

FLAGS = {
    "cpu": ["-DGGML_METAL=OFF"],  # on by itself on a Mac; means nothing elsewhere
    "cuda": ["-DGGML_CUDA=ON"],
    "vulkan": ["-DGGML_VULKAN=ON"],
    "metal": ["-DGGML_METAL=ON"],
}
SOFTWARE_VULKAN = ("lvp", "llvmpipe", "swrast", "swiftshader")  # run on the CPU, far slower than its own back end


class Unknown(Exception):
    """The back end asked for does not exist."""


@dataclass(frozen=True)
class Choice:
    name: str
    why: str
    platform: str

    @property
    def flags(self) -> list[str]:
        """CMake's. They are part of the key under which the built wheel is kept, so none is given that says nothing."""
        return [] if self.name == "cpu" and self.platform != "darwin" else FLAGS[self.name]


def survey(host: Host) -> dict[str, tuple[bool, str]]:
    """For each GPU back end, best first: can it be built and used here, and what speaks for or against it?"""
    return {"metal": _metal(host), "cuda": _cuda(host), "vulkan": _vulkan(host)}


def choose(asked: str | None, host: Host) -> Choice:
    """The one asked for, else the best that can be built and used here. Raises Unknown."""
    if asked:
        if asked not in FLAGS:
            raise Unknown(f"There is no back end “{asked}”. Choose one of {', '.join(FLAGS)}.")
        return Choice(asked, "as asked", host.platform)
    found = survey(host)
    for name, (usable, why) in found.items():
        if usable:
            return Choice(name, why, host.platform)
    told = [why for name, (_, why) in found.items() if (name == "metal") == (host.platform == "darwin")]
    return Choice("cpu", "; ".join(told), host.platform)


def drivers(host: Host) -> list[str]:
    """The GPUs whose drivers answer, for people to read."""
    found: list[str] = []
    if host.which("nvidia-smi"):
        found += (host.output(["nvidia-smi", "-L"]) or "").splitlines()
    return found + [f"Vulkan driver {PurePath(path).name}" for path in _vulkan_drivers(host)]


def _metal(host: Host) -> tuple[bool, str]:
    if host.platform != "darwin":
        return False, "not a Mac"
    if host.machine != "arm64":
        return False, "Metal is of use on Apple Silicon only"
    return True, "this Mac has Apple Silicon"


def _cuda(host: Host) -> tuple[bool, str]:
    driver = host.which("nvidia-smi") or host.find_library("cuda") or host.find_library("nvcuda")
    if not host.which("nvcc"):
        return False, "an NVIDIA driver is here, but no CUDA compiler (nvcc)" if driver else "no CUDA"
    return (True, "nvcc and an NVIDIA driver are here") if driver else (False, "nvcc is here, but no NVIDIA driver")


def _vulkan(host: Host) -> tuple[bool, str]:
    sdk = host.env.get("VULKAN_SDK")
    headers = sdk or host.paths("/usr/include/vulkan/vulkan.h")
    library = sdk or host.find_library("vulkan")
    if host.platform == "darwin" or not (host.which("glslc") and headers and library):
        return False, "no Vulkan SDK"
    if host.platform.startswith("linux") and not (host.paths("/dev/dri/renderD*") and _vulkan_drivers(host)):
        return False, "the Vulkan SDK is here, but no GPU with a Vulkan driver"
    return True, "the Vulkan SDK and a GPU are here"


def _vulkan_drivers(host: Host) -> list[str]:
    folders = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d")
    found = [path for folder in folders for path in host.paths(f"{folder}/*.json")]
    return [path for path in found if not PurePath(path).name.startswith(SOFTWARE_VULKAN)]
