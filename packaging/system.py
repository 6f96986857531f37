"""System packages that Qt and the compiler need, on Debian/Ubuntu and Fedora."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

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
COMPILER = ("build-essential", "gcc-c++")


class Missing(Exception):
    """System packages are missing and may not be installed from here."""


def package_manager() -> str | None:
    return next((name for name in ("apt-get", "dnf") if shutil.which(name)), None)


def compiler() -> str | None:
    names = ["cl", "clang", "gcc"] if sys.platform == "win32" else [os.environ.get("CXX") or "c++", "g++", "clang++"]
    return next((found for name in names if (found := shutil.which(name))), None)


def has_library(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def missing_packages() -> list[str]:
    """Packages to install, by this system's own names; empty off Linux, where Qt brings all it needs."""
    column = 1 if package_manager() == "dnf" else 0
    found: list[str] = []
    if sys.platform.startswith("linux"):
        found = [names[column] for library, names in LIBRARIES.items() if not has_library(library)]
        if not compiler():
            found.append(COMPILER[column])
    return list(dict.fromkeys(found))


def install_command(packages: list[str]) -> list[str]:
    manager = package_manager()
    root = not hasattr(os, "geteuid") or os.geteuid() == 0
    return [*([] if root else ["sudo"]), manager or "apt-get", "install", "-y", *packages]


def need_packages(packages: list[str], assume_yes: bool, what: str) -> None:
    """Install as root or with consent, else stop with the command to type. Raises Missing."""
    command = install_command(packages)
    allowed = assume_yes or (hasattr(os, "geteuid") and os.geteuid() == 0)
    if package_manager() is None or not allowed:
        raise Missing(f"{what}. Install them, then run this again:\n    {' '.join(command)}\n(--yes does it for you.)")
    print(f"{what}: installing {' '.join(packages)}", file=sys.stderr, flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    if "apt-get" in command:
        update = [*command[: command.index("apt-get") + 1], "update", "-qq"]
        subprocess.run(update, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    if done.returncode:
        raise Missing(f"{what}, and installing them failed. Try it by hand:\n    {' '.join(command)}")


def cache_dir(platform: str = sys.platform) -> Path:
    """A folder of this user's that outlives the clone."""
    if platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "Slipstream" / "build"
    if platform == "darwin":
        return Path.home() / "Library" / "Caches" / "Slipstream" / "build"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slipstream-build"
