"""The real window with a scripted engine and a real store: what a user does, and what stays when things fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtWidgets import QApplication, QPlainTextEdit, QPushButton
from pytestqt.qtbot import QtBot
from scripted_engine import N_CTX, ScriptedEngine

from slipstream.app import build_window
from slipstream.domain.errors import ErrorInfo
from slipstream.domain.protocol import Cancel, FinishReason, Load
from slipstream.domain.speculation import Mode
from slipstream.store.chats import ChatStore, StoredMessage
from slipstream.store.library import Library, LocalModel
from slipstream.store.settings import Settings, SettingsStore
from slipstream.ui.dialogs import LinkDialog, make_report
from slipstream.ui.theme import ThemeManager
from slipstream.ui.transcript import AssistantMessage, Card, UserMessage
from slipstream.ui.window import MainWindow

# The offscreen platform says so for every window with a least size.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")

STARTER = "SmolLM2-135M-Instruct-Q8_0.gguf"


class Desk:
    """One window on one folder; `reopen` is a restart of the program."""

    def __init__(self, qtbot: QtBot, folder: Path, theme: ThemeManager) -> None:
        self.qtbot, self.folder, self.theme = qtbot, folder, theme
        self.model = folder / STARTER
        self.model.write_bytes(b"GGUF")
        self.library = Library((LocalModel(self.model, self.model.stem, 145_000_000),))
        self.window: MainWindow
        self.engine: ScriptedEngine

    def open(self, engine: ScriptedEngine | None = None) -> MainWindow:
        self.engine = engine or ScriptedEngine()
        settings_store = SettingsStore(self.folder / "settings.json")
        settings, notices = settings_store.load()
        assert notices == ()
        self.store = ChatStore(self.folder / "chats.db", lambda error: None, interval_s=0.02)

        def scan(folders: Sequence[Path]) -> Library:
            return self.library

        self.window = build_window(self.engine, self.store, settings_store, scan, self.theme, settings=settings)
        self.window.resize(1440, 900)
        self.window.show()
        self.window.start()
        return self.window

    def load(self) -> None:
        self.window.welcome.loadAsked.emit(str(self.model))
        self.until(lambda: self.window.pair.ready)

    def say(self, text: str) -> AssistantMessage:
        edit = self.window.composer.findChild(QPlainTextEdit)
        assert edit is not None
        self.window.composer.set_text(text)
        self.qtbot.keyClick(edit, Qt.Key.Key_Return)
        self.until(lambda: self.engine.request is not None)
        return self.reply()

    def reply(self) -> AssistantMessage:
        rows = [row for row in self.window.transcript.rows() if isinstance(row, AssistantMessage)]
        return rows[-1]

    def until(self, check: Callable[[], bool]) -> None:
        self.qtbot.waitUntil(check, timeout=5000)

    def stored(self) -> tuple[StoredMessage, ...]:
        return self.store.load_messages(self.window.session.chat_id).result(5)

    def close(self) -> None:
        self.window.close()
        self.window.deleteLater()  # or every later change of the theme would dress it again
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)

    def reopen(self) -> MainWindow:
        self.close()
        return self.open()


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> Iterator[Desk]:
    theme = ThemeManager()
    theme.apply(qapp)
    made = Desk(qtbot, tmp_path, theme)
    made.open()
    yield made
    made.close()


def click(desk: Desk, parent: object, text: str) -> None:
    buttons = [b for b in parent.findChildren(QPushButton) if text in b.text()]  # type: ignore[attr-defined]
    assert buttons, text
    desk.qtbot.mouseClick(buttons[0], Qt.MouseButton.LeftButton)


def test_first_run_offers_the_starter_and_one_click_loads_it(desk: Desk) -> None:
    assert not desk.window.composer.can_send and desk.window.composer.reason
    desk.until(lambda: any("Start with SmolLM2" in b.text() for b in desk.window.welcome.findChildren(QPushButton)))
    click(desk, desk.window.welcome, "Start with SmolLM2")
    desk.until(lambda: desk.window.pair.ready)
    load = desk.engine.last(Load)
    assert isinstance(load, Load) and load.target == str(desk.model)
    assert "CPU, 2 threads" in desk.window.status.text
    assert f"{N_CTX:,}" in desk.window.status.text


def test_text_typed_before_a_model_is_loaded_stays(desk: Desk) -> None:
    edit = desk.window.composer.findChild(QPlainTextEdit)
    assert edit is not None
    desk.qtbot.keyClicks(edit, "my first words")
    desk.load()
    assert desk.window.composer.text == "my first words" and desk.window.composer.can_send


def test_a_reply_streams_is_stored_and_is_there_after_a_restart(desk: Desk) -> None:
    desk.load()
    row = desk.say("Hello there")
    assert "Waiting" in row.status
    desk.engine.reading(512, 2048)
    desk.until(lambda: row.status == "Reading the prompt, 512 of 2,048 tokens")
    desk.engine.say("Because.", "reasoning")
    for word in ("Good ", "**day** ", "to you"):
        desk.engine.say(word)
        desk.engine.round()
    desk.until(lambda: row.source == "Good **day** to you")
    assert desk.stored()[-1].content == "Good **day** to you"  # while it still runs
    desk.engine.finish()
    desk.until(lambda: not desk.window.session.reply)
    assert "tokens/s" in row.figures and "75 % accepted" in row.figures
    window = desk.reopen()
    desk.until(lambda: len(window.transcript.rows()) == 2)
    user, reply = window.transcript.rows()
    assert isinstance(user, UserMessage) and user.source == "Hello there"
    assert isinstance(reply, AssistantMessage) and reply.source == "Good **day** to you"
    assert reply.reasoning == "Because." and "75 % accepted" in reply.figures
    desk.until(lambda: window.pair.ready)  # the last pair was loaded again
    assert window.session.title == "Hello there"


def test_the_conversation_sent_is_the_one_shown(desk: Desk) -> None:
    desk.load()
    desk.say("one")
    desk.engine.reply(["two"])
    desk.until(lambda: not desk.window.session.reply)
    desk.say("three")
    request = desk.engine.request
    assert request is not None
    assert [(m.role, m.content) for m in request.conversation] == [
        ("user", "one"),
        ("assistant", "two"),
        ("user", "three"),
    ]
    assert not request.continue_last


def test_escape_stops_and_the_text_stays_and_can_be_continued(desk: Desk) -> None:
    desk.load()
    row = desk.say("Count")
    desk.engine.say("1 2 3")
    desk.until(lambda: row.source == "1 2 3")
    desk.qtbot.keyClick(desk.window, Qt.Key.Key_Escape)
    desk.until(lambda: not desk.window.session.reply)
    assert any(isinstance(c, Cancel) for c in desk.engine.commands)
    assert row.source == "1 2 3" and desk.stored()[-1].state == "stopped"
    click(desk, row, "Continue")
    desk.until(lambda: desk.engine.request is not None)
    assert desk.engine.request is not None and desk.engine.request.continue_last
    assert desk.engine.request.conversation[-1].content == "1 2 3"
    desk.engine.reply([" 4 5"])
    desk.until(lambda: not desk.window.session.reply)
    assert row.source == "1 2 3 4 5"
    assert desk.stored()[-1].content == "1 2 3 4 5" and desk.stored()[-1].state == "done"


def test_the_engine_dies_mid_reply_and_the_reply_goes_on_after_loading_again(desk: Desk) -> None:
    desk.load()
    row = desk.say("Tell")
    desk.engine.say("Once upon")
    desk.engine.die()
    desk.until(lambda: row.card is not None)
    assert row.card is not None and "engine" in row.card.title.lower()
    assert row.source == "Once upon" and desk.stored()[-1].content == "Once upon"
    assert not desk.window.composer.can_send and desk.window.composer.reason
    loads = sum(isinstance(c, Load) for c in desk.engine.commands)
    click(desk, row, "Load again and continue")
    desk.until(lambda: desk.engine.request is not None)
    assert sum(isinstance(c, Load) for c in desk.engine.commands) == loads + 1
    assert desk.engine.request is not None and desk.engine.request.continue_last
    desk.engine.reply([" a time"])
    desk.until(lambda: not desk.window.session.reply)
    assert row.source == "Once upon a time" and row.card is None


def test_the_engine_dies_while_idle(desk: Desk) -> None:
    desk.load()
    desk.say("Hi")
    desk.engine.reply(["Yes"])
    desk.until(lambda: not desk.window.session.reply)
    desk.engine.die()
    desk.until(lambda: any(isinstance(row, Card) for row in desk.window.transcript.rows()))
    click(desk, desk.window.transcript, "Load again")
    desk.until(lambda: desk.window.pair.ready)
    assert not any(isinstance(row, Card) for row in desk.window.transcript.rows())


def test_a_refused_load_says_why_and_offers_another_try(desk: Desk) -> None:
    desk.engine.refuse = ErrorInfo("OutOfMemory", "There is too little memory.", "Pick a smaller model.")
    desk.window.welcome.loadAsked.emit(str(desk.model))
    desk.until(lambda: bool(desk.window.welcome.findChildren(Card)))
    card = desk.window.welcome.findChildren(Card)[-1]
    assert (card.title, card.body) == ("There is too little memory.", "Pick a smaller model.")
    desk.engine.refuse = None
    click(desk, card, "Try again")
    desk.until(lambda: desk.window.pair.ready)


def test_a_reply_cut_off_by_a_crash_of_the_program_is_marked_and_can_go_on(desk: Desk) -> None:
    desk.load()
    desk.say("Tell")
    desk.engine.say("Half a")
    desk.until(lambda: desk.reply().source == "Half a")
    assert desk.store.flush(5)
    window = desk.reopen()  # nobody finished the reply
    desk.until(lambda: window.pair.ready and len(window.transcript.rows()) == 2)
    row = desk.reply()
    assert row.source == "Half a" and row.card is not None
    click(desk, row, "Continue")
    desk.until(lambda: desk.engine.request is not None)
    assert desk.engine.request is not None and desk.engine.request.conversation[-1].content == "Half a"


def test_sending_while_a_reply_runs_queues_and_is_never_lost(desk: Desk) -> None:
    desk.load()
    desk.say("first")
    desk.window.composer.set_text("second")
    edit = desk.window.composer.findChild(QPlainTextEdit)
    desk.qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert "second" in desk.window.composer.reason
    chat = desk.store.get_chat(desk.window.session.chat_id).result(5)
    assert chat is not None and chat.composer_text == "second"  # a crash now would bring it back
    desk.engine.reply(["done"])
    desk.until(lambda: desk.engine.request is not None)
    assert desk.engine.request is not None and desk.engine.request.conversation[-1].content == "second"
    desk.engine.reply(["also"])
    desk.until(lambda: not desk.window.session.reply)
    chat = desk.store.get_chat(desk.window.session.chat_id).result(5)
    assert chat is not None and chat.composer_text == ""


def test_a_queued_message_comes_back_when_the_reply_is_stopped(desk: Desk) -> None:
    desk.load()
    desk.say("first")
    desk.window.composer.set_text("second")
    desk.qtbot.keyClick(desk.window.composer.findChild(QPlainTextEdit), Qt.Key.Key_Return)
    desk.window.session.stop()
    desk.until(lambda: not desk.window.session.reply)
    assert desk.window.composer.text == "second"


def test_unsent_text_is_kept_for_each_chat_and_over_a_restart(desk: Desk) -> None:
    desk.load()
    desk.say("chat one")
    desk.engine.reply(["ok"])
    desk.until(lambda: not desk.window.session.reply)
    first = desk.window.session.chat_id
    edit = desk.window.composer.findChild(QPlainTextEdit)
    desk.qtbot.keyClicks(edit, "half a thought")
    desk.window.new_chat()
    assert desk.window.composer.text == ""
    desk.say("chat two")
    desk.engine.reply(["ok"])
    desk.until(lambda: not desk.window.session.reply)
    desk.window.session.show_chat(first)
    desk.until(lambda: desk.window.composer.text == "half a thought")
    window = desk.reopen()
    desk.until(lambda: window.composer.text == "half a thought")


def test_a_chat_in_which_nothing_was_said_leaves_no_trace(desk: Desk) -> None:
    desk.load()
    edit = desk.window.composer.findChild(QPlainTextEdit)
    desk.qtbot.keyClicks(edit, "hm")
    desk.until(lambda: len(desk.window.sidebar.chat_ids()) == 1)  # what is typed is kept, so there is a chat
    desk.window.composer.set_text("")
    desk.window.new_chat()
    desk.until(lambda: desk.window.sidebar.chat_ids() == [])


def test_deleting_a_chat_can_be_undone(desk: Desk) -> None:
    desk.load()
    desk.say("keep me")
    desk.engine.reply(["ok"])
    desk.until(lambda: not desk.window.session.reply)
    chat_id = desk.window.session.chat_id
    desk.until(lambda: desk.window.sidebar.chat_ids() == [chat_id])
    edit = desk.window.sidebar.findChildren(QPushButton)
    assert edit
    desk.window.sidebar._delete(desk.window.session.chats[0])
    desk.until(lambda: desk.window.sidebar.chat_ids() == [])
    assert desk.window.session.chat_id == ""
    click(desk, desk.window.sidebar, "Undo")
    desk.until(lambda: desk.window.sidebar.chat_ids() == [chat_id])
    desk.until(lambda: len(desk.window.transcript.rows()) == 2)


def test_a_reply_goes_on_while_another_chat_is_shown(desk: Desk) -> None:
    desk.load()
    desk.say("long story")
    first = desk.window.session.chat_id
    desk.engine.say("Once ")
    desk.until(lambda: desk.reply().source == "Once ")
    desk.window.new_chat()
    desk.engine.say("upon ")
    desk.qtbot.wait(80)
    desk.window.session.show_chat(first)
    desk.until(lambda: len(desk.window.transcript.rows()) == 2)
    desk.engine.say("a time")
    desk.until(lambda: desk.reply().source == "Once upon a time")
    desk.engine.finish()
    desk.until(lambda: not desk.window.session.reply)
    assert desk.stored()[-1].content == "Once upon a time"


def test_answer_again_keeps_the_old_reply_as_a_branch(desk: Desk) -> None:
    desk.load()
    desk.say("question")
    desk.engine.reply(["first answer"])
    desk.until(lambda: not desk.window.session.reply)
    desk.qtbot.keyClick(desk.window, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
    desk.until(lambda: desk.engine.request is not None)
    assert desk.engine.request is not None and len(desk.engine.request.conversation) == 1
    desk.engine.reply(["second answer"])
    desk.until(lambda: not desk.window.session.reply)
    assert [m.content for m in desk.stored()] == ["question", "second answer"]
    every = desk.store.load_messages(desk.window.session.chat_id, all_branches=True).result(5)
    assert "first answer" in [m.content for m in every]


def test_auto_on_off_by_key_reaches_the_engine(desk: Desk) -> None:
    desk.load()
    modifiers = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    desk.qtbot.keyClick(desk.window, Qt.Key.Key_D, modifiers)
    desk.qtbot.keyClick(desk.window, Qt.Key.Key_D, modifiers)
    desk.say("x")
    assert desk.engine.request is not None and desk.engine.request.speculation.mode is Mode.OFF


def test_length_and_context_endings_are_told(desk: Desk) -> None:
    desk.load()
    row = desk.say("x")
    desk.engine.reply(["cut"], FinishReason.LENGTH)
    desk.until(lambda: row.card is not None)
    row = desk.say("y")
    desk.engine.reply(["full"], FinishReason.CONTEXT)
    desk.until(lambda: not desk.window.session.reply)
    assert row.card is None


@pytest.mark.parametrize(("width", "sidebar", "panel"), [(1440, True, True), (1200, False, True), (900, False, False)])
def test_columns_follow_the_width_and_everything_stays_inside(
    desk: Desk, width: int, sidebar: bool, panel: bool
) -> None:
    window = desk.window
    window.resize(width, 600)
    desk.qtbot.wait(50)
    assert window.sidebar.isVisible() is sidebar
    assert window.panel.isVisible() is panel
    assert window.width() == width  # nothing inside demands more
    right = window.composer.mapTo(window, window.composer.rect().topRight()).x()
    assert right < width - (window.panel.width() if panel else 0)
    desk.qtbot.keyClick(window, Qt.Key.Key_B, Qt.KeyboardModifier.ControlModifier)
    assert window.sidebar.isVisible() is not sidebar
    desk.qtbot.keyClick(window, Qt.Key.Key_J, Qt.KeyboardModifier.ControlModifier)
    assert window.panel.isVisible() is not panel
    desk.qtbot.wait(50)
    assert window.width() == width


def test_the_theme_button_is_remembered(desk: Desk) -> None:
    before = desk.theme.theme.name
    desk.window.toggle_theme()
    assert desk.theme.theme.name != before
    desk.reopen()
    assert desk.theme.theme.name != before
    desk.window.toggle_theme()


def test_closing_ends_the_engine_and_saves_everything(desk: Desk) -> None:
    desk.load()
    desk.say("x")
    desk.engine.say("some text")
    desk.until(lambda: desk.reply().source == "some text")
    engine, chat = desk.engine, desk.window.session.chat_id
    desk.window.close()
    assert engine.closed
    again = ChatStore(desk.folder / "chats.db", lambda error: None)
    stored = again.load_messages(chat).result(5)
    again.close()
    assert stored[-1].content == "some text" and stored[-1].state == "interrupted"


def test_a_report_holds_no_text_of_a_chat() -> None:
    try:
        raise ValueError("the user's secret words")
    except ValueError as error:
        report = make_report(ValueError, error.__traceback__)
    assert "secret" not in report
    assert "ValueError" in report and "test_window.py" in report


@pytest.mark.parametrize(
    ("target", "may"), [("https://example.org", True), ("file:///etc/passwd", False), ("javascript:x", False)]
)
def test_only_web_and_mail_links_open(qtbot: QtBot, target: str, may: bool) -> None:
    dialog = LinkDialog(target)
    qtbot.addWidget(dialog)
    primary = [b for b in dialog.findChildren(QPushButton) if b.property("kind") == "primary"]
    assert primary[0].isEnabled() is may


def test_settings_survive_as_they_are(desk: Desk) -> None:
    desk.load()
    desk.window.close()
    settings, _ = SettingsStore(desk.folder / "settings.json").load()
    assert isinstance(settings, Settings)
    assert settings.target == str(desk.model) and settings.window is not None
