"""What an engine is built from, for the window, the command line and the engine's own process. No Qt here."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipstream.domain.errors import StoreFailed
from slipstream.engine import environment
from slipstream.engine.host import EngineHost, Pair
from slipstream.engine.process import ProcessHost, engine_command, run_child
from slipstream.store.pace_records import PaceStore, file_identity, pair_key

_log = logging.getLogger(__name__)


class PaceFile:
    """The engine's pace records in the store's file. A record lost costs a few measuring rounds, so nothing raises."""

    def __init__(self, path: Path) -> None:
        self._store = PaceStore(path)
        self._keys: dict[Pair, str] = {}

    def load(self, pair: Pair) -> dict[str, Any] | None:
        try:
            return self._store.load(self._key(pair))
        except OSError as error:
            _log.warning("no pace record: %s", error)
            return None

    def save(self, pair: Pair, record: dict[str, Any]) -> None:
        try:
            self._store.save(self._key(pair), record)
        except (OSError, StoreFailed) as error:
            _log.warning("pace record not kept: %s", error)

    def _key(self, pair: Pair) -> str:
        if pair not in self._keys:
            draft = file_identity(Path(pair.draft)) if pair.draft else None
            self._keys[pair] = pair_key(
                file_identity(Path(pair.target)), draft, device=pair.device, threads=pair.threads, kv_type=pair.kv_type
            )
        return self._keys[pair]


def make_host(pace_file: Path, *, in_process: bool) -> EngineHost:
    """An engine in a thread of this process, or (the default for the window) in a child that may die alone."""
    if in_process:
        environment.prepare()
        from slipstream.engine.worker import ThreadHost  # loads llama.cpp

        return ThreadHost(PaceFile(pace_file))
    return ProcessHost([*engine_command(), "--pace-file", str(pace_file)])


def engine_main(arguments: Sequence[str]) -> int:
    """`slipstream engine`: commands on stdin, events on stdout, both as frames."""
    parser = argparse.ArgumentParser(prog="slipstream engine", description="The engine process of a window.")
    parser.add_argument("--pace-file", type=Path)
    options = parser.parse_args(arguments)
    return run_child(PaceFile(options.pace_file) if options.pace_file else None)
