"""Long commands of the set-up: output into a log, progress on the terminal, a sentence when they fail."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

POLITE_S = 5
QUIET_S = 15  # between two progress lines where they can't be painted over each other


class Stop(Exception):
    """Set-up can't go on; the text says why and what to do."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def compiled(scratch: Path) -> tuple[int, int]:
    """Object files there are in a build below this folder, and how many Ninja will make (0 where it is not Ninja)."""
    done = sum(len(list(scratch.rglob(pattern))) for pattern in ("*.o", "*.obj"))
    total = 0
    for plan in scratch.glob("*/build/build.ninja"):
        total += len(re.findall(r"^build [^:\n]*\.o(?:bj)?: ", plan.read_text(errors="replace"), re.MULTILINE))
    return done, total


def progress_line(label: str, elapsed_s: float, done: int, total: int) -> str:
    if not done:
        return f"{label}… {elapsed_s:.0f} s"
    of = f" of {total}" if total else ""
    return f"{label}: llama.cpp, {done}{of} files compiled, {elapsed_s:.0f} s"


def follow(command: list[str], log: Path, failure: str, label: str = "") -> None:
    """Run to the end, or stop the command with all its children when interrupted. Raises Stop when it fails."""
    # a build backend makes its folder where these say: that is how its object files can be counted, and how a
    # build that was interrupted leaves nothing behind
    scratch = Path(tempfile.mkdtemp(prefix="slipstream-"))
    environment = {key: value for key, value in os.environ.items() if key not in ("CMAKE_ARGS", "VIRTUAL_ENV")}
    environment |= dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(scratch))
    try:
        with log.open("ab") as out:
            child = subprocess.Popen(
                command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
            )
            try:
                _watch(child, scratch, label)
            except BaseException:
                _end(child)
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if child.returncode:
        raise Stop(explain(failure, log.read_text(encoding="utf-8", errors="replace").splitlines(), log))


def _watch(child: subprocess.Popen[bytes], scratch: Path, label: str) -> None:
    """Say how far it is: on a terminal in one line that is painted over, elsewhere seldom."""
    painted = bool(label) and sys.stderr.isatty()
    began = time.monotonic()
    told_s = 0.0
    while True:
        try:
            child.wait(0.2)
            break
        except subprocess.TimeoutExpired:
            elapsed_s = time.monotonic() - began
        due_s = 1 if painted else QUIET_S if told_s else 2
        if label and elapsed_s - told_s >= due_s:
            told_s = elapsed_s
            line = progress_line(label, elapsed_s, *compiled(scratch))
            if painted:
                sys.stderr.write(f"\r\x1b[2K{line}")
                sys.stderr.flush()
            else:
                say(line)
    if painted and told_s:
        sys.stderr.write("\r\x1b[2K")


def _end(child: subprocess.Popen[bytes]) -> None:
    """The command and every compiler that it started."""
    if sys.platform == "win32":
        subprocess.run(["taskkill", "/T", "/F", "/PID", str(child.pid)], capture_output=True)
    else:
        # Ninja gives every compiler a process group of its own; only Ninja ends those, when it is asked politely
        deadline = time.monotonic() + POLITE_S
        try:
            os.killpg(child.pid, signal.SIGTERM)
            while time.monotonic() < deadline:
                child.poll()
                os.killpg(child.pid, 0)
                time.sleep(0.05)
            os.killpg(child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # macOS says the latter of a group that has ended
            pass
    child.kill()
    child.wait()


# words in the log, lower case → what they mean for whoever waits
REASONS = (
    (
        ("no space left", "os error 28", "not enough space on the disk"),
        "The disk is full: free about 2 GB, then run this again.",
    ),
    (
        ("invalid peer certificate", "unknownissuer"),
        "The package index's certificate is not trusted. Behind a company proxy, set SSL_CERT_FILE to its certificate.",
    ),
    (
        (
            *("dns error", "connection refused", "network is unreachable", "operation timed out", "connect error"),
            *("failed to fetch", "error sending request", "could not find a version that satisfies"),
        ),
        "The package index can't be reached: check the network or the proxy, then run this again.",
    ),
    (
        ("hash mismatch",),
        "A package is not the one that the lock names. If you use a mirror of the package index, ask there.",
    ),
    (
        ("no wheels with a matching", "doesn't have a source distribution or wheel for the current platform"),
        "A library in the lock has no build for this system or this Python.",
    ),
    (
        (
            "cmake_cxx_compiler",
            "cmake_c_compiler",
            "not able to compile a simple test",
            "could not find any instance of visual studio",
        ),
        "No working C++ compiler was found: `bootstrap.py doctor` says how to get one.",
    ),
    (("failed to build",), "Compiling llama.cpp failed."),
)


def explain(failure: str, lines: list[str], log: Path) -> str:
    """What failed, why in words where the log shows it, its telling lines, and where the log is."""
    text = "\n".join(lines).lower()
    reason = next((meaning for words, meaning in REASONS if any(word in text for word in words)), "")
    told = [line for line in lines if re.search(r"\b(fatal )?error:|CMake Error|FAILED:", line)][:5]
    shown = [*told, *(["…"] if told else []), *[line for line in lines[-10:] if line not in told]]
    tail = "\n".join(f"    {line.rstrip()[:200]}" for line in shown)
    return f"{failure}. {reason}\n{tail}\nAll of it: {log}\nRunning this again goes on from here."
