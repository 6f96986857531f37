"""The composer: what its keys do, and that typed text is never lost."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QPlainTextEdit
from pytestqt.qtbot import QtBot

from slipstream.ui.composer import Composer
from slipstream.ui.theme import ThemeManager

# The offscreen platform says so for every window with a least size.
pytestmark = pytest.mark.qt_log_ignore("propagateSizeHints")


@pytest.fixture
def composer(qtbot: QtBot, qapp: QApplication) -> Composer:
    theme = ThemeManager()
    theme.apply(qapp)
    made = Composer()
    qtbot.addWidget(made)
    made.resize(600, 100)
    made.show()
    made.set_ready(True)
    return made


def edit(composer: Composer) -> QPlainTextEdit:
    found = composer.findChild(QPlainTextEdit)
    assert found is not None
    return found


def test_enter_sends_and_shift_enter_makes_a_line(qtbot: QtBot, composer: Composer) -> None:
    qtbot.keyClicks(edit(composer), "one")
    qtbot.keyClick(edit(composer), Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(edit(composer), "two")
    with qtbot.waitSignal(composer.sent) as sent:
        qtbot.keyClick(edit(composer), Qt.Key.Key_Return)
    assert sent.args == ["one\ntwo"]
    assert composer.text == ""


def test_nothing_goes_out_without_a_model_but_text_stays(qtbot: QtBot, composer: Composer) -> None:
    composer.set_ready(False, "Pick a model first.")
    sent: list[str] = []
    composer.sent.connect(sent.append)
    qtbot.keyClicks(edit(composer), "hello")
    qtbot.keyClick(edit(composer), Qt.Key.Key_Return)
    assert sent == [] and composer.text == "hello" and not composer.can_send
    assert composer.reason == "Pick a model first."
    composer.set_ready(True)
    assert composer.can_send and composer.reason == ""


def test_blank_text_is_not_sent(qtbot: QtBot, composer: Composer) -> None:
    qtbot.keyClicks(edit(composer), "   ")
    assert not composer.can_send


def test_grows_to_eight_lines(qtbot: QtBot, composer: Composer) -> None:
    heights = []
    for lines in (1, 4, 8, 20):
        composer.set_text("\n".join("x" * lines))
        qtbot.wait(20)
        heights.append(edit(composer).height())
    assert heights[0] < heights[1] < heights[2] == heights[3]


def test_typing_is_reported_after_a_pause_and_at_once_when_asked(qtbot: QtBot, composer: Composer) -> None:
    with qtbot.waitSignal(composer.draftChanged, timeout=3000) as kept:
        qtbot.keyClicks(edit(composer), "draft")
    assert kept.args == ["draft"]
    qtbot.keyClicks(edit(composer), "!")
    with qtbot.waitSignal(composer.draftChanged, timeout=100) as kept:
        composer.save_now()
    assert kept.args == ["draft!"]


def test_while_a_reply_runs_there_is_stop_and_send_still_works(qtbot: QtBot, composer: Composer) -> None:
    composer.set_busy(True)
    composer.set_text("next question")
    assert composer.can_send
    with qtbot.waitSignal(composer.sent):
        qtbot.keyClick(edit(composer), Qt.Key.Key_Return)
    composer.set_queued("next question")
    assert "next question" in composer.reason
    composer.set_text("another")
    assert not composer.can_send  # one waits already; this one stays typed
