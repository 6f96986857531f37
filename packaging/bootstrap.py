#!/usr/bin/env python3
"""Set Slipstream up from source and run it. Standard library only; any Python from 3.11 on.

    python3 packaging/bootstrap.py run [ARGS]     set up what is missing, then open the window (or pass ARGS to slipstream)
    python3 packaging/bootstrap.py test [ARGS]    set up, then run the tests (ARGS go to pytest)
    python3 packaging/bootstrap.py bench [ARGS]   set up, then `slipstream bench ARGS`
    python3 packaging/bootstrap.py starter        set up, then fetch the starter model
    python3 packaging/bootstrap.py doctor         say what is there, what is missing, and what a run would do
    python3 packaging/bootstrap.py lock [ARGS]    write the lock files again (ARGS go to uv, for example --upgrade)

--yes installs missing system packages (through sudo where needed). --backend picks cpu, cuda, vulkan or metal, as does
the variable SLIPSTREAM_BACKEND. Both may stand before or right after the command.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - whoever runs this may have any Python
    sys.exit("Slipstream needs Python 3.11 or newer; this is " + sys.version.split()[0] + ".")

import argparse
import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import backends
import engine
import starter
import system
from running import Stop, follow, say

ROOT = Path(__file__).resolve().parent.parent
RUN_LOCK, TEST_LOCK, BUILD_LOCK = "requirements.lock", "requirements-dev.lock", "requirements-build.lock"


def in_venv(venv: Path, name: str, platform: str) -> Path:
    """Path of a program in an environment."""
    return venv / "Scripts" / f"{name}.exe" if platform == "win32" else venv / "bin" / name


class Checkout:
    """A clone of Slipstream: its environment, and the stamp that says what that was made from."""

    def __init__(self, root: Path, host: system.Host, assume_yes: bool = False) -> None:
        self.root, self.host, self.assume_yes = root, host, assume_yes
        self.venv = root / ".venv"
        self.python = in_venv(self.venv, "python", host.platform)
        self.stamp = self.venv / "slipstream-setup.json"
        self.log = root / ".venv-setup.log"

    def read_stamp(self) -> dict[str, str]:
        try:
            found = json.loads(self.stamp.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def digest(self, lock: str) -> str:
        parts = [
            (self.root / name).read_bytes() for name in (lock, BUILD_LOCK, "pyproject.toml", "packaging/nocommon.cmake")
        ]
        return hashlib.sha256(b"\0".join(parts)).hexdigest()

    def is_current(self, backend: backends.Choice, lock: str) -> bool:
        """Was the environment made from this lock, for this back end and in this folder?"""
        wanted = {"backend": backend.name, "root": str(self.root), lock: self.digest(lock)}
        return wanted.items() <= self.read_stamp().items() and self.python.exists()

    def set_up(self, backend: backends.Choice, lock: str) -> None:
        """Make or mend the environment. An interrupted set-up leaves no stamp and is done again; what uv has is kept."""
        if self.is_current(backend, lock):
            return
        say(f"Back end: {backend.name} ({backend.why}).")
        if problem := system.floor_problem(self.host):
            raise Stop(problem)
        system.provide(self.host, self.assume_yes, say)
        uv = self.find_uv()
        began = time.monotonic()
        self.stamp.unlink(missing_ok=True)
        self.log.unlink(missing_ok=True)
        self.install(uv, backend, lock)
        locks = {RUN_LOCK, lock}  # tests hold all that a run needs
        made = {"backend": backend.name, "root": str(self.root), **{name: self.digest(name) for name in locks}}
        self.stamp.write_text(json.dumps(made), encoding="utf-8")
        say(f"Set up in {time.monotonic() - began:.0f} s.")

    def install(self, uv: str, backend: backends.Choice, lock: str) -> None:
        """Fill the environment from the lock: the engine, the libraries, Slipstream itself."""
        if not self.works():
            follow(
                [uv, "venv", "-q", "--clear", "--python", sys.executable, str(self.venv)], self.log, "No environment"
            )
        pip = [uv, "pip"]
        there = ["--python", str(self.python)]
        build = ["--build-constraints", str(self.root / BUILD_LOCK)]
        ours, others = engine.split((self.root / lock).read_text(encoding="utf-8"))
        trim = self.root / "packaging" / "nocommon.cmake"
        made = engine.kept_or_built(self.host, [*pip, "install", *there, *build], ours, trim, backend.flags, self.log)
        wanted = self.venv / lock
        wanted.write_text(others, encoding="utf-8")
        sync = [*pip, "sync", *there, "--require-hashes", str(wanted)]
        follow(sync, self.log, "Setting up failed", label="Fetching libraries")
        engine.put(made, self.packages())
        own = [*pip, "install", *there, "--no-deps", *build, "-e", str(self.root)]
        follow(own, self.log, "Slipstream itself could not be installed")

    def packages(self) -> Path:
        """Where the environment's libraries are."""
        question = "import sysconfig; print(sysconfig.get_path('platlib'))"
        answer = self.host.output([str(self.python), "-I", "-c", question])
        if not answer:
            raise Stop(f"{self.python} does not answer. Delete {self.venv}, then run this again.")
        return Path(answer)

    def works(self) -> bool:
        """Is there an environment whose Python starts? One may be half made, or its Python may have been removed."""
        return self.python.exists() and self.host.output([str(self.python), "-c", "print(1)"]) == "1"

    def find_uv(self) -> str:
        """uv from PATH, else from an environment of our own that pip fills once. Raises Stop or Missing."""
        found = self.host.which("uv")
        if found and self.host.output([found, "--version"]):  # a version manager's stand-in may lead nowhere
            return found
        private = self.root / ".uv"
        uv, python = (in_venv(private, name, self.host.platform) for name in ("uv", "python"))
        if not (uv.exists() and self.host.output([str(uv), "--version"])):
            say("Getting uv, which makes the environment…")
            make = [sys.executable, "-m", "venv", "--clear", str(private)]
            if self.host.run(make):
                names = [f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"]
                if self.host.package_manager != "apt-get":  # only Debian takes venv out of Python
                    raise Stop(f"`{' '.join(make)}` failed: this Python is not whole.")
                system.install(self.host, names, self.assume_yes, "Python's venv module is missing", say)
                if self.host.run(make):
                    raise Stop(f"`{' '.join(make)}` failed. Install uv yourself, then run this again.")
            pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "uv"]
            follow(pip, self.log, "uv could not be fetched; check the network, or install uv yourself")
        return str(uv)


def lock_files(checkout: Checkout, extra: list[str]) -> None:
    """Hashed and for every platform at once; uv's own lock format would name the package index of whoever wrote it."""
    uv = checkout.find_uv()
    compile_ = [
        uv,
        "pip",
        "compile",
        "-q",
        "--universal",
        "--generate-hashes",
        "--python-version",
        "3.11",
        "--no-header",
    ]
    for arguments in (
        ["pyproject.toml", "-o", RUN_LOCK],
        ["pyproject.toml", "--extra", "dev", "-c", RUN_LOCK, "-o", TEST_LOCK],
        ["--group", "pyproject.toml:build", "-o", BUILD_LOCK],
    ):
        if subprocess.run([*compile_, *extra, *arguments], cwd=checkout.root).returncode:
            raise Stop("The lock files could not all be written.")


def doctor(checkout: Checkout, asked: str | None) -> int:
    """Print what there is. Exit code 0 if a run would go through without anything being installed by hand."""
    host = checkout.host
    backend = backends.choose(asked, host)
    needs, floor = system.needs(host), system.floor_problem(host)
    current = checkout.is_current(backend, RUN_LOCK)
    models = "known after the set-up"
    if checkout.works():
        try:
            models = str(starter.models_dir(checkout.python))
        except (OSError, subprocess.SubprocessError):
            pass
    free_gb = shutil.disk_usage(checkout.root).free / 1e9
    rows = [
        ("Python", f"{sys.version.split()[0]} at {sys.executable}"),
        ("uv", host.which("uv") or "not on PATH; a run gets it into .uv"),
        ("Compiler", system.compiler(host) or "none"),
        ("System", floor or (f"missing; get it with: {needs}" if needs else "all libraries are there")),
        ("Disk", f"{free_gb:.0f} GB free" + (" (a set-up takes about 2)" if free_gb < 3 else "")),
        *(("GPU", line) for line in backends.drivers(host) or ["no driver answers"]),
        *((name, f"{'yes' if usable else 'no'}: {why}") for name, (usable, why) in backends.survey(host).items()),
        ("Models", models),
        ("Back end", f"{backend.name} ({backend.why})"),
        (
            "A run",
            "starts at once" if current else "sets up first (compiling llama.cpp unless it is kept), then starts",
        ),
    ]
    for name, text in rows:
        print(f"{name + ':':<10} {text}")
    return 1 if needs or floor else 0


def start(checkout: Checkout, arguments: list[str], **extra: str) -> int:
    """Go over into the program; as a child only on Windows, where a process can't be replaced."""
    command = [str(checkout.python), "-P", *arguments]
    environment = {**os.environ, **extra}
    if os.name == "posix":
        sys.stdout.flush()
        os.execve(command[0], command, environment)
    return subprocess.run(command, env=environment).returncode


def parse(arguments: list[str]) -> argparse.Namespace:
    """Options of ours stand before the command or right after it; all else there belongs to the command."""
    options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    options.add_argument("--yes", action="store_true")
    options.add_argument("--backend", choices=[*backends.FLAGS])
    parser = argparse.ArgumentParser(
        parents=[options],
        usage="bootstrap.py [--yes] [--backend NAME] COMMAND [ARGS]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=["run", "test", "bench", "starter", "doctor", "lock"])
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    found = parser.parse_args(arguments)
    while found.rest and found.rest[0].split("=")[0] in ("--yes", "--backend"):
        count = 2 if found.rest[0] == "--backend" else 1
        options.parse_args(found.rest[:count], found)
        found.rest = found.rest[count:]
    found.backend = found.backend or os.environ.get("SLIPSTREAM_BACKEND") or None
    return found


def perform(options: argparse.Namespace, checkout: Checkout) -> int:
    if options.command == "doctor":
        return doctor(checkout, options.backend)
    if options.command == "lock":
        lock_files(checkout, options.rest)
        return 0
    backend = backends.choose(options.backend, checkout.host)
    checkout.set_up(backend, TEST_LOCK if options.command == "test" else RUN_LOCK)
    if options.command == "test":
        os.chdir(checkout.root)
        return start(
            checkout, ["-m", "pytest", *options.rest], QT_QPA_PLATFORM=os.environ.get("QT_QPA_PLATFORM", "offscreen")
        )
    if options.command == "bench":
        return start(checkout, ["-m", "slipstream", "bench", *options.rest])
    is_there = starter.fetch(checkout.python, checkout.find_uv, say, only_if_empty=options.command == "run")
    if options.command == "starter":
        return 0 if is_there else 1
    return start(checkout, ["-m", "slipstream", *options.rest])


def interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    for name in ("SIGTERM", "SIGHUP"):  # so that compilers are ended too
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), interrupt)
    options = parse(arguments)
    try:
        return perform(options, Checkout(ROOT, system.Host(), options.yes))
    except (Stop, system.Missing, backends.Unknown) as stop:
        say(str(stop))
        return 1
    except OSError as error:
        full = error.errno == errno.ENOSPC
        say("The disk is full: free about 2 GB, then run this again." if full else f"Set-up can't go on: {error}")
        return 1
    except KeyboardInterrupt:
        say("\nStopped. Running this again goes on from here.")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
