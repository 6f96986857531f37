from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.domain.chat import Message
from slipstream.domain.errors import StoreFailed
from slipstream.domain.protocol import Span
from slipstream.domain.rounds import Totals
from slipstream.domain.sampling import Sampling
from slipstream.store import records
from slipstream.store.chats import ChatStore, new_id, title_from
from slipstream.store.queries import DELETED_KEPT_S

T = TypeVar("T")
WAIT_S = 30.0


def got(future: Future[T]) -> T:
    return future.result(WAIT_S)


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_700_000_000.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


class Bench:
    """A store that can be closed and opened again on the same file, collecting its errors."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = Clock()
        self.errors: list[StoreFailed] = []
        self.store = self._open()

    def _open(self) -> ChatStore:
        return ChatStore(self.path, self.errors.append, now=self.now)

    def again(self) -> ChatStore:
        assert self.store.close()
        self.store = self._open()
        return self.store


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "chats.db")
    yield bench
    bench.store.close()
    assert bench.errors == []


def texts(store: ChatStore, chat_id: str, **more: Any) -> list[str]:
    return [message.content for message in got(store.load_messages(chat_id, **more))]


def test_a_chat_from_start_to_end(bench: Bench) -> None:
    store = bench.store
    assert got(store.opened) == ()
    chat_id, asked, reply = new_id(), new_id(), new_id()
    sampling = Sampling(temperature=0.0, seed=7)
    made = store.create_chat(chat_id, target="/m/big.gguf", draft="/m/small.gguf", sampling=sampling)
    assert got(store.get_chat(chat_id)) == made
    store.add_message(asked, chat_id, "user", "\n# Why is the sky blue?\nBriefly.")
    store.add_message(reply, chat_id, "assistant", state="streaming", target="/m/big.gguf")
    spans = (Span("Light", "model", 1, 4, 1), Span(" is", "model", 2, 4, 1), Span(" scattered", round_no=1))
    store.append(reply, "reasoning", "Rayleigh.")
    store.append(reply, "answer", "Light is scattered", spans)
    store.append(reply, "answer", ".")
    running = got(store.load_messages(chat_id))[1]
    assert (running.content, running.reasoning, running.state) == ("Light is scattered.", "Rayleigh.", "streaming")
    totals = Totals(tokens=5, decode_s=0.5, plain_s=0.2, by_position=((3, 2), (2, 1)))
    store.finish(reply, finish_reason="end", totals=totals)

    for reopened in (False, True):
        again = bench.again() if reopened else store
        (chat,) = got(again.list_chats())
        assert (chat.title, chat.message_count, chat.sampling) == ("Why is the sky blue?", 2, sampling)
        first, second = got(again.load_messages(chat_id))
        assert first.message() == Message("user", "\n# Why is the sky blue?\nBriefly.")
        assert (second.state, second.finish_reason, second.totals) == ("done", "end", totals)
        assert second.spans == (*spans[:2], Span(" scattered."))
        assert second.reasoning_spans == (Span("Rayleigh."),)
        assert (second.parent_id, second.position, second.target) == (asked, 1, "/m/big.gguf")


def test_newest_first_and_pinned_before(bench: Bench) -> None:
    store = bench.store
    for name in ("a", "b", "c"):
        store.create_chat(name, title=name)
    store.add_message(new_id(), "a", "user", "hello")
    assert [chat.id for chat in got(store.list_chats())] == ["a", "c", "b"]
    store.set_pinned("b", True)
    store.rename_chat("c", "  new\nname ")
    chats = got(store.list_chats())
    assert [(chat.id, chat.title) for chat in chats] == [("b", "b"), ("a", "a"), ("c", "new name")]


def test_what_was_typed_is_kept(bench: Bench) -> None:
    bench.store.create_chat("c")
    for end in range(1, 6):
        bench.store.set_composer_text("c", "typed"[:end])
    bench.store.set_models("c", "t.gguf", "d.gguf")
    bench.store.set_system_prompt("c", "Be brief.")
    bench.store.set_sampling("c", Sampling(top_k=3))
    chat = got(bench.again().get_chat("c"))
    assert chat is not None
    assert (chat.composer_text, chat.target, chat.draft) == ("typed", "t.gguf", "d.gguf")
    assert (chat.system_prompt, chat.sampling) == ("Be brief.", Sampling(top_k=3))


def test_delete_undo_and_purge(bench: Bench) -> None:
    bench.store.create_chat("c")
    bench.store.add_message("m", "c", "user", "hello")
    bench.store.delete_chat("c")
    assert got(bench.store.list_chats()) == ()
    bench.store.restore_chat("c")
    assert texts(bench.store, "c") == ["hello"]
    bench.store.delete_chat("c")
    bench.now.now_s += DELETED_KEPT_S - 100
    assert [chat.id for chat in got(bench.again().list_chats(deleted=True))] == ["c"]
    bench.now.now_s += 200
    store = bench.again()
    assert got(store.list_chats(deleted=True)) == ()
    assert texts(store, "c") == []


def test_answering_again_keeps_the_old_branch(bench: Bench) -> None:
    store = bench.store
    store.create_chat("c")
    for number, role in enumerate(("user", "assistant", "user", "assistant")):
        store.add_message(f"m{number}", "c", role, f"text {number}")  # type: ignore[arg-type]
    store.truncate_from("m1")
    assert texts(store, "c") == ["text 0"]
    store.add_message("n1", "c", "assistant", "better")
    assert texts(store, "c") == ["text 0", "better"]
    every = {message.id: message for message in got(store.load_messages("c", all_branches=True))}
    assert set(every) == {"m0", "m1", "m2", "m3", "n1"}
    assert every["n1"].parent_id == every["m1"].parent_id == "m0"
    assert (every["n1"].active, every["m1"].active) == (True, False)


def test_unfinished_reply_becomes_interrupted_and_can_go_on(bench: Bench) -> None:
    store = bench.store
    store.create_chat("c")
    store.add_message("m", "c", "assistant", state="streaming")
    store.append("m", "answer", "one", (Span("one", "ngram", 1, 1, 1),))
    store = bench.again()
    (message,) = got(store.load_messages("c"))
    assert (message.content, message.state) == ("one", "interrupted")
    store.resume("m")
    store.append("m", "answer", " two")
    store = bench.again()
    store.finish("m", "stopped", finish_reason="cancelled")
    (message,) = got(store.load_messages("c"))
    assert (message.content, message.state) == ("one two", "stopped")
    assert message.spans == (Span("one", "ngram", 1, 1, 1), Span(" two"))


def test_two_windows_on_one_file_lose_nothing(bench: Bench) -> None:
    bench.store.create_chat("c")
    bench.store.add_message("m", "c", "assistant", state="streaming")
    bench.store.append("m", "answer", "one")
    assert bench.store.flush(WAIT_S)
    other = ChatStore(bench.path, bench.errors.append)
    assert [message.state for message in got(other.load_messages("c"))] == ["interrupted"]
    bench.store.append("m", "answer", " two")
    bench.store.finish("m")
    (message,) = got(bench.store.load_messages("c"))
    assert (message.content, message.state) == ("one two", "done")
    assert other.close()


def test_text_that_is_not_unicode_is_stored_all_the_same(bench: Bench) -> None:
    bench.store.create_chat("c", title="\ud800")
    bench.store.add_message("m", "c", "assistant", "a\x00b\ud83d", state="streaming")
    bench.store.append("m", "answer", "\udc00😀", (Span("\udc00", "model", 1, 1, 1), Span("😀")))
    bench.store.finish("m")
    (message,) = got(bench.store.load_messages("c"))
    assert message.content == "a\x00b\ufffd\ufffd😀"
    assert "".join(span.text for span in message.spans) == message.content


def test_wrong_spans_never_cost_text(bench: Bench) -> None:
    bench.store.create_chat("c")
    bench.store.add_message("m", "c", "assistant", state="streaming")
    bench.store.append("m", "answer", "whole", (Span("who", "model", 1, 1, 1),))
    assert got(bench.store.load_messages("c"))[0].spans == (Span("whole"),)


def test_figures_that_are_no_numbers_do_not_lose_the_reply(bench: Bench) -> None:
    bench.store.create_chat("c", sampling=Sampling(temperature=float("inf")))
    bench.store.add_message("m", "c", "assistant", "x", state="streaming")
    bench.store.finish("m", totals=Totals(tokens=3, decode_s=float("nan")))
    assert got(bench.store.load_messages("c"))[0].totals == Totals(tokens=3)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("", ""),
        ("\n\n```\n", ""),
        ("## Plan:  a   trip\nmore", "Plan: a trip"),
        ("日本語の質問", "日本語の質問"),
        ("word " * 40, ("word " * 12).rstrip() + "…"),
    ],
)
def test_titles(text: str, title: str) -> None:
    assert title_from(text) == title


@given(st.text(max_size=300))
def test_titles_are_short_and_on_one_line(text: str) -> None:
    title = title_from(text)
    assert len(title) <= 61
    assert len(title.splitlines()) <= 1


sources = st.one_of(
    st.just(("", 0, 0, 0)), st.tuples(st.sampled_from(["model", "ngram"]), st.just(1), st.just(2), st.integers(0, 3))
)
spans_lists = st.lists(st.builds(lambda text, source: Span(text, *source), st.text("ab é😀", max_size=4), sources))


@given(spans_lists, spans_lists)
def test_runs_give_the_spans_back(first: list[Span], second: list[Span]) -> None:
    both = records.join(records.pack(first), records.pack(second))
    assert both == records.pack([*first, *second])
    text = "".join(span.text for span in [*first, *second])
    back = records.unpack(text, records.from_json(records.to_json(both)))

    def by_character(spans: Any) -> list[tuple[str, str, int, int, int]]:
        return [(one, span.drafter, span.guess, span.proposed, span.round_no) for span in spans for one in span.text]

    assert by_character(back) == by_character([*first, *second])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.text(max_size=20), json_values)
def test_damaged_columns_never_raise(text: str, value: object) -> None:
    assert "".join(span.text for span in records.unpack(text, value)) == text
    assert "".join(span.text for span in records.unpack(text, [["model", 1, 2, 3, 4], value])) == text
    records.totals_from(value)
    records.totals_from({"tokens": value, "decode_s": value, "by_position": value})
    records.sampling_from({"seed": value, "top_k": value, "temperature": value})
    records.from_json(text)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.text("xyz", min_size=1, max_size=5)),
        st.sampled_from([("finish", ""), ("resume", ""), ("reopen", ""), ("read", "")]),
    ),
    max_size=12,
)


@settings(max_examples=15, deadline=None)
@given(steps)
def test_any_order_of_calls_keeps_every_character(steps: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder) / "chats.db")
        bench.store.create_chat("c")
        bench.store.add_message("m", "c", "assistant", state="streaming")
        text, state = "", "streaming"
        for step, more in steps:
            if step == "append":
                bench.store.append("m", "answer", more, (Span(more, "model", 1, 1, 1),))
                text += more
            elif step == "finish":
                bench.store.finish("m")
                state = "done"
            elif step == "resume":
                bench.store.resume("m")
                state = "streaming"
            elif step == "reopen":
                bench.again()
                state = "interrupted" if state == "streaming" else state
            else:
                (message,) = got(bench.store.load_messages("c"))
                assert (message.content, message.state) == (text, state)
        (message,) = got(bench.store.load_messages("c"))
        assert (message.content, message.state) == (text, state)
        assert bench.store.close()
        assert bench.errors == []
