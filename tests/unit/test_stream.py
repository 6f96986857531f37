from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.domain.protocol import Span
from slipstream.engine.text.reasoning import ReasoningSplitter, ReasoningTags
from slipstream.engine.text.stream import StopStrings, TextStream, Utf8Stream

THINK = ReasoningTags("<think>", "</think>")


def cut(whole: bytes | str, points: list[int]) -> list:
    edges = [0, *sorted(min(point, len(whole)) for point in points), len(whole)]
    return [whole[start:end] for start, end in itertools.pairwise(edges)]


@pytest.mark.parametrize("text", ["👩‍👩‍👧 família", "สวัสดีครับ", "नमस्ते दुनिया", "日本語、漢字", "e\u0301"])
def test_characters_split_into_single_bytes_come_out_whole(text: str) -> None:
    stream = Utf8Stream()
    pieces = [stream.feed(bytes([byte])) for byte in text.encode()]
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


def test_invalid_bytes_show_once_certain_and_a_cut_character_is_dropped() -> None:
    stream = Utf8Stream()
    assert stream.feed(b"\xf0\x9f") == ""
    assert stream.feed(b"A") == "\ufffdA"
    assert stream.feed(b"\xff") == "\ufffd"
    assert stream.feed("é".encode()[:1]) == ""
    assert stream.finish() == ""
    assert stream.feed(b"ok") == "ok"


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_utf8_is_independent_of_the_cuts(data: bytes, points: list[int]) -> None:
    whole, pieces = Utf8Stream(), Utf8Stream()
    assert "".join(map(pieces.feed, cut(data, points))) == whole.feed(data)


def run_stops(stops: list[str], pieces: list[str]) -> tuple[str, bool]:
    watcher = StopStrings(stops)
    text = "".join(watcher.feed(piece)[0] for piece in pieces)
    return text + watcher.flush(), watcher.stopped


def test_stop_string_across_tokens_and_nothing_after_it() -> None:
    watcher = StopStrings(["\nUser:"])
    assert watcher.feed("Hi.") == ("Hi.", False)
    assert watcher.feed("\nUs") == ("", False)
    assert watcher.feed("ers are") == ("\nUsers are", False)
    assert watcher.feed("\n") == ("", False)
    assert watcher.feed("User: more") == ("", True)
    assert watcher.feed("text") == ("", True)
    assert watcher.flush() == ""


def test_the_stop_completed_first_wins() -> None:
    assert run_stops(["abcd", "bc"], ["abcd"]) == ("a", True)
    assert run_stops(["abcd", "bc"], list("abcd")) == ("a", True)
    assert run_stops(["b", "ab"], ["xab"]) == ("x", True)
    assert run_stops(["", "zz"], ["abz"]) == ("abz", False)


@given(
    st.lists(st.text("ab<", min_size=1, max_size=4), max_size=3),
    st.text("ab<", max_size=30),
    st.lists(st.integers(0, 30), max_size=10),
)
def test_stops_are_independent_of_the_cuts(stops: list[str], text: str, points: list[int]) -> None:
    result = run_stops(stops, cut(text, points))
    assert result == run_stops(stops, [text])
    shown, stopped = result
    assert text.startswith(shown)
    assert stopped == any(stop in text for stop in stops)
    assert not any(stop in shown for stop in stops)


def test_holds_back_no_more_than_it_must() -> None:
    watcher = StopStrings(["</s>"])
    assert watcher.feed("a < b </") == ("a < b ", False)
    assert watcher.feed("div>") == ("</div>", False)


def test_text_stream_keeps_provenance_through_cuts() -> None:
    stream = TextStream(["STOP"], ReasoningSplitter(THINK))
    out = stream.push(b"<thi", Span("ignored", drafter="model", guess=1, proposed=2, round_no=7))
    out += stream.push(b"nk>because</think>\n\nHel", Span("", drafter="model", guess=2, proposed=2, round_no=7))
    out += stream.push(b"lo \xf0\x9f", Span("", round_no=7))
    out += stream.push(b"\x98\x80 ST", Span("", drafter="ngram", guess=1, proposed=1, round_no=8))
    out += stream.push(b"OP never", Span("", round_no=9))
    assert stream.stopped
    out += stream.push(b"seen", Span("", round_no=10))
    out += stream.finish()
    assert out == [
        ("reasoning", Span("because", "model", 2, 2, 7)),
        ("answer", Span("Hel", "model", 2, 2, 7)),
        ("answer", Span("lo ", round_no=7)),
        ("answer", Span("😀 ", "ngram", 1, 1, 8)),
    ]


@given(
    st.text("abé<>/thinkSTOP\n😀", max_size=60),
    st.booleans(),
    st.lists(st.integers(0, 120), max_size=12),
)
def test_text_stream_is_independent_of_the_cuts(body: str, tagged: bool, points: list[int]) -> None:
    data = (("<think>" if tagged else "") + body).encode()

    def run(pieces: list[bytes]) -> tuple[dict[str, str], bool]:
        stream = TextStream(["STOP", "\n\n\n"], ReasoningSplitter(THINK))
        texts = {"answer": "", "reasoning": ""}
        for number, piece in enumerate(pieces):
            for channel, span in stream.push(piece, Span("", round_no=number)):
                assert span.text
                assert span.round_no <= number
                texts[channel] += span.text
        for channel, span in stream.finish():
            texts[channel] += span.text
        return texts, stream.stopped

    assert run(cut(data, points)) == run([data])
