from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from template_samples import (
    DEEPSEEK_R1,
    FAMILIES,
    GEMMA2,
    GENERATION_TAG,
    GPT_OSS,
    LLAMA3,
    MISTRAL,
    QWEN3,
    QWEN25,
    TYPED,
)

from slipstream.domain.chat import Conversation, Message
from slipstream.domain.errors import TemplateFailed
from slipstream.domain.protocol import Span
from slipstream.engine.text.fallback import style_for
from slipstream.engine.text.reasoning import ReasoningSplitter
from slipstream.engine.text.template import ChatTemplate

Make = Callable[..., ChatTemplate]


@pytest.fixture(scope="module")
def make() -> Iterator[Make]:
    made: dict[tuple[object, ...], ChatTemplate] = {}

    def build(source: str | None, **options: Any) -> ChatTemplate:
        key = (source, *options.items())
        if key not in made:
            # The limit is wide: a busy machine is no failure.
            made[key] = ChatTemplate(source, "<s>", "</s>", time_limit_s=20.0, **options)
        return made[key]

    yield build
    for template in made.values():
        template.close()


def user(text: str) -> Message:
    return Message("user", text)


def reply(text: str, reasoning: str = "") -> Message:
    return Message("assistant", text, reasoning)


CHAT: Conversation = (user("Hi"), reply("Hello."), user("1+1?"))


def test_qwen25_adds_its_own_system_prompt(make: Make) -> None:
    template = make(QWEN25)
    rendered = template.render(CHAT)
    assert rendered.prompt == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert (rendered.notice, rendered.stops, rendered.starts_with_bos) == ("", (), False)
    assert not template.fallback
    assert not template.has_thinking
    with_system = template.render((Message("system", "Be brief."), user("Hi")), add_generation_prompt=False).prompt
    assert with_system == "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"


def test_llama3_writes_the_bos_itself(make: Make) -> None:
    rendered = make(LLAMA3).render((user(" Hi "),))
    assert rendered.prompt == (
        "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    assert rendered.starts_with_bos


@pytest.mark.parametrize("source", [GEMMA2, MISTRAL])
def test_system_text_is_folded_where_the_template_refuses_it(make: Make, source: str) -> None:
    rendered = make(source).render((Message("system", "Be brief."), *CHAT))
    assert "Be brief.\n\nHi" in rendered.prompt
    assert "no system prompt" in rendered.notice
    assert rendered.stops == ()


@pytest.mark.parametrize("source", [GEMMA2, MISTRAL])
def test_roles_that_do_not_alternate_are_merged(make: Make, source: str) -> None:
    rendered = make(source).render((user("one"), user("two"), reply("three"), reply("four"), user("five")))
    assert "one\n\ntwo" in rendered.prompt
    assert "three\n\nfour" in rendered.prompt
    assert rendered.notice == ""


def test_a_greeting_first_gets_an_empty_question(make: Make) -> None:
    rendered = make(GEMMA2).render((reply("Welcome!"), user("Hi")))
    assert rendered.prompt.startswith("<s><start_of_turn>user\n<end_of_turn>\n<start_of_turn>model\nWelcome!")
    assert "question first" in rendered.notice


def test_gemma_by_the_letter(make: Make) -> None:
    assert make(GEMMA2).render(CHAT).prompt == (
        "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n"
        "<start_of_turn>user\n1+1?<end_of_turn>\n<start_of_turn>model\n"
    )


def test_deepseek_opens_the_reasoning(make: Make) -> None:
    template = make(DEEPSEEK_R1)
    rendered = template.render(CHAT)
    assert rendered.prompt.endswith("<|Assistant|><think>\n")
    assert rendered.reasoning_open
    assert not rendered.answer_open
    assert template.has_thinking


def test_qwen3_thinking_switch(make: Make) -> None:
    template = make(QWEN3)
    assert template.has_thinking
    default = template.render(CHAT)
    assert default.prompt.endswith("<|im_start|>assistant\n")
    assert not default.reasoning_open
    assert template.render(CHAT, thinking=True) == default
    off = template.render(CHAT, thinking=False)
    assert off.prompt.endswith("<think>\n\n</think>\n\n")
    assert off.answer_open


def test_gpt_oss_effort_and_channels(make: Make) -> None:
    template = make(GPT_OSS)
    assert template.has_thinking
    assert "Reasoning: medium" in template.render(CHAT).prompt
    rendered = template.render((user("Hi"), reply("Hello.", "Greet."), user("1+1?")), thinking=False)
    assert "Reasoning: low" in rendered.prompt
    assert rendered.prompt.endswith("<|start|>assistant")


def test_typed_content_is_found_out(make: Make) -> None:
    assert make(TYPED).render((user("Hi"),)).prompt == "USER: Hi\nASSISTANT:"


def test_generation_tag_and_loop_controls(make: Make) -> None:
    assert make(GENERATION_TAG).render(tuple(user(str(n)) for n in range(9))).prompt == "[0][1][2][3]"


def test_reasoning_of_earlier_turns_reaches_the_template(make: Make) -> None:
    source = "{% for m in messages %}{{ m.content }}({{ m.reasoning_content }}){% endfor %}"
    assert make(source).render((user("Hi"), reply("Hello.", "Greet."))).prompt == "Hi()Hello.(Greet.)"


def test_tojson_is_plain_json(make: Make) -> None:
    source = "{{ messages | map(attribute='content') | list | tojson }}{{ tools | tojson(indent=1) }}"
    rendered = make(source).render((user("<é> & 'q'"),), tools=[{"a": 1}])
    assert rendered.prompt == '["<é> & \'q\'"][\n {\n  "a": 1\n }\n]'


@pytest.mark.parametrize("source", FAMILIES)
def test_odd_text_passes_through(make: Make, source: str) -> None:
    odd = "{{ 7*7 }} {% raw %} \\n \"' 😀 นี่ \x00 \ud800 </s>"
    rendered = make(source).render((user(odd),))
    assert odd in rendered.prompt
    assert rendered.notice == ""


def test_a_message_larger_than_any_context_still_renders(make: Make) -> None:
    text = "word " * 1_000_000
    rendered = make(QWEN25).render((user(text),))
    assert text in rendered.prompt
    assert rendered.notice == ""


# ---------------------------------------------------------------- carrying an unfinished reply on


@pytest.mark.parametrize(
    ("source", "message", "end"),
    [
        (QWEN25, reply("Half a sen"), "<|im_start|>assistant\nHalf a sen"),
        (MISTRAL, reply(" Half"), "[INST] Hi [/INST] Half"),
        (QWEN3, reply("Half"), "<|im_start|>assistant\nHalf"),
        (QWEN3, reply("", "Let me"), "<|im_start|>assistant\n<think>\nLet me"),
        (QWEN3, reply("Half", "Let me.\n"), "<|im_start|>assistant\n<think>\nLet me.\n</think>\n\nHalf"),
        (DEEPSEEK_R1, reply("", "Let me"), "<|Assistant|><think>\nLet me"),
        (DEEPSEEK_R1, reply("Half", "Let me."), "<|Assistant|><think>\nLet me.\n</think>\n\nHalf"),
        (DEEPSEEK_R1, reply("Half"), "<|Assistant|><think>\n\n</think>\n\nHalf"),
        (DEEPSEEK_R1, reply(""), "<|Assistant|><think>\n"),
        (GPT_OSS, reply("", "Let me"), "<|start|>assistant<|channel|>analysis<|message|>Let me"),
        (GPT_OSS, reply("Half"), "<|start|>assistant<|channel|>final<|message|>Half"),
        (
            GPT_OSS,
            reply("Half", "Let me."),
            (
                "<|start|>assistant<|channel|>analysis<|message|>Let me.<|end|>"
                "<|start|>assistant<|channel|>final<|message|>Half"
            ),
        ),
    ],
)
def test_continue_last(make: Make, source: str, message: Message, end: str) -> None:
    template = make(source)
    rendered = template.render((user("Hi"), message), continue_last=True)
    assert rendered.prompt.endswith(end)
    assert rendered.prompt.count("Hi") == 1
    # What the model writes next goes where the unfinished text was.
    splitter = ReasoningSplitter(template.tags, starts_open=rendered.reasoning_open, answer_open=rendered.answer_open)
    channels = {channel for channel, _ in splitter.feed(Span("more")) + splitter.finish()}
    expected = "answer" if message.content or source != DEEPSEEK_R1 else "reasoning"
    assert channels == {"reasoning" if message.reasoning and not message.content else expected}


def test_continue_with_thinking_switched_off_keeps_what_was_thought(make: Make) -> None:
    rendered = make(QWEN3).render((user("Hi"), reply("Half", "Hm.")), continue_last=True, thinking=False)
    assert rendered.prompt.endswith("<|im_start|>assistant\n<think>\nHm.\n</think>\n\nHalf")
    assert rendered.answer_open
    plain = make(QWEN3).render((user("Hi"), reply("Half")), continue_last=True, thinking=False)
    assert plain.prompt.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\nHalf")


def test_nothing_to_render_is_said() -> None:
    template = ChatTemplate(QWEN25, "<s>", "</s>", time_limit_s=20.0)
    with pytest.raises(TemplateFailed, match="empty"):
        template.render(())
    with pytest.raises(TemplateFailed, match="no unfinished reply"):
        template.render(CHAT, continue_last=True)
    template.close()
    template.close()
    with pytest.raises(TemplateFailed, match="closed"):
        template.render(CHAT)


# ---------------------------------------------------------------- no usable template


@pytest.mark.parametrize("source", [None, "", "  \n"])
def test_missing_template_falls_back_with_a_notice(make: Make, source: str | None) -> None:
    template = make(source)
    rendered = template.render((Message("system", "Be brief."), user("Hi")))
    assert rendered.prompt == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert template.fallback
    assert "ChatML" in rendered.notice
    assert rendered.notice == template.notice
    assert "<|im_end|>" in rendered.stops


def test_other_fallback_styles(make: Make) -> None:
    chat = (Message("system", "Be brief."), user("Hi"), reply("Hello."), user("Bye"))
    llama = make(None, fallback_style="llama2")
    assert llama.render(chat).prompt == (
        "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello. </s>[INST] Bye [/INST]"
    )
    assert llama.render((user("Hi"), reply("Half")), continue_last=True).prompt == "[INST] Hi [/INST] Half"
    plain = make(None, fallback_style="plain").render(chat)
    assert plain.prompt == "System: Be brief.\n\nUser: Hi\n\nAssistant: Hello.\n\nUser: Bye\n\nAssistant:"
    assert plain.stops == ("\nUser:",)


def test_the_vocabulary_suggests_the_style() -> None:
    assert style_for({"<|im_start|>", "[INST]"}) == "chatml"
    assert style_for({"[INST]"}) == "llama2"
    assert style_for(set()) == "plain"


def test_a_template_that_loses_the_message_is_not_used(make: Make) -> None:
    rendered = make("always the same").render((user("Hi"),))
    assert "leaves the message out" in rendered.notice
    assert "Hi" in rendered.prompt


def test_one_conversation_the_template_cannot_take(make: Make) -> None:
    template = make(
        "{% for m in messages %}{{ m.content }}{{ raise_exception('No\x1b[31m 7\nhere.') if m.content == '7' }}{% endfor %}"
    )
    bad = template.render((user("7"),))
    assert "(No [31m 7 here)" in bad.notice
    assert not template.fallback
    assert template.render((user("8"),)).prompt == "8"
