from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.domain.protocol import Span
from slipstream.engine.text.reasoning import (
    CHANNELS,
    PLAIN_TAGS,
    ReasoningSplitter,
    ReasoningTags,
    prompt_state,
    tags_for,
)
from slipstream.engine.text.spans import SpanBuffer, held_suffix

THINK = PLAIN_TAGS[0]


def split(tags: ReasoningTags | None, *pieces: str, starts_open: bool = False) -> tuple[str, str]:
    """(reasoning, answer)"""
    splitter = ReasoningSplitter(tags, starts_open=starts_open)
    texts = {"reasoning": "", "answer": ""}
    pairs = [pair for piece in pieces for pair in splitter.feed(Span(piece))] + splitter.finish()
    for channel, span in pairs:
        texts[channel] += span.text
    return texts["reasoning"], texts["answer"]


@pytest.mark.parametrize("tags", PLAIN_TAGS, ids=lambda tags: tags.open)
def test_every_plain_family(tags: ReasoningTags) -> None:
    text = f"\n{tags.open}\nlet me see\n{tags.close}\n\nYes."
    assert split(tags, text) == ("let me see\n", "Yes.")
    assert split(tags, *text) == ("let me see\n", "Yes.")
    assert tags_for(f"{{{{ '{tags.open}' }}}}") == tags
    assert tags_for(f"{{{{ content.split('{tags.close}')[-1] }}}}") == tags


def test_channels() -> None:
    text = (
        "<|channel|>analysis<|message|>Simple sum.<|end|><|start|>assistant<|channel|>commentary<|message|>hm<|end|>"
        "<|start|>assistant<|channel|>final <|constrain|>text<|message|>It is 4. <|end|> is a token.<|return|>"
    )
    expected = ("Simple sum.hm", "It is 4. <|end|> is a token.<|return|>")
    assert split(CHANNELS, text) == expected
    assert split(CHANNELS, *text) == expected
    assert tags_for("<|channel|>final<|message|>") is CHANNELS


def test_channels_not_used_by_the_model() -> None:
    assert split(CHANNELS, "Plain answer with <|end|> in it") == ("", "Plain answer with <|end|> in it")
    assert split(CHANNELS, "<|channel|>" + "x" * 500) == ("", "<|channel|>" + "x" * 500)


def test_a_tag_in_the_middle_of_an_answer_is_text() -> None:
    code = "Use this:\n```xml\n<think>a</think>\n```"
    assert split(THINK, code) == ("", code)
    assert split(THINK, *code) == ("", code)
    assert split(THINK, "<think>a</think>b <think>c</think>") == ("a", "b <think>c</think>")


def test_prompt_opened_the_reasoning() -> None:
    assert split(THINK, "so\n</think>\n\nanswer", starts_open=True) == ("so\n", "answer")
    assert split(THINK, "<think>\nso</think>answer", starts_open=True) == ("so", "answer")
    assert split(THINK, "never closed </thi", starts_open=True) == ("never closed </thi", "")
    assert split(THINK, "</think>\n\nanswer", starts_open=True) == ("", "answer")


def test_prompt_is_past_the_reasoning() -> None:
    splitter = ReasoningSplitter(THINK, answer_open=True)
    assert splitter.feed(Span("<think>")) == [("answer", Span("<think>"))]


def test_holds_back_only_a_possible_tag() -> None:
    splitter = ReasoningSplitter(THINK)
    assert splitter.feed(Span("<thi")) == []
    assert splitter.feed(Span("n")) == []
    assert [span.text for _, span in splitter.feed(Span("g>"))] == ["<thi", "n", "g>"]
    splitter = ReasoningSplitter(THINK, starts_open=True)
    assert splitter.feed(Span("a < b </th")) == [("reasoning", Span("a < b "))]
    assert splitter.finish() == [("reasoning", Span("</th"))]


def test_no_tags_pass_everything() -> None:
    assert split(None, "\n<think>", "x") == ("", "\n<think>x")
    assert tags_for(None) is None
    assert tags_for("{{ messages }}") is None


def test_endless_whitespace_is_shown() -> None:
    splitter = ReasoningSplitter(THINK)
    shown = sum(len(span.text) for _ in range(100) for _, span in splitter.feed(Span("\n")))
    assert shown == 100


def test_prompt_state() -> None:
    assert prompt_state("<|im_start|>assistant\n<think>\n", THINK) == "reasoning"
    assert prompt_state("<|im_start|>assistant\n<think>\n\n</think>\n\n", THINK) == "answer"
    assert prompt_state("<|im_start|>user\n<think><|im_end|>\n<|im_start|>assistant\n", THINK) == ""
    assert prompt_state("<|start|>assistant", CHANNELS) == ""
    assert prompt_state("<|start|>assistant<|channel|>final<|message|>", CHANNELS) == "answer"
    assert prompt_state("<|start|>assistant<|channel|>analysis<|message|>", CHANNELS) == "reasoning"


PIECES = ["<think>", "</think>", "<thi", "</", "a", " ", "\n", "<|channel|>", "<|message|>", "<|end|>", "<|start|>",
          "final", "analysis", "<|", "é😀"]  # fmt: skip


@given(
    st.lists(st.sampled_from(PIECES), max_size=14).map("".join),
    st.lists(st.integers(0, 100), max_size=10),
    st.sampled_from([None, THINK, CHANNELS]),
    st.booleans(),
)
def test_the_split_is_independent_of_the_cuts(
    text: str, points: list[int], tags: ReasoningTags | None, starts_open: bool
) -> None:
    edges = [0, *sorted(min(point, len(text)) for point in points), len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(edges)]
    whole = split(tags, text, starts_open=starts_open)
    assert split(tags, *pieces, starts_open=starts_open) == whole
    assert split(tags, *text, starts_open=starts_open) == whole
    if tags is None:
        assert whole == ("", text)


@given(st.text("abc <", max_size=40), st.booleans())
def test_text_without_a_tag_is_kept_whole(text: str, starts_open: bool) -> None:
    reasoning, answer = split(THINK, *text, starts_open=starts_open)
    assert (reasoning, answer) == ((text, "") if starts_open else ("", text))


@given(st.lists(st.text(max_size=5), max_size=8), st.lists(st.integers(0, 12), max_size=8))
def test_span_buffer_keeps_text_and_owner(texts: list[str], takes: list[int]) -> None:
    buffer = SpanBuffer()
    owners = ""
    for number, text in enumerate(texts):
        buffer.append(Span(text, round_no=number))
        owners += chr(number) * len(text)
    taken = [span for count in takes for span in buffer.take(count)] + buffer.take(10**6)
    assert len(buffer) == 0
    assert buffer.text == ""
    assert "".join(span.text for span in taken) == "".join(texts)
    assert "".join(chr(span.round_no) * len(span.text) for span in taken) == owners


@given(st.text("ab", max_size=8), st.lists(st.text("ab", min_size=1, max_size=5), max_size=3))
def test_held_suffix_is_the_longest(text: str, needles: list[str]) -> None:
    fits = [n for n in range(len(text) + 1) if n == 0 or any(len(x) > n and x.startswith(text[-n:]) for x in needles)]
    assert held_suffix(text, needles) == max(fits)
