"""The machine that Slipstream is set up on: what it has, what it lacks, and the commands that bring it."""

from __future__ import annotations

import ctypes
import ctypes.util
import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from platform import libc_ver, mac_ver
from platform import machine as machine_name

# shared library → Debian/Ubuntu package, Fedora package
LIBRARIES = {
    "libEGL.so.1": ("libegl1", "mesa-libEGL"),
    "libGL.so.1": ("libgl1", "mesa-libGL"),
    "libfontconfig.so.1": ("libfontconfig1", "fontconfig"),
    "libdbus-1.so.3": ("libdbus-1-3", "dbus-libs"),
    "libglib-2.0.so.0": ("libglib2.0-0", "glib2"),
    "libX11-xcb.so.1": ("libx11-xcb1", "libX11-xcb"),
    "libxkbcommon.so.0": ("libxkbcommon0", "libxkbcommon"),
    "libxkbcommon-x11.so.0": ("libxkbcommon-x11-0", "libxkbcommon-x11"),
    "libxcb-cursor.so.0": ("libxcb-cursor0", "xcb-util-cursor"),
    "libxcb-icccm.so.4": ("libxcb-icccm4", "xcb-util-wm"),
    "libxcb-image.so.0": ("libxcb-image0", "xcb-util-image"),
    "libxcb-keysyms.so.1": ("libxcb-keysyms1", "xcb-util-keysyms"),
    "libxcb-randr.so.0": ("libxcb-randr0", "libxcb"),
    "libxcb-render-util.so.0": ("libxcb-render-util0", "xcb-util-renderutil"),
    "libxcb-shape.so.0": ("libxcb-shape0", "libxcb"),
    "libxcb-xkb.so.1": ("libxcb-xkb1", "libxcb"),
    "libwayland-client.so.0": ("libwayland-client0", "libwayland-client"),
    "libwayland-cursor.so.0": ("libwayland-cursor0", "libwayland-cursor"),
    "libgomp.so.1": ("libgomp1", "libgomp"),
}
COMPILER = {"apt-get": "build-essential", "dnf": "gcc-c++"}
MACOS_FLOOR = (14, 0)  # of the Qt wheels in the lock, as are the two below
GLIBC_FLOOR = {"x86_64": (2, 34), "aarch64": (2, 39)}
VISUAL_STUDIO = (
    "winget install Microsoft.VisualStudio.2022.BuildTools --override "
    '"--wait --passive --add Microsoft.VisualStudio.Workload.VCTools --includeRecommended"'
)


class Missing(Exception):
    """Something is missing that may not, or can not, be installed from here. The text says what to do."""


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _output(command: list[str]) -> str | None:
    """What a short command prints; None where it is not there, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _glibc() -> tuple[int, ...] | None:
    name, version = libc_ver()
    return _numbers(version) if name == "glibc" else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


@dataclass(frozen=True)
class Host:
    """All that is asked of the machine, in one place, so that tests can be another machine."""

    platform: str = sys.platform
    machine: str = field(default_factory=machine_name)
    macos: tuple[int, ...] = field(default_factory=lambda: _numbers(mac_ver()[0]))
    glibc: tuple[int, ...] | None = field(default_factory=_glibc)
    is_root: bool = field(default_factory=lambda: hasattr(os, "geteuid") and os.geteuid() == 0)
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    which: Callable[[str], str | None] = shutil.which
    find_library: Callable[[str], str | None] = ctypes.util.find_library
    loads: Callable[[str], bool] = _loads
    paths: Callable[[str], list[str]] = glob.glob
    output: Callable[[list[str]], str | None] = _output
    run: Callable[[list[str]], int] = lambda command: (
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode
    )

    @property
    def package_manager(self) -> str | None:
        if not self.platform.startswith("linux"):
            return None
        return next((name for name in COMPILER if self.which(name)), None)


def floor_problem(host: Host) -> str:
    """Why this system is too old for the libraries in the lock; empty if it is not."""
    if host.platform == "darwin" and host.macos and host.macos < MACOS_FLOOR:
        return f"Slipstream needs macOS 14 or newer; this is {'.'.join(map(str, host.macos))}."
    floor = GLIBC_FLOOR.get(host.machine)
    if host.platform.startswith("linux") and host.glibc and floor and host.glibc < floor:
        have, want = (".".join(map(str, version)) for version in (host.glibc, floor))
        return f"Qt needs the C library glibc {want} or newer on {host.machine}; this system has {have}."
    return ""


def compiler(host: Host) -> str | None:
    """Path of a C++ compiler, or of the Visual Studio that CMake will find by itself."""
    if host.platform == "win32":
        programs = host.env.get("ProgramFiles(x86)", r"C:\Program Files (x86)")
        vswhere = programs + r"\Microsoft Visual Studio\Installer\vswhere.exe"
        tools = "Microsoft.VisualStudio.Component.VC.Tools.x86.x64"
        query = [vswhere, "-latest", "-products", "*", "-requires", tools, "-property", "installationPath"]
        return host.output(query) or host.which("cl")
    if host.platform == "darwin" and not host.output(["xcode-select", "-p"]):
        return None  # /usr/bin/c++ is there all the same, and only offers to install itself
    return next(
        (found for name in (host.env.get("CXX"), "c++", "g++", "clang++") if name and (found := host.which(name))), None
    )


def missing_libraries(host: Host) -> list[str]:
    """Shared libraries that Qt or the engine needs; on Windows and macOS all of them come along."""
    return [name for name in LIBRARIES if not host.loads(name)] if host.platform.startswith("linux") else []


def packages(host: Host, libraries: list[str], with_compiler: bool) -> list[str]:
    """Names of the packages to install; empty where the package manager is none that we know."""
    manager = host.package_manager
    if manager is None:
        return []
    names = [LIBRARIES[library][manager == "dnf"] for library in libraries]
    return list(dict.fromkeys([*names, *([COMPILER[manager]] if with_compiler else [])]))


def install_command(host: Host, names: list[str]) -> list[str]:
    return [*([] if host.is_root else ["sudo"]), host.package_manager or "apt-get", "install", "-y", *names]


def needs(host: Host) -> str:
    """What set-up would stop for or install, with the command; empty when all is there."""
    libraries, no_compiler = missing_libraries(host), compiler(host) is None
    names = packages(host, libraries, no_compiler)
    if names:
        return " ".join(install_command(host, names))
    wanted = [*libraries, *([_compiler_hint(host)] if no_compiler else [])]
    return "; ".join(wanted)


def _compiler_hint(host: Host) -> str:
    return {"win32": VISUAL_STUDIO, "darwin": "xcode-select --install"}.get(
        host.platform, "a C and C++ compiler (GCC or Clang)"
    )


def provide(host: Host, assume_yes: bool, say: Callable[[str], None]) -> None:
    """Install what is missing as root or with consent. Raises Missing, with the command to type."""
    libraries, no_compiler = missing_libraries(host), compiler(host) is None
    names = packages(host, libraries, no_compiler)
    if names:
        return install(host, names, assume_yes, "System packages are missing", say)
    if no_compiler:
        raise Missing(
            f"There is no C++ compiler, which llama.cpp needs. Get it, then run this again:\n    {_compiler_hint(host)}"
        )
    if libraries:  # another distribution: we can name the files, not the packages
        say(f"The window may not open: these libraries are missing: {' '.join(libraries)}")


def install(host: Host, names: list[str], assume_yes: bool, what: str, say: Callable[[str], None]) -> None:
    """Through apt-get or dnf. Package lists are refreshed only when a first try fails, as in a fresh container."""
    command = install_command(host, names)
    if not (assume_yes or host.is_root) or host.package_manager is None or not host.which(command[0]):
        typed = " ".join(command)
        raise Missing(f"{what}. Install them, then run this again:\n    {typed}\n(With --yes this is done for you.)")
    say(f"{what}; installing {' '.join(names)}…")
    if host.package_manager == "apt-get":
        at = command.index("apt-get")
        apt = [
            *command[:at],
            "env",
            "DEBIAN_FRONTEND=noninteractive",
            "apt-get",
            "-qq",
            "-o",
            "DPkg::Lock::Timeout=300",
        ]
        if host.run([*apt, *command[at + 1 :]]) == 0:
            return
        host.run([*apt, "update"])
        command = [*apt, *command[at + 1 :]]
    if host.run(command):
        raise Missing(f"{what}, and installing failed. Try it by hand:\n    {' '.join(install_command(host, names))}")


def cache_dir(host: Host) -> Path:
    """A folder of this user's that outlives the clone."""
    if host.platform == "win32":
        return Path(host.env.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "Slipstream" / "build"
    if host.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "Slipstream" / "build"
    return Path(host.env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slipstream-build"
