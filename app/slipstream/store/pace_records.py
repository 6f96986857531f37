"""What the pace controller learned of each pair, so that the next session starts from it.

A lost record costs a few measuring rounds, nothing more: a damaged file is simply taken as empty.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.domain.errors import StoreFailed
from slipstream.store.files import atomic_write, read_at_most

_log = logging.getLogger(__name__)

PAIRS_KEPT = 200
_VERSION = 1
_LIMIT_BYTES = 16 * 2**20
_SAMPLE_BYTES = 64 * 1024


@dataclass(frozen=True)
class FileIdentity:
    """What makes a model file that model, wherever it lies and whenever it was copied there.

    `sample` is the SHA-256 of its first and last 64 KiB: the header, and weights of the last tensor."""

    name: str
    size_bytes: int
    sample: str


def file_identity(path: Path) -> FileIdentity:
    """Reads 128 KiB of the file. Raises OSError."""
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read(_SAMPLE_BYTES))
        size_bytes = file.seek(0, 2)
        file.seek(max(0, size_bytes - _SAMPLE_BYTES))
        digest.update(file.read(_SAMPLE_BYTES))
    return FileIdentity(path.name, size_bytes, digest.hexdigest())


def pair_key(target: FileIdentity, draft: FileIdentity | None, *, device: str, threads: int, kv_type: str) -> str:
    """SHA-256 (hex) over all that the speed of a pair depends on. `device`: the name of what the target runs on."""
    parts: list[object] = [device, threads, kv_type]
    for model in (target, draft):
        parts.append([model.name, model.size_bytes, model.sample] if model else None)
    return hashlib.sha256(json.dumps(parts).encode("ascii")).hexdigest()


class PaceStore:
    """One JSON file of records by pair key, the two hundred used last. Safe to use from any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def load(self, key: str) -> dict[str, Any] | None:
        """The record of a pair, or None."""
        with self._lock:
            return self._read().get(key)

    def save(self, key: str, record: dict[str, Any]) -> None:
        """Keep a record as the newest. Raises StoreFailed; the other records are then untouched."""
        with self._lock:
            records = self._read()
            records.pop(key, None)
            records[key] = record
            kept = dict(list(records.items())[-PAIRS_KEPT:])
            try:
                data = json.dumps({"version": _VERSION, "pairs": kept}, allow_nan=False).encode("ascii")
                atomic_write(self._path, data)
            except (OSError, ValueError, TypeError) as error:
                raise StoreFailed(
                    "What was learned about this pair's speed could not be saved.",
                    "It is measured again next time.",
                    f"{self._path}: {error}",
                ) from error

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            decoded = json.loads(read_at_most(self._path, _LIMIT_BYTES).decode("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            _log.warning("pace records not read: %s", error)
            return {}
        pairs = decoded.get("pairs") if isinstance(decoded, dict) and decoded.get("version") == _VERSION else None
        if not isinstance(pairs, dict):
            return {}
        return {key: record for key, record in pairs.items() if isinstance(record, dict)}
