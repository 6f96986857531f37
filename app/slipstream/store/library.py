"""The model files on this computer."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_log = logging.getLogger(__name__)

DEPTH = 3  # folders below the one named: owner, repository, one more
_SHARD = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})$", re.IGNORECASE)
_STARTER = re.compile(r"^SmolLM2-135M-Instruct.*\.gguf$", re.IGNORECASE)


@dataclass(frozen=True)
class LocalModel:
    """A GGUF file, or the first of a model's several. `size_bytes` counts all parts found; `missing_parts` are
    the numbers (from 1) of those that aren't there."""

    path: Path
    name: str
    size_bytes: int
    parts: int = 1
    missing_parts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Library:
    """`unreadable`: folders that could not be looked into."""

    models: tuple[LocalModel, ...]
    unreadable: tuple[Path, ...] = ()


def list_models(folders: Iterable[Path], depth: int = DEPTH) -> Library:
    """The models in these folders and up to `depth` folders below, in that order, each file once.

    Left out: unfinished transfers (.part), vision projectors (mmproj) and the later parts of split models.
    Never raises for what the disk holds; reads names and sizes only.
    """
    models: dict[str, LocalModel] = {}
    unreadable: list[Path] = []
    seen: set[str] = set()
    for folder in folders:
        for directory, files in _walk(Path(folder), depth, unreadable, seen):
            for model in _models_in(directory, files):
                # The same file may be reached by two folders or by a link.
                models.setdefault(os.path.realpath(model.path), model)
    return Library(tuple(models.values()), tuple(unreadable))


def find_starter(models: Iterable[LocalModel]) -> LocalModel | None:
    """The small model the program starts with, where it is here in full."""
    return next((one for one in models if _STARTER.match(one.path.name) and not one.missing_parts), None)


def _walk(folder: Path, depth: int, unreadable: list[Path], seen: set[str]) -> Iterator[tuple[Path, dict[str, int]]]:
    """Each folder once with its files' sizes in bytes, sorted by name regardless of case."""
    real = os.path.realpath(folder)
    if real in seen:  # two overlapping folders, or a loop of links
        return
    seen.add(real)
    files: dict[str, int] = {}
    below: list[Path] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    if entry.is_dir():
                        below.append(Path(entry.path))
                    elif entry.is_file():
                        files[entry.name] = entry.stat().st_size
                except OSError as error:  # gone meanwhile, or not ours to look at
                    _log.info("skipped %s: %s", entry.path, error)
    except FileNotFoundError:
        return
    except OSError as error:
        _log.info("folder not read: %s", error)
        unreadable.append(folder)
        return
    yield folder, dict(sorted(files.items(), key=lambda item: item[0].casefold()))
    if depth > 0:
        for one in sorted(below, key=lambda path: path.name.casefold()):
            yield from _walk(one, depth - 1, unreadable, seen)


def _models_in(directory: Path, files: dict[str, int]) -> Iterator[LocalModel]:
    for file_name, size_bytes in files.items():
        lower = file_name.casefold()
        if not lower.endswith(".gguf") or "mmproj" in lower or lower.startswith("."):
            continue
        name = file_name[: -len(".gguf")]
        shard = _SHARD.match(name)
        if shard is None:
            yield LocalModel(directory / file_name, name, size_bytes)
        elif int(shard["number"]) == 1:
            yield _split_model(directory, file_name, files, shard)


def _split_model(directory: Path, first: str, files: dict[str, int], shard: re.Match[str]) -> LocalModel:
    count = int(shard["count"])
    sizes = {name.casefold(): size for name, size in files.items()}
    parts = {n: sizes.get(f"{shard['stem']}-{n:05d}-of-{shard['count']}.gguf".casefold()) for n in range(1, count + 1)}
    return LocalModel(
        directory / first,
        shard["stem"],
        sum(size for size in parts.values() if size is not None),
        count,
        tuple(number for number, size in parts.items() if size is None),
    )
