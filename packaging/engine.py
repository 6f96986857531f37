"""The compiled engine (llama-cpp-python), kept in the user's cache so that other clones need not compile it again.

uv keeps wheels that it has built too, but not reliably: an index that forbids caching, as a company's mirror may, makes
it compile again; and what it kept for one processor it would also take for another, on which it may crash.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path

from running import Stop, follow
from system import Host, cache_dir

PACKAGE = "llama-cpp-python"
FOLDER, METADATA = "llama_cpp", "llama_cpp_python-*.dist-info"


def split(lock: str) -> tuple[str, str]:
    """A lock file's lines for the engine (version and hashes), and all the others. Raises Stop where it has none."""
    found = re.search(rf"^{PACKAGE}==.*(?:\n[ \t]+--hash=.*)+\n?", lock, re.MULTILINE)
    if found is None:
        raise Stop(f"The lock file does not hold {PACKAGE} with its hashes: run `bootstrap.py lock`.")
    return found[0], lock[: found.start()] + lock[found.end() :]


def cmake_flags(host: Host, trim: Path, backend_flags: list[str]) -> list[str]:
    """The CMake file that trims the build is named by a path that is the same for every clone."""
    kept = cache_dir(host) / trim.name
    kept.parent.mkdir(parents=True, exist_ok=True)
    text = trim.read_bytes()
    if not kept.exists() or kept.read_bytes() != text:
        kept.write_bytes(text)
    return ["-DLLAVA_BUILD=OFF", f"-DCMAKE_PROJECT_llama.cpp_INCLUDE={kept.as_posix()}", *backend_flags]


def processor(host: Host) -> str:
    """What the compiler may make use of: the build is for this very processor."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace") if host.platform == "linux" else ""
    except OSError:
        text = ""
    features = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    return features[1] if features else host.env.get("PROCESSOR_IDENTIFIER", host.machine)


def key(host: Host, locked: str, flags: list[str], trim: Path) -> str:
    """Equal keys may share an engine: same source, same settings, same kind of processor."""
    parts = [host.platform, host.machine, processor(host), locked, ";".join(flags)]
    digest = hashlib.sha256("\0".join(parts).encode() + trim.read_bytes())
    return digest.hexdigest()[:20]


def kept_or_built(host: Host, install: list[str], locked: str, trim: Path, backend_flags: list[str], log: Path) -> Path:
    """A folder with the engine, compiled if there is none. `install` begins uv's command. Raises Stop."""
    flags = cmake_flags(host, trim, backend_flags)
    folder = cache_dir(host) / f"engine-{key(host, locked, flags, trim)}"
    if not folder.exists():
        # made aside and renamed: a folder with that name is whole
        with tempfile.TemporaryDirectory(dir=cache_dir(host), prefix="part-", ignore_cleanup_errors=True) as part:
            wanted, made = Path(part, "engine.lock"), Path(part, "made")
            wanted.write_text(locked, encoding="utf-8")
            settings = ["--config-settings", "cmake.args=" + ";".join(flags)]
            command = [*install, "--no-deps", "--require-hashes", *settings, "--target", str(made), "-r", str(wanted)]
            follow(
                command, log, "The engine could not be set up", "Setting up the engine (the first time takes minutes)"
            )
            whole = Path(part, "whole")
            put(made, whole)
            try:
                whole.rename(folder)
            except OSError:
                if not folder.exists():  # unless another set-up was quicker
                    raise
    return folder


def put(folder: Path, packages: Path) -> None:
    """Put the engine among an environment's packages, in place of any that is there. The wheel's second copy of the
    libraries, beside the package, is left out."""
    for old in (packages / FOLDER, *packages.glob(METADATA)):
        shutil.rmtree(old, ignore_errors=True)
    for new in (folder / FOLDER, *folder.glob(METADATA)):
        shutil.copytree(new, packages / new.name, copy_function=_link_or_copy)


def _link_or_copy(source: str, target: str) -> str:
    """GPU engines are hundreds of megabytes: nothing ever writes into them, so a hard link will do where it can."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target
