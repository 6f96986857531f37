"""The settings in memory, saved in the background whenever they change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from PySide6.QtCore import QObject, Signal

from slipstream.store.settings import Settings
from slipstream.ui.later import Later


class SettingsFile(Protocol):
    """Where settings are kept."""

    def load(self) -> tuple[Settings, tuple[str, ...]]: ...

    def save(self, settings: Settings) -> None: ...


class SettingsKeeper(QObject):
    """`now` is what counts; `change` replaces fields and saves. `changed(Settings)` follows."""

    changed = Signal(object)

    def __init__(self, store: SettingsFile, settings: Settings, later: Later, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store, self._later = store, later
        self._now = settings

    @property
    def now(self) -> Settings:
        return self._now

    def change(self, **fields: Any) -> None:
        self.put(replace(self._now, **fields))

    def put(self, settings: Settings) -> None:
        if settings == self._now:
            return
        self._now = settings
        self._later.run(lambda: self._store.save(settings))
        self.changed.emit(settings)
