"""The bridge: nothing is lost, nothing runs when idle, few batches however many events."""

from __future__ import annotations

import itertools
import threading
import time

from hypothesis import given
from hypothesis import strategies as st
from pytestqt.qtbot import QtBot
from scripted_engine import ScriptedEngine

from slipstream.domain.protocol import Event, Finished, FinishReason, Notice, Span, Text
from slipstream.domain.rounds import Totals
from slipstream.ui.bridge import Bridge, merge

_EVENTS = st.lists(
    st.one_of(
        st.builds(
            Text,
            st.integers(1, 2),
            st.sampled_from(["answer", "reasoning"]),
            st.lists(st.builds(Span, st.text(max_size=3), st.sampled_from(["", "model"])), max_size=3).map(tuple),
        ),
        st.builds(Notice, st.integers(1, 2), st.just("x"), st.text(max_size=3)),
    ),
    max_size=30,
)


@given(_EVENTS)
def test_merging_keeps_text_spans_and_order(events: list[Event]) -> None:
    merged = merge(events)

    def flat(found: list[Event]) -> list[object]:
        out: list[object] = []
        for event in found:
            if isinstance(event, Text):
                out.extend((event.request_id, event.channel, span) for span in event.spans)
            else:
                out.append(event)
        return out

    assert flat(merged) == flat(events)
    for one, other in itertools.pairwise(merged):
        if isinstance(one, Text) and isinstance(other, Text):
            assert (one.request_id, one.channel) != (other.request_id, other.channel)


def test_events_from_a_thread_arrive_whole_and_in_few_batches(qtbot: QtBot) -> None:
    engine = ScriptedEngine()
    bridge = Bridge(engine)
    batches: list[list[Event]] = []
    bridge.batch.connect(batches.append)
    started = time.monotonic()

    def talk() -> None:
        for number in range(2000):
            engine.put(Text(1, "answer", (Span(f"{number} "),)))
            if number % 100 == 0:
                time.sleep(0.005)
        engine.put(Finished(1, FinishReason.END, Totals(), 1, 2))

    thread = threading.Thread(target=talk)
    thread.start()
    qtbot.waitUntil(lambda: any(isinstance(e, Finished) for batch in batches for e in batch), timeout=10_000)
    thread.join()
    took_s = time.monotonic() - started
    text = "".join(e.text for batch in batches for e in batch if isinstance(e, Text))
    assert text == "".join(f"{number} " for number in range(2000))
    assert len(batches) <= took_s * 30 + 2
    qtbot.waitUntil(lambda: bridge.idle, timeout=2000)  # no timer runs for nothing
    bridge.close()
    assert engine.closed


def test_a_closed_bridge_says_nothing_more(qtbot: QtBot) -> None:
    engine = ScriptedEngine()
    bridge = Bridge(engine)
    batches: list[list[Event]] = []
    bridge.batch.connect(batches.append)
    bridge.close()
    engine.put(Text(1, "answer", (Span("late"),)))
    qtbot.wait(100)
    assert batches == [] and bridge.idle
