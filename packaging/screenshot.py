"""Make the README's screenshot from the real window, engine and models.

    python packaging/screenshot.py TARGET.gguf [--draft DRAFT.gguf] [--theme light|dark] [--size 1440x900] OUT.png

It uses a folder of its own, so that no chat or setting of the user is read or changed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))

from PySide6.QtCore import QSize
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from slipstream.app import build_window
from slipstream.compose import make_host
from slipstream.store.chats import ChatStore
from slipstream.store.library import Library, LocalModel
from slipstream.store.paths import HOME_VARIABLE, default_paths
from slipstream.store.settings import Settings, SettingsStore
from slipstream.ui.theme import ThemeManager
from slipstream.ui.window import MainWindow

PROMPT = "Write a short Python function that counts the words in a text file, and explain it in a few steps."


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    parser.add_argument("--size", default="1440x900")
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--tokens", type=int, default=320, help="longest reply, in tokens")
    parser.add_argument("--wait-s", type=float, default=300.0, help="give up after so many seconds")
    parser.add_argument("--while-streaming", action="store_true", help="take the picture in mid-reply")
    parser.add_argument("--in-process", action="store_true", help="run the engine on a thread")
    return parser.parse_args()


def wait_for(done: Callable[[], bool], limit_s: float, what: str) -> None:
    """Raises SystemExit where it takes longer than `limit_s` seconds."""
    end = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > end:
            raise SystemExit(f"gave up waiting for {what}")
        QTest.qWait(50)


def take(window: MainWindow, options: argparse.Namespace) -> None:
    window.pair.load(str(options.target.absolute()), str(options.draft.absolute()) if options.draft else "")
    wait_for(lambda: window.pair.state != "loading", options.wait_s, "the models")
    if not window.pair.ready:
        raise SystemExit(window.pair.error.sentence() if window.pair.error else "the models were not loaded")
    window.session.send(options.prompt)
    if options.while_streaming:
        enough = options.tokens // 2

        def far() -> bool:
            reply = window.session.reply
            return reply is None or reply.totals.tokens >= enough

        wait_for(far, options.wait_s, "the reply")
    else:
        wait_for(lambda: window.session.reply is None, options.wait_s, "the reply")
        QTest.qWait(2500)  # the verdict changes at most every two seconds
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if not window.grab().save(str(options.out)):
        raise SystemExit(f"could not write {options.out}")


def main() -> int:
    options = arguments()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    width, height = (int(part) for part in options.size.split("x"))
    app = QApplication(sys.argv[:1])
    theme = ThemeManager()
    theme.apply(app)
    with tempfile.TemporaryDirectory() as home:
        os.environ[HOME_VARIABLE] = home
        paths = default_paths()
        settings = replace(
            Settings(), theme=options.theme, max_tokens=options.tokens, panel_details_open=True, load_at_start=False
        )
        files = [path for path in (options.target, options.draft) if path]
        found = Library(tuple(LocalModel(p.absolute(), p.stem, p.stat().st_size) for p in files))
        window = build_window(
            make_host(paths.pace_file, in_process=options.in_process),
            ChatStore(paths.chats_db, lambda error: print(error.message, file=sys.stderr)),
            SettingsStore(paths.settings_file),
            lambda _folders: found,
            theme,
            settings=settings,
        )
        window.resize(QSize(width, height))
        window.show()
        window.start()
        try:
            take(window, options)
        finally:
            window.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
