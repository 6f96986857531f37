"""Parent's side of the template process: starts it, asks it, kills it when it takes too long or too much."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Literal, Self

import psutil

MODULE = "slipstream.engine.text.template_child"
START_LIMIT_S = 30.0
MEMORY_LIMIT_BYTES = 1536 << 20  # resident; the child bounds itself lower where the system lets it
ANSWER_LIMIT_BYTES = 256 << 20
POLL_S = 0.02
SECRET_WORDS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "CREDENTIAL")

Reason = Literal["slow", "memory", "died", "start", "closed"]


class ChildFailed(Exception):
    """The process gave no answer. `reason`: "slow", "memory", "died", "start" (it never came up) or "closed"."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: Reason = reason
        self.detail = detail


def default_command() -> list[str]:
    """How to start the child with this interpreter. A frozen program is its own interpreter and has to treat
    these arguments (`-m` and MODULE) itself by calling `template_child.main`."""
    return [sys.executable, "-m", MODULE]


def _environment() -> dict[str, str]:
    """The parent's environment with this package importable and without anything that smells of a secret."""
    kept = {name: value for name, value in os.environ.items() if not any(w in name.upper() for w in SECRET_WORDS)}
    root = str(Path(__file__).resolve().parents[3])
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, (root, kept.get("PYTHONPATH"))))
    kept["PYTHONSAFEPATH"] = "1"  # never import from the current directory
    return kept


class _Watch:
    """Kills the process when it passes its time or memory limit; the blocked read then ends by itself, which
    works the same on every platform."""

    def __init__(self, process: subprocess.Popen[bytes], limit_s: float, memory_bytes: int) -> None:
        self.reason: Reason | None = None
        self._process = process
        self._deadline = time.monotonic() + limit_s
        self._memory_bytes = memory_bytes
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="template-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(POLL_S):
            if time.monotonic() > self._deadline:
                return self._kill("slow")
            try:
                resident = psutil.Process(self._process.pid).memory_info().rss
            except psutil.Error:
                continue
            if resident > self._memory_bytes:
                return self._kill("memory")

    def _kill(self, reason: Reason) -> None:
        self.reason = reason
        self._process.kill()


class TemplateProcess:
    """One child, started at the first question and again after it had to be killed. Thread-safe."""

    def __init__(
        self,
        command: Sequence[str] | None = None,
        *,
        start_limit_s: float = START_LIMIT_S,
        memory_limit_bytes: int = MEMORY_LIMIT_BYTES,
    ) -> None:
        self._command = list(command or default_command())
        self._start_limit_s = start_limit_s
        self._memory_limit_bytes = memory_limit_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._closed = False
        self._lock = threading.Lock()

    def ask(self, request: dict[str, Any], limit_s: float) -> dict[str, Any]:
        """The child's answer. Raises ChildFailed; the next question then gets a fresh child."""
        with self._lock:
            if self._closed:
                raise ChildFailed("closed")
            process = self._process or self._start()
            return self._exchange(process, {**request, "limit_s": limit_s}, limit_s)

    def close(self) -> None:
        """End the child. Safe to call twice."""
        with self._lock:
            self._closed = True
            self._end()

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the child)
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=_environment(),
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            self._end()
            raise ChildFailed("start", str(error)) from error
        try:
            answer = self._exchange(self._process, None, self._start_limit_s)
        except ChildFailed as error:
            raise ChildFailed("start", error.detail) from error
        if answer != {"ready": True}:
            self._end()
            raise ChildFailed("start", "unexpected greeting")
        return self._process

    def _exchange(
        self, process: subprocess.Popen[bytes], request: dict[str, Any] | None, limit_s: float
    ) -> dict[str, Any]:
        answer: object = None
        with _Watch(process, limit_s, self._memory_limit_bytes) as watch, contextlib.suppress(OSError, ValueError):
            if request is not None:
                _write(process, request)
            answer = _read(process)
        if isinstance(answer, dict):
            return answer
        detail = self._last_words()
        self._end()
        raise ChildFailed(watch.reason or "died", detail)

    def _last_words(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        return self._errors.read()[-2000:].decode("utf-8", "replace")

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            process.wait()
        if self._errors is not None:
            self._errors.close()
            self._errors = None


def _write(process: subprocess.Popen[bytes], request: dict[str, Any]) -> None:
    assert process.stdin is not None
    body = json.dumps(request).encode("ascii")
    process.stdin.write(len(body).to_bytes(4, "big") + body)
    process.stdin.flush()


def _read(process: subprocess.Popen[bytes]) -> object:
    """One answer; None where the child ended first. Raises ValueError on anything that is no frame."""
    assert process.stdout is not None
    head = process.stdout.read(4)
    size = int.from_bytes(head, "big")
    if len(head) < 4:
        return None
    if size > ANSWER_LIMIT_BYTES:
        raise ValueError("answer too large")
    body = process.stdout.read(size)
    return json.loads(body) if len(body) == size else None
