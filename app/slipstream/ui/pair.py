"""Which models are loaded, and the way there and back."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Signal

from slipstream.domain.errors import ErrorInfo
from slipstream.domain.protocol import (
    Cancel,
    EngineGone,
    Event,
    Load,
    Loaded,
    LoadProgress,
    LoadRefused,
    Unload,
    Unloaded,
)
from slipstream.ui.bridge import Bridge
from slipstream.ui.keeper import SettingsKeeper

State = Literal["none", "loading", "ready", "gone", "refused"]


class PairControl(QObject):
    """Owns the state of the loaded pair. `changed()` on every step; the rest says what the step was."""

    changed = Signal()
    progressed = Signal(object)  # LoadProgress
    loaded = Signal(object)  # Loaded
    refused = Signal(object)  # ErrorInfo
    gone = Signal(object)  # ErrorInfo
    unloaded = Signal()

    def __init__(self, bridge: Bridge, keeper: SettingsKeeper, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge, self._keeper = bridge, keeper
        self._load_id = 0
        self.state: State = "none"
        self.target, self.draft = "", ""  # as asked for last
        self.info: Loaded | None = None
        self.error: ErrorInfo | None = None
        self.fraction, self.stage = 0.0, ""

    @property
    def ready(self) -> bool:
        return self.state == "ready"

    @property
    def name(self) -> str:
        """The target's short name, "" for none."""
        if self.info is not None:
            return self.info.target.name or Path(self.info.target.path).stem
        return Path(self.target).stem if self.target else ""

    def load(self, target: str, draft: str = "") -> None:
        """Load this pair in place of what is there. Both are absolute paths; `draft` may be empty."""
        self._load_id += 1
        self.target, self.draft = target, draft
        self.state, self.info, self.error, self.fraction = "loading", None, None, 0.0
        settings = self._keeper.now.engine(target, draft or None)
        self._bridge.send(Load(self._load_id, target, draft or None, settings))
        self.changed.emit()

    def reload(self) -> None:
        """Load the pair asked for last once more."""
        if self.target:
            self.load(self.target, self.draft)

    def cancel(self) -> None:
        if self.state == "loading":
            self._bridge.send(Cancel())

    def unload(self) -> None:
        if self.state in ("ready", "gone", "refused"):
            self._bridge.send(Unload())

    def handle(self, event: Event) -> None:
        """Take one event of the engine; those of a load given up meanwhile are ignored."""
        if isinstance(event, LoadProgress) and event.load_id == self._load_id and self.state == "loading":
            self.fraction, self.stage = event.fraction, event.stage
            self.progressed.emit(event)
        elif isinstance(event, Loaded) and event.load_id == self._load_id:
            self.state, self.info, self.error = "ready", event, None
            self._keeper.change(target=self.target, draft=self.draft, first_run_done=True)
            self.changed.emit()
            self.loaded.emit(event)
        elif isinstance(event, LoadRefused) and event.load_id == self._load_id:
            self.state, self.error = "refused", event.error
            self.changed.emit()
            self.refused.emit(event.error)
        elif isinstance(event, Unloaded):
            if self.state != "loading":
                self.state, self.info, self.error = "none", None, None
                self.changed.emit()
                self.unloaded.emit()
        elif isinstance(event, EngineGone):
            self.state, self.info, self.error = "gone", None, event.error
            self.changed.emit()
            self.gone.emit(event.error)
