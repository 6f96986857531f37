"""The composition root: builds every part of the window and wires them together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import qasync
from PySide6.QtCore import QObject, QRect, QTimer, Signal
from PySide6.QtWidgets import QApplication

from slipstream import __version__
from slipstream.compose import make_host
from slipstream.domain.errors import StoreFailed
from slipstream.store.chats import ChatStore
from slipstream.store.library import Library, list_models
from slipstream.store.paths import Paths, default_paths
from slipstream.store.settings import Geometry, Settings, SettingsStore
from slipstream.ui.bridge import Bridge, EngineHost
from slipstream.ui.dialogs import FaultCatcher
from slipstream.ui.keeper import SettingsFile, SettingsKeeper
from slipstream.ui.later import Later
from slipstream.ui.theme import ThemeManager, resource_path
from slipstream.ui.window import MainWindow

_log = logging.getLogger(__name__)
Scan = Callable[[Sequence[Path]], Library]


def build_window(
    host: EngineHost,
    store: ChatStore,
    settings_store: SettingsFile,
    library: Scan,
    theme: ThemeManager,
    *,
    settings: Settings = Settings(),  # noqa: B008 - frozen
    folders: Sequence[Path] = (),
) -> MainWindow:
    """The window on these parts, not yet shown. `library` lists the models in folders; `folders` are those always
    looked into. Closing the window ends the host and the store. Call `start()` once it is shown."""
    later = Later()
    keeper = SettingsKeeper(settings_store, settings, later)
    bridge = Bridge(host)
    window = MainWindow(bridge, store, keeper, later, library, folders, theme)
    for part in (later, keeper, bridge):
        part.setParent(window)
    # The store last: what the engine still said is written before it closes.
    window.on_close(bridge.close)
    window.on_close(later.close)
    window.on_close(lambda: _close_store(store))
    return window


def run_window(argv: Sequence[str], paths: Paths | None = None, in_process: bool = False) -> int:
    """Show the window and run until it is closed; the exit code. `in_process` runs the engine on a thread here."""
    paths = paths or default_paths()
    app = QApplication.instance() or QApplication([sys.argv[0], *argv])
    assert isinstance(app, QApplication)
    app.setApplicationName("Slipstream")
    app.setApplicationVersion(__version__)
    app.setDesktopFileName("slipstream")
    loop = qasync.QEventLoop(app)
    asyncio.set_event_loop(loop)
    faults = FaultCatcher()
    faults.install()
    loop.set_exception_handler(faults.asyncio_handler)
    theme = ThemeManager()
    theme.apply(app)
    # Settings decide what is drawn first, so this one small file is read before there is anything to keep waiting.
    settings_store = SettingsStore(paths.settings_file)
    settings, notices = settings_store.load()
    errors = StoreErrors()
    window = build_window(
        make_host(paths.pace_file, in_process=in_process),
        ChatStore(paths.chats_db, errors.report),
        settings_store,
        list_models,
        theme,
        settings=settings,
        folders=model_folders(paths),
    )
    errors.failed.connect(window.store_failed)
    place(window, settings.window)
    window.show()
    window.start()
    for notice in notices:
        window.say("warn", notice)
    app.lastWindowClosed.connect(loop.stop)
    _quit_on_signals(window)
    try:
        with loop:
            loop.run_forever()
    finally:
        window.close()
        faults.uninstall()
    return 0


class StoreErrors(QObject):
    """Carries the store's failures from its thread to the window's."""

    failed = Signal(object)

    def report(self, error: StoreFailed) -> None:
        self.failed.emit(error)


def model_folders(paths: Paths) -> tuple[Path, ...]:
    """Where models are looked for besides the folders in the settings."""
    folders = [paths.models_dir]
    with contextlib.suppress(FileNotFoundError):  # not every build brings the starter along
        folders.append(resource_path("models"))
    return tuple(folders)


def place(window: MainWindow, geometry: Geometry | None) -> None:
    """Where the window was last, if a screen still shows that place."""
    if geometry is None:
        window.resize(1440, 900)
        return
    box = QRect(geometry.x, geometry.y, geometry.width, geometry.height)
    window.resize(box.size())
    if any(screen.availableGeometry().intersects(box) for screen in QApplication.screens()):
        window.move(box.topLeft())
    if geometry.maximised:
        window.showMaximized()


def _quit_on_signals(window: MainWindow) -> None:
    """Ctrl+C in the terminal closes the window as its button does."""
    signal.signal(signal.SIGINT, lambda *_: window.close())
    # Python looks for signals only while it runs: a slow timer gives it the chance.
    pulse = QTimer(window)
    pulse.timeout.connect(lambda: None)
    pulse.start(500)


def _close_store(store: ChatStore) -> None:
    if not store.close():
        _log.error("some text could not be saved")
