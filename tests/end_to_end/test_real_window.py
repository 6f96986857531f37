"""The real window, a real engine process and real models: what a user sees from loading to the next start."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QPlainTextEdit
from pytestqt.qtbot import QtBot

from slipstream.app import build_window
from slipstream.compose import make_host
from slipstream.domain.speculation import Mode, Speculation
from slipstream.engine.process import ProcessHost
from slipstream.store.chats import ChatStore, StoredMessage
from slipstream.store.library import Library
from slipstream.store.settings import Settings, SettingsStore
from slipstream.ui.theme import ThemeManager
from slipstream.ui.transcript import AssistantMessage
from slipstream.ui.window import MainWindow

pytestmark = [pytest.mark.qt_log_ignore("propagateSizeHints"), pytest.mark.real_models]
LIMIT_MS = 240_000


def model(name: str) -> Path:
    folder = Path(os.environ.get("SLIPSTREAM_TEST_MODELS", "~/.cache/slipstream-test-models")).expanduser()
    if not (folder / name).is_file():
        pytest.skip(f"the real model {name} is not in {folder}")
    return folder / name


class Desk:
    def __init__(self, qtbot: QtBot, folder: Path, theme: ThemeManager) -> None:
        self.qtbot, self.folder, self.theme = qtbot, folder, theme

    def open(self) -> MainWindow:
        settings_store = SettingsStore(self.folder / "settings.json")
        settings_store.load()
        host = make_host(self.folder / "pace.json", in_process=False)
        assert isinstance(host, ProcessHost)
        self.host = host
        self.store = ChatStore(self.folder / "chats.db", lambda error: None)
        self.window = build_window(
            host, self.store, settings_store, lambda _: Library(()), self.theme, settings=Settings(max_tokens=60)
        )
        self.window.resize(1440, 900)
        self.window.show()
        self.window.start()
        return self.window

    def until(self, check: Callable[[], bool]) -> None:
        self.qtbot.waitUntil(check, timeout=LIMIT_MS)

    def load(self, target: Path, draft: Path | None = None) -> None:
        self.window.pair.load(str(target), str(draft) if draft else "")
        self.until(lambda: self.window.pair.state not in ("none", "loading"))
        assert self.window.pair.ready, self.window.pair.error

    def say(self, text: str) -> None:
        edit = self.window.composer.findChild(QPlainTextEdit)
        assert edit is not None
        self.window.composer.set_text(text)
        self.qtbot.keyClick(edit, Qt.Key.Key_Return)
        self.until(lambda: self.window.session.reply is not None)

    def answer(self) -> AssistantMessage:
        return [row for row in self.window.transcript.rows() if isinstance(row, AssistantMessage)][-1]

    def stored(self) -> tuple[StoredMessage, ...]:
        return self.store.load_messages(self.window.session.chat_id).result(10)


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> Iterator[Desk]:
    theme = ThemeManager()
    theme.apply(qapp)
    made = Desk(qtbot, tmp_path, theme)
    made.open()
    yield made
    made.window.close()


def test_pair_chats_in_the_window_and_stays(desk: Desk) -> None:
    target, draft = model("Qwen2.5-Coder-1.5B-Instruct-F16.gguf"), model("Qwen2.5-Coder-0.5B-Instruct-Q4_0.gguf")
    desk.load(target, draft)
    assert desk.window.pair.info and set(desk.window.pair.info.drafters) == {"model", "ngram"}
    desk.window.panel.speculationChanged.emit(Speculation(Mode.ON, 4))  # always drafts, however busy this machine is
    lengths: list[int] = []
    speeds: list[float] = []

    def watch() -> bool:
        reply = desk.window.session.reply
        if reply is not None and reply.totals.tokens:
            lengths.append(len(reply.message().content))
            speeds.append(reply.totals.tokens_per_second or 0)
        return reply is None

    desk.say("Write a Python function that adds two numbers, with a docstring.")
    desk.until(watch)
    assert len(set(lengths)) > 5, "the text did not stream"
    assert max(speeds) > 0
    stored = desk.stored()
    assert [message.role for message in stored] == ["user", "assistant"]
    totals = stored[1].totals
    assert totals is not None and totals.acceptance is not None and 0 < totals.acceptance <= 1
    assert "def " in stored[1].content
    text, chat = stored[1].content, desk.window.session.chat_id
    desk.window.close()
    desk.open()
    desk.until(lambda: any(c.id == chat for c in desk.window.session.chats))
    desk.window.session.show_chat(chat)
    desk.until(lambda: bool(desk.window.transcript.rows()))
    assert desk.stored()[1].content == text


def test_window_survives_its_engine(desk: Desk) -> None:
    """kill -9 of the engine in mid-reply: the text stays, and one click loads again and goes on."""
    desk.load(model("SmolLM2-135M-Instruct-Q4_1.gguf"))
    desk.say("Count from one to fifty in words.")

    def enough() -> bool:
        reply = desk.window.session.reply
        return reply is not None and reply.totals.tokens > 8

    desk.until(enough)
    assert desk.host.pid
    os.kill(desk.host.pid, signal.SIGKILL)
    desk.until(lambda: desk.window.session.reply is None)
    kept = desk.stored()[-1]
    assert kept.content and kept.state in ("interrupted", "failed")
    desk.window.session.recover(kept.id)
    desk.until(lambda: desk.window.session.reply is not None)
    desk.until(lambda: desk.window.session.reply is None)
    after = desk.stored()[-1]
    assert after.id == kept.id and after.state == "done"
    assert after.content.startswith(kept.content) and len(after.content) > len(kept.content)
