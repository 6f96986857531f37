#!/usr/bin/env python3
"""Set Slipstream up from source and run it. Standard library only; any Python from 3.11 on.

    python3 packaging/bootstrap.py run  [ARGS]    set up what is missing, then open the window (or pass ARGS to slipstream)
    python3 packaging/bootstrap.py test [ARGS]    set up, then run the tests (ARGS go to pytest)
    python3 packaging/bootstrap.py bench [ARGS]   set up, then `slipstream bench ARGS`
    python3 packaging/bootstrap.py doctor         say what is there, what is missing, and what a run would do

Options before the command: --yes installs missing system packages (through sudo where needed), --backend picks
cpu, cuda, vulkan or metal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import backends
import starter
import system

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "slipstream-setup.json"
LOG = ROOT / ".venv-setup.log"


class Stop(Exception):
    """Set-up can't go on; the text says why and what to do."""


def venv_python(venv: Path = VENV, platform: str = sys.platform) -> Path:
    return venv / ("Scripts/python.exe" if platform == "win32" else "bin/python")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def find_uv(assume_yes: bool) -> str:
    """uv from PATH, else from an environment of our own that pip fills once."""
    if found := shutil.which("uv"):
        return found
    private = ROOT / ".uv"
    uv = venv_python(private).with_name("uv.exe" if sys.platform == "win32" else "uv")
    if not uv.exists():
        say("Getting uv, which makes the environment…")
        made = subprocess.run([sys.executable, "-m", "venv", str(private)], capture_output=True, text=True)
        if made.returncode:
            system.need_packages(["python3-venv"], assume_yes, "Python's venv module is missing")
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(private)], check=True)
        pip = [str(venv_python(private)), "-m", "pip", "install", "-q", "--disable-pip-version-check", "uv"]
        if subprocess.run(pip).returncode:
            raise Stop("uv could not be fetched. Check the network, or install uv yourself, and run this again.")
    return str(uv)


def digest(lock_name: str) -> str:
    return hashlib.sha256((ROOT / lock_name).read_bytes() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()


def is_current(backend: backends.Choice, lock_name: str) -> bool:
    """Was the environment made from this lock, for this back end and in this folder?"""
    try:
        found = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return False
    wanted = {"backend": backend.name, "root": str(ROOT), lock_name: digest(lock_name)}
    return isinstance(found, dict) and wanted.items() <= found.items() and venv_python().exists()


def cmake_settings(backend: backends.Choice) -> list[str]:
    """uv keeps built wheels by these settings, so they must be the same in every clone: the CMake file that trims
    the build lies in the user's cache, not in the clone."""
    cache = system.cache_dir() / "nocommon.cmake"
    cache.parent.mkdir(parents=True, exist_ok=True)
    text = (ROOT / "packaging" / "nocommon.cmake").read_bytes()
    if not cache.exists() or cache.read_bytes() != text:
        cache.write_bytes(text)
    flags = ["-DLLAVA_BUILD=OFF", f"-DCMAKE_PROJECT_llama.cpp_INCLUDE={cache.as_posix()}", *backend.flags]
    return ["--config-settings", "cmake.args=" + ";".join(flags)]


def install(uv: str, backend: backends.Choice, lock: Path) -> None:
    """Fill the environment from the lock; llama-cpp-python is compiled unless uv still has its wheel."""
    if not venv_python().exists():
        python = sys.executable if sys.version_info >= (3, 11) else "3.11"
        run([uv, "venv", "-q", "--clear", "--python", python, str(VENV)], "The environment could not be made")
    sync = [uv, "pip", "sync", "--python", str(venv_python()), "--require-hashes", *cmake_settings(backend), str(lock)]
    run(sync, "Setting up failed", progress="Setting up (compiling llama.cpp takes minutes the first time)")
    run(
        [uv, "pip", "install", "-q", "--python", str(venv_python()), "--no-deps", "-e", str(ROOT)],
        "Slipstream itself could not be installed",
    )


def run(command: list[str], failure: str, progress: str = "") -> None:
    """Run with the output in a log; on failure its last lines are shown."""
    began = told = time.monotonic()
    environment = {key: value for key, value in os.environ.items() if key not in ("CMAKE_ARGS", "VIRTUAL_ENV")}
    with LOG.open("ab") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
        try:
            while child.poll() is None:
                time.sleep(0.1)
                now = time.monotonic()
                if progress and now - told >= (15 if told > began else 2):
                    told = now
                    say(f"{progress}: {now - began:.0f} s")
        except BaseException:
            child.kill()
            child.wait()
            raise
    if child.returncode:
        lines = LOG.read_text(errors="replace").splitlines()
        tail = "\n".join(f"    {line}" for line in lines[-15:])
        raise Stop(f"{failure}. {reason_in(lines[-60:])}\nThe end of {LOG.name}:\n{tail}")


def reason_in(lines: list[str]) -> str:
    """What went wrong, in words, where the log shows it."""
    text = "\n".join(lines).lower()
    if "no space left" in text:
        return "The disk is full: free about 2 GB and run this again."
    if any(word in text for word in ("dns error", "connection refused", "network is unreachable", "timed out")):
        return "The package index can't be reached: check the network or the proxy and run this again."
    if "cmake_cxx_compiler" in text or "no cmake_c_compiler" in text:
        return "No working C++ compiler was found: `bootstrap.py doctor` names the packages."
    return "Nothing else was changed; running this again goes on from here."


def set_up(options: argparse.Namespace, lock_name: str) -> None:
    backend = backends.choose(options.backend)
    if is_current(backend, lock_name):
        return
    say(f"Back end: {backend.name} ({backend.why}).")
    missing = system.missing_packages()
    if missing:
        system.need_packages(missing, options.yes, "Some system packages are missing")
    uv = find_uv(options.yes)
    STAMP.unlink(missing_ok=True)  # an interrupted set-up is done again
    LOG.unlink(missing_ok=True)
    began = time.monotonic()
    install(uv, backend, ROOT / lock_name)
    locks = ["requirements.lock", *([] if lock_name == "requirements.lock" else [lock_name])]  # tests hold all a run needs
    STAMP.write_text(json.dumps({"backend": backend.name, "root": str(ROOT), **{lock: digest(lock) for lock in locks}}))
    say(f"Set up in {time.monotonic() - began:.0f} s.")


def call(arguments: list[str], **extra: str) -> int:
    environment = os.environ | extra
    try:
        return subprocess.run([str(venv_python()), *arguments], env=environment, cwd=ROOT).returncode
    except KeyboardInterrupt:
        return 130


def doctor(options: argparse.Namespace) -> int:
    backend = backends.choose(options.backend)
    missing = system.missing_packages()
    current = is_current(backend, "requirements.lock")
    print(f"Python:     {sys.version.split()[0]} at {sys.executable}")
    print(f"uv:         {shutil.which('uv') or 'not on PATH; a run gets it into .uv'}")
    print(f"Compiler:   {system.compiler() or 'none found'}")
    print(f"Back end:   {backend.name} ({backend.why})")
    print(f"System:     {'all there' if not missing else 'missing: ' + ' '.join(missing)}")
    if missing:
        print(f"            install with: {' '.join(system.install_command(missing))}")
    print(f"Set up:     {'yes, nothing to do' if current else 'not yet, or out of date: a run sets it up'}")
    return 1 if missing or not system.compiler() else 0


def main(arguments: list[str]) -> int:
    if sys.version_info < (3, 11):  # noqa: UP036 - whoever runs this may have any Python
        say(f"Slipstream needs Python 3.11 or newer; this is {sys.version.split()[0]}.")
        return 1
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--yes", action="store_true", help="install missing system packages")
    parser.add_argument("--backend", choices=[*backends.FLAGS], default=os.environ.get("SLIPSTREAM_BACKEND"))
    parser.add_argument("command", choices=["run", "test", "bench", "doctor"])
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    rest = options.rest
    if "--yes" in rest[:1]:  # also taken right after the command
        options.yes, rest = True, rest[1:]
    try:
        if options.command == "doctor":
            return doctor(options)
        set_up(options, "requirements-dev.lock" if options.command == "test" else "requirements.lock")
        if options.command == "test":
            return call(["-m", "pytest", *rest], QT_QPA_PLATFORM=os.environ.get("QT_QPA_PLATFORM", "offscreen"))
        if options.command == "bench":
            return call(["-m", "slipstream", "bench", *rest])
        starter.fetch(venv_python(), find_uv(options.yes), say)
        return call(["-m", "slipstream", *rest])
    except (Stop, system.Missing, backends.Unknown) as stop:
        say(str(stop))
        return 1
    except KeyboardInterrupt:
        say("Stopped. Running this again goes on from here.")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
