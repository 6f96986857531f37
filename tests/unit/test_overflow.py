from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.domain.chat import Conversation, Message
from slipstream.domain.errors import ContextFull
from slipstream.domain.protocol import Overflow
from slipstream.engine.text.overflow import fit


def count(conversation: Conversation) -> int:
    return sum(len(message.content) + 1 for message in conversation)


def chat(*turns: tuple[str, str]) -> Conversation:
    names = {"s": "system", "u": "user", "a": "assistant"}
    return tuple(Message(names[role], content) for role, content in turns)  # type: ignore[arg-type]


LONG = chat(("s", "sys"), ("u", "x" * 20), ("a", "y" * 20), ("u", "x" * 20), ("a", "y" * 20), ("u", "now"))


def test_what_fits_is_left_alone_and_counted_once() -> None:
    calls: list[Conversation] = []
    fitted = fit(LONG, lambda c: calls.append(c) or 10, 20, 10, Overflow.STOP)  # type: ignore[func-returns-value]
    assert (fitted.conversation, fitted.dropped, fitted.prompt_tokens) == (LONG, 0, 10)
    assert len(calls) == 1


def test_stop_says_the_numbers() -> None:
    with pytest.raises(ContextFull) as caught:
        fit(LONG, count, 60, 10, Overflow.STOP)
    assert "92 tokens" in caught.value.message
    assert "60" in caught.value.message
    assert "10" in caught.value.message
    assert "dropped" in caught.value.hint


def test_drops_whole_turns_and_keeps_the_system_message() -> None:
    fitted = fit(LONG, count, 60, 10, Overflow.DROP_OLDEST)
    assert fitted.conversation == LONG[:1] + LONG[3:]
    assert (fitted.dropped, fitted.dropped_turns, fitted.prompt_tokens) == (2, 1, 50)
    assert fit(LONG, count, 20, 10, Overflow.DROP_OLDEST).conversation == LONG[:1] + LONG[5:]


@pytest.mark.parametrize("policy", list(Overflow))
def test_first_message_larger_than_the_context(policy: Overflow) -> None:
    with pytest.raises(ContextFull) as caught:
        fit(chat(("u", "x" * 9000)), count, 4096, 256, policy)
    assert "9,001 tokens" in caught.value.message
    assert "4,096" in caught.value.message
    assert "Shorten" in caught.value.hint


def test_system_and_last_message_larger_than_the_context() -> None:
    with pytest.raises(ContextFull, match="The system prompt and the last message alone take 5,005 tokens"):
        fit(chat(("s", "x" * 5000), ("u", "old"), ("a", "old"), ("u", "abc")), count, 4096, 0, Overflow.DROP_OLDEST)


def test_a_reply_carried_on_stays_with_its_question() -> None:
    fitted = fit(
        chat(("u", "x" * 50), ("a", "y" * 50), ("u", "q"), ("a", "unfini")), count, 30, 5, Overflow.DROP_OLDEST
    )
    assert fitted.conversation == chat(("u", "q"), ("a", "unfini"))


def test_a_greeting_in_front_is_dropped_first() -> None:
    fitted = fit(chat(("a", "g" * 40), ("u", "q" * 20), ("a", "r"), ("u", "n")), count, 40, 10, Overflow.DROP_OLDEST)
    assert [message.role for message in fitted.conversation] == ["user", "assistant", "user"]
    assert fitted.dropped == 1


def test_many_turns_take_few_counts() -> None:
    calls = 0

    def counting(conversation: Conversation) -> int:
        nonlocal calls
        calls += 1
        return count(conversation)

    turns = chat(*[(role, "text") for _ in range(500) for role in "ua"], ("u", "now"))
    fitted = fit(turns, counting, 1000, 100, Overflow.DROP_OLDEST)
    assert fitted.prompt_tokens <= 900
    assert calls <= 12


@given(
    st.lists(st.tuples(st.sampled_from("sua"), st.text("x", max_size=12)), min_size=1, max_size=14),
    st.integers(0, 120),
    st.integers(0, 20),
)
def test_the_result_fits_and_drops_no_more_than_needed(turns: list[tuple[str, str]], n_ctx: int, reserve: int) -> None:
    conversation = chat(*turns)
    try:
        fitted = fit(conversation, count, n_ctx, reserve, Overflow.DROP_OLDEST)
    except ContextFull as error:
        assert error.hint
        assert count(conversation) > n_ctx - reserve
        return
    kept = fitted.conversation
    assert fitted.prompt_tokens == count(kept) <= n_ctx - reserve
    assert fitted.dropped == len(conversation) - len(kept)
    assert [m for m in kept if m.role == "system"] == [m for m in conversation if m.role == "system"]
    spoken = [m for m in conversation if m.role != "system"]
    left = [m for m in kept if m.role != "system"]
    assert left == spoken[len(spoken) - len(left) :]
    if fitted.dropped:
        assert left[0].role == "user"
        fewer = [i for i in range(len(spoken) - len(left)) if spoken[i].role == "user"]
        if fewer:  # one turn more would not have fitted
            assert fitted.prompt_tokens + sum(
                len(m.content) + 1 for m in spoken[fewer[-1] : len(spoken) - len(left)]
            ) > (n_ctx - reserve)
