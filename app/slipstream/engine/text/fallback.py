"""Prompt formats of our own, for models whose template is missing or unusable, and repairs to conversations
that a template refuses."""

from __future__ import annotations

from typing import Literal

from slipstream.domain.chat import Conversation, Message

FallbackStyle = Literal["chatml", "llama2", "plain"]

STYLE_NAMES: dict[FallbackStyle, str] = {"chatml": "ChatML", "llama2": "Llama 2", "plain": "plain text"}


def style_for(token_texts: frozenset[str] | set[str]) -> FallbackStyle:
    """The format a vocabulary suggests, from its tokens' texts (the few looked for are enough)."""
    if "<|im_start|>" in token_texts:
        return "chatml"
    return "llama2" if "[INST]" in token_texts else "plain"


def stops_for(style: FallbackStyle) -> tuple[str, ...]:
    """Stop strings for a model that may not know that its turn ends here."""
    return {"chatml": ("<|im_end|>", "<|im_start|>"), "llama2": ("[INST]", "</s>"), "plain": ("\nUser:",)}[style]


def render(conversation: Conversation, style: FallbackStyle, add_generation_prompt: bool) -> str:
    """The conversation in the given style, without a BOS."""
    if style == "chatml":
        text = "".join(f"<|im_start|>{m.role}\n{m.content}<|im_end|>\n" for m in conversation)
        return text + ("<|im_start|>assistant\n" if add_generation_prompt else "")
    if style == "llama2":
        return _llama2(conversation)
    text = "".join(f"{m.role.capitalize()}: {m.content}\n\n" for m in conversation)
    return text + ("Assistant:" if add_generation_prompt else "")


def _llama2(conversation: Conversation) -> str:
    """`[INST] <<SYS>>…<</SYS>> question [/INST] answer </s>`; an answer needs no opening of its own."""
    parts: list[str] = []
    system = ""
    for message in conversation:
        if message.role == "system":
            system += f"<<SYS>>\n{message.content}\n<</SYS>>\n\n"
        elif message.role == "user":
            parts.append(f"[INST] {system}{message.content} [/INST]")
            system = ""
        else:
            parts.append(f" {message.content} </s>")
    if system:
        parts.append(f"[INST] {system}[/INST]")
    return "".join(parts)


def merge_neighbours(conversation: Conversation) -> Conversation:
    """Neighbouring messages of one role joined into one, for templates that insist on alternation."""
    merged: list[Message] = []
    for message in conversation:
        if merged and merged[-1].role == message.role:
            last = merged[-1]
            merged[-1] = Message(
                last.role, _joined(last.content, message.content), _joined(last.reasoning, message.reasoning)
            )
        else:
            merged.append(message)
    return tuple(merged)


def fold_system(conversation: Conversation) -> Conversation:
    """Every system message put in front of the user message that follows it (a message of its own where none
    does), for templates that know no system role."""
    folded: list[Message] = []
    waiting = ""
    for message in conversation:
        if message.role == "system":
            waiting = _joined(waiting, message.content)
        elif message.role == "user" and waiting:
            folded.append(Message("user", _joined(waiting, message.content)))
            waiting = ""
        else:
            folded.append(message)
    if waiting:
        folded.append(Message("user", waiting))
    return tuple(folded)


def user_first(conversation: Conversation) -> Conversation:
    """An empty user message put before an assistant's greeting, for templates that want a question first."""
    spoken = next((index for index, message in enumerate(conversation) if message.role != "system"), None)
    if spoken is None or conversation[spoken].role == "user":
        return conversation
    return (*conversation[:spoken], Message("user", ""), *conversation[spoken:])


def _joined(first: str, second: str) -> str:
    return f"{first}\n\n{second}" if first and second else first or second
