"""Small files written whole or not at all, and bad ones set aside instead of deleted."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from datetime import datetime
from pathlib import Path

_REPLACE_TRIES = 5


def atomic_write(path: Path, data: bytes) -> None:
    """Replace `path` by `data` so that a crash or power cut leaves the old file or the new one.

    A link is followed, so that settings kept elsewhere by a link stay there. The file is readable by its
    owner only. Raises OSError; the old file is then untouched.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    _sync_folder(path.parent)


def read_at_most(path: Path, limit_bytes: int) -> bytes:
    """The file's content. Raises OSError, and ValueError where it is longer than `limit_bytes`."""
    with open(path, "rb") as file:
        data = file.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise ValueError(f"{path.name} is longer than {limit_bytes} bytes")
    return data


def aside_name(path: Path, word: str) -> Path:
    """A free name beside `path` that says what it is and when: chats.damaged-20250131-120000.db."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        again = "" if number == 1 else f"-{number}"
        name = path.with_name(f"{path.stem}.{word}-{stamp}{again}{path.suffix}")
        if not os.path.lexists(name):
            return name
    raise FileExistsError(f"no free name beside {path}")


def set_aside(path: Path, word: str, companions: tuple[str, ...] = ()) -> Path:
    """Rename `path` (and the files named `path` + a companion's suffix) and return the new name. Raises OSError."""
    kept = aside_name(path, word)
    os.rename(path, kept)
    for suffix in companions:
        with contextlib.suppress(FileNotFoundError):
            os.rename(f"{path}{suffix}", f"{kept}{suffix}")
    return kept


def _replace(source: str, target: Path) -> None:
    for attempt in range(_REPLACE_TRIES):
        try:
            os.replace(source, target)
            return
        except PermissionError:
            # On Windows a virus scanner or indexer may hold the old file for a moment.
            if os.name != "nt" or attempt == _REPLACE_TRIES - 1:
                raise
            time.sleep(0.05 * (attempt + 1))


def _sync_folder(folder: Path) -> None:
    """Makes the rename itself durable; Windows can't open folders and doesn't need it."""
    if os.name == "nt":
        return
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
