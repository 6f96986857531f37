"""Every setting, declared once: type, default, what is allowed, and a sentence on what it does."""

# ruff: noqa: RUF009 - `_setting` is dataclasses.field; readers raise ValueError for any bad value

from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, cast

from slipstream.domain.errors import StoreFailed
from slipstream.domain.protocol import EngineSettings, Overflow
from slipstream.domain.sampling import Sampling
from slipstream.domain.speculation import Mode, Speculation
from slipstream.store.files import atomic_write, read_at_most, set_aside
from slipstream.store.readers import (
    Reader,
    choice,
    integer,
    member,
    number,
    optional,
    read_sampling,
    switch,
    text,
    texts,
)

_log = logging.getLogger(__name__)

VERSION = 1
_LIMIT_BYTES = 4 * 2**20
_PAIRS_KEPT = 100
_RECENT_KEPT = 20


def _setting(default: Any, reader: Reader, about: str) -> Any:
    return field(default=default, metadata={"read": reader, "about": about})


_PATH = text(4096)
_N_CTX = integer(0, 2**24)
_GPU_LAYERS = integer(-1, 1000)
_KV_TYPE = choice("f16", "q8_0", "q4_0")
_FLASH = choice("auto", "on", "off")
_LENGTH = integer(1, 16)
_CONFIDENCE = number(0.0, 1.0)
_COORDINATE = integer(-100_000, 100_000)
_SIDE = integer(1, 100_000)

# ---------------------------------------------------------------- parts


@dataclass(frozen=True)
class Geometry:
    """The window's place on the desktop, in device-independent pixels."""

    x: int = _setting(0, _COORDINATE, "Left edge.")
    y: int = _setting(0, _COORDINATE, "Top edge.")
    width: int = _setting(1440, _SIDE, "Width.")
    height: int = _setting(900, _SIDE, "Height.")
    maximised: bool = _setting(False, switch, "Whether it fills the screen.")


@dataclass(frozen=True)
class PairSettings:
    """What was chosen for one pair of models; it goes before the general settings when that pair is loaded."""

    target: str = _setting("", _PATH, "The target's file.")
    draft: str = _setting("", _PATH, "The draft's file; empty for none.")
    n_ctx: int = _setting(0, _N_CTX, "Context in tokens; 0 takes the model's own, at most 8192.")
    gpu_layers_target: int = _setting(-1, _GPU_LAYERS, "Target layers on the GPU; -1 is all.")
    gpu_layers_draft: int = _setting(-1, _GPU_LAYERS, "Draft layers on the GPU; -1 is all.")
    kv_type: str = _setting("f16", _KV_TYPE, "How the context is kept in memory.")
    flash_attention: str = _setting("auto", _FLASH, "Flash attention.")
    mode: Mode = _setting(Mode.AUTO, member(Mode), "When the draft guesses.")
    length: int = _setting(4, _LENGTH, "Guesses a round when always on.")
    min_confidence: float = _setting(0.0, _CONFIDENCE, "Stop guessing when the draft is less sure than this.")


def _object(kind: type[Any]) -> Reader:
    """Reads a part field by field; a bad field makes the part bad."""

    def read(value: object) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError("must be an object")
        return kind(**{one.name: one.metadata["read"](value[one.name]) for one in fields(kind) if one.name in value})

    return read


def _pairs(value: object) -> tuple[PairSettings, ...]:
    if not isinstance(value, list):
        raise ValueError("must be a list")
    read = _object(PairSettings)
    return tuple(read(one) for one in value[:_PAIRS_KEPT])


# ---------------------------------------------------------------- all of them


@dataclass(frozen=True)
class Settings:
    """All settings. Made anew with `dataclasses.replace`; what each does is in its `about` (see `about`)."""

    theme: str = _setting("system", choice("system", "light", "dark"), "Colours of the window.")
    language: str = _setting("", text(32), "Language of the window; empty follows the system.")
    reduced_motion: bool = _setting(False, switch, "Show changes without movement.")
    window: Geometry | None = _setting(None, optional(_object(Geometry)), "Where the window was.")
    sidebar_open: bool = _setting(True, switch, "Show the list of chats.")
    panel_open: bool = _setting(True, switch, "Show the Slipstream panel.")
    panel_details_open: bool = _setting(False, switch, "Show the panel's other instruments.")
    token_colouring: str = _setting("off", choice("off", "tint", "underline"), "Mark the text the draft guessed.")
    send_with_enter: bool = _setting(True, switch, "Enter sends; Shift+Enter makes a new line.")

    target: str = _setting("", _PATH, "The target used last.")
    draft: str = _setting("", _PATH, "The draft used last; empty for none.")
    load_at_start: bool = _setting(True, switch, "Load the last pair when the window opens.")
    last_chat: str = _setting("", text(64), "The chat shown last.")
    first_run_done: bool = _setting(False, switch, "Whether the welcome page was finished.")
    model_folders: tuple[str, ...] = _setting((), texts(50), "More folders to look for models in.")
    recent_folders: tuple[str, ...] = _setting((), texts(_RECENT_KEPT), "Folders chosen lately, newest first.")

    n_ctx: int = _setting(0, _N_CTX, "Context in tokens; 0 takes the model's own, at most 8192.")
    threads: int = _setting(0, integer(0, 1024), "Processor threads; 0 chooses.")
    gpu_layers_target: int = _setting(-1, _GPU_LAYERS, "Target layers on the GPU; -1 is all.")
    gpu_layers_draft: int = _setting(-1, _GPU_LAYERS, "Draft layers on the GPU; -1 is all.")
    kv_type: str = _setting("f16", _KV_TYPE, "How the context is kept in memory.")
    flash_attention: str = _setting("auto", _FLASH, "Flash attention.")

    mode: Mode = _setting(Mode.AUTO, member(Mode), "When the draft guesses: auto, always on, off.")
    length: int = _setting(4, _LENGTH, "Guesses a round when always on.")
    min_confidence: float = _setting(0.0, _CONFIDENCE, "Stop guessing when the draft is less sure than this.")

    sampling: Sampling | None = _setting(None, optional(read_sampling), "How tokens are drawn; none: the model's own.")
    system_prompt: str = _setting("", text(100_000), "Instructions put before each new chat.")
    max_tokens: int = _setting(0, integer(0, 2**24), "Longest reply in tokens; 0: no limit.")
    overflow: Overflow = _setting(Overflow.STOP, member(Overflow), "When a chat no longer fits the context.")
    pairs: tuple[PairSettings, ...] = _setting((), _pairs, "Settings of single pairs, latest first.")

    def pair(self, target: str, draft: str | None) -> PairSettings:
        """What is set for this pair, or the general settings as such."""
        for one in self.pairs:
            if (one.target, one.draft) == (target, draft or ""):
                return one
        shared = {one.name: getattr(self, one.name) for one in fields(PairSettings)}
        return PairSettings(**{**shared, "target": target, "draft": draft or ""})

    def with_pair(self, pair: PairSettings) -> Settings:
        """With this pair's settings remembered; those unused longest are dropped beyond a hundred."""
        others = tuple(one for one in self.pairs if (one.target, one.draft) != (pair.target, pair.draft))
        return replace(self, pairs=(pair, *others)[:_PAIRS_KEPT])

    def engine(self, target: str, draft: str | None) -> EngineSettings:
        """The engine's settings for loading this pair."""
        pair = self.pair(target, draft)
        return EngineSettings(
            n_ctx=pair.n_ctx,
            threads=self.threads,
            gpu_layers_target=pair.gpu_layers_target,
            gpu_layers_draft=pair.gpu_layers_draft,
            kv_type=pair.kv_type,
            flash_attention=pair.flash_attention,
        )

    def speculation(self, target: str, draft: str | None) -> Speculation:
        """What is asked of speculation with this pair."""
        pair = self.pair(target, draft)
        return Speculation(pair.mode, pair.length, pair.min_confidence)

    def with_recent_folder(self, folder: str) -> Settings:
        """With this folder first among those chosen lately."""
        others = tuple(one for one in self.recent_folders if one != folder)
        return replace(self, recent_folders=(folder, *others)[:_RECENT_KEPT])


def about(name: str) -> str:
    """The sentence that says what a setting does. Raises KeyError for an unknown one."""
    return str({one.name: one.metadata["about"] for one in fields(Settings)}[name])


# ---------------------------------------------------------------- the file


class SettingsStore:
    """Settings as a JSON file. `load` never raises; `save` replaces the file whole. Both may be called from any
    thread and wait for the disk, so the window calls them off its own thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._foreign: dict[str, Any] = {}  # what a newer version wrote and this one doesn't know
        self._foreign_top: dict[str, Any] = {}
        self._newer: dict[str, Any] = {}  # values of a newer version for settings known here
        self._version = VERSION
        self._keep_old = False  # the file could not be read nor renamed: don't write over it

    def load(self) -> tuple[Settings, tuple[str, ...]]:
        """The settings and sentences for the user. A damaged file is renamed and kept, and defaults are used;
        a bad value alone takes its default."""
        with self._lock:
            self._foreign, self._foreign_top, self._newer = {}, {}, {}
            self._version, self._keep_old = VERSION, False
            try:
                data = read_at_most(self._path, _LIMIT_BYTES)
                decoded = _decode(data)
            except FileNotFoundError:
                return Settings(), ()
            except OSError as error:
                _log.warning("settings not read: %s", error)
                self._keep_old = True
                return Settings(), (f"The settings in {self._path} could not be read, so the defaults are used.",)
            except ValueError as error:
                return Settings(), (self._quarantine(error),)
            return self._take(decoded)

    def save(self, settings: Settings) -> None:
        """Replace the file. Raises StoreFailed; the old file is then untouched."""
        with self._lock:
            known = {one.name: _encode(getattr(settings, one.name)) for one in fields(Settings)}
            for name, value in self._newer.items():
                if getattr(settings, name) == getattr(Settings(), name):
                    known[name] = value
            whole = {**self._foreign_top, "version": self._version, "settings": {**self._foreign, **known}}
            try:
                if self._keep_old and self._path.exists():
                    set_aside(self._path, "unread")
                self._keep_old = False
                data = json.dumps(whole, indent=2, allow_nan=False).encode("ascii")
                atomic_write(self._path, data + b"\n")
            except (OSError, ValueError) as error:
                raise StoreFailed(
                    "The settings could not be saved.",
                    "Check that there is room on the disk and that you may write to the settings folder.",
                    f"{self._path}: {error}",
                ) from error

    def _take(self, decoded: dict[str, Any]) -> tuple[Settings, tuple[str, ...]]:
        version = decoded.get("version")
        if isinstance(version, int) and not isinstance(version, bool):
            self._version = max(VERSION, version)
        values: dict[str, Any] = decoded["settings"]
        good: dict[str, Any] = {}
        notices: list[str] = []
        names = {one.name for one in fields(Settings)}
        for one in fields(Settings):
            if one.name not in values:
                continue
            try:
                good[one.name] = one.metadata["read"](values[one.name])
            except ValueError as error:
                if self._version > VERSION:
                    self._newer[one.name] = values[one.name]
                notices.append(f"The setting “{one.name}” {error}; its default is used.")
        self._foreign = {name: value for name, value in values.items() if name not in names}
        self._foreign_top = {name: value for name, value in decoded.items() if name not in ("version", "settings")}
        return Settings(**good), tuple(notices)

    def _quarantine(self, error: ValueError) -> str:
        _log.warning("settings file is damaged: %s", error)
        try:
            kept = set_aside(self._path, "damaged")
        except OSError as failure:
            _log.warning("could not be set aside: %s", failure)
            self._keep_old = True
            return f"The settings file {self._path} is damaged, so the defaults are used."
        return f"The settings file was damaged, so the defaults are used. The old file is kept as {kept}."


def _decode(data: bytes) -> dict[str, Any]:
    """The file as an object with an object of settings in it. Raises ValueError."""
    try:
        decoded = json.loads(data.decode("utf-8-sig"), parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(decoded, dict) or not isinstance(decoded.get("settings"), dict):
        raise ValueError("not a settings file")
    return cast("dict[str, Any]", decoded)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


def _encode(value: Any) -> Any:
    """A setting as JSON. Enumerations are strings already; a float that is no number can't come from a reader."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _encode(part) for name, part in asdict(value).items()}
    if isinstance(value, tuple | list):
        return [_encode(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
