"""A model's vocabulary: text to tokens and back, and llama.cpp's rule for drafts."""

from __future__ import annotations

import ctypes
from typing import Any

import llama_cpp

# llama.cpp, common/speculative.cpp: SPEC_VOCAB_MAX_SIZE_DIFFERENCE, SPEC_VOCAB_CHECK_START_TOKEN_ID
MAX_SIZE_DIFFERENCE = 128
CHECK_START_ID = 5


class Vocab:
    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.n_tokens = int(llama_cpp.llama_vocab_n_tokens(handle))
        self.bos = int(llama_cpp.llama_vocab_bos(handle))
        self.eos = int(llama_cpp.llama_vocab_eos(handle))
        self.add_bos = bool(llama_cpp.llama_vocab_get_add_bos(handle))
        self.add_eos = bool(llama_cpp.llama_vocab_get_add_eos(handle))
        self.type = int(llama_cpp.llama_vocab_type(handle))
        self._buffer = ctypes.create_string_buffer(512)

    def is_eog(self, token: int) -> bool:
        return bool(llama_cpp.llama_vocab_is_eog(self._handle, token))

    def text(self, token: int) -> bytes:
        """The token as the vocabulary spells it."""
        return bytes(llama_cpp.llama_vocab_get_text(self._handle, token) or b"")

    def piece(self, token: int, special: bool = False) -> bytes:
        """The token's bytes in running text; control tokens are empty unless `special`."""
        length = llama_cpp.llama_token_to_piece(self._handle, token, self._buffer, len(self._buffer), 0, special)
        if length < 0:
            self._buffer = ctypes.create_string_buffer(-length)
            length = llama_cpp.llama_token_to_piece(self._handle, token, self._buffer, len(self._buffer), 0, special)
        return self._buffer.raw[:length]

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool = True) -> list[int]:
        """Tokens of `text`. `add_special` lets the vocabulary add its BOS/EOS where its flags say so."""
        data = text.encode("utf-8", "replace")
        size = len(data) + 8
        while True:
            array = (llama_cpp.llama_token * size)()
            count = llama_cpp.llama_tokenize(self._handle, data, len(data), array, size, add_special, parse_special)
            if count >= 0:
                return list(array[:count])
            size = -count

    def special_text(self, token: int) -> str:
        return self.text(token).decode("utf-8", "replace") if token >= 0 else ""


def mismatch(target: Vocab, draft: Vocab) -> str:
    """Why `draft` cannot propose tokens for `target`, in words; empty where it can.

    The rule of llama.cpp's common_speculative_are_compatible: same type, same BOS/EOS use, sizes within 128,
    identical text from id 5 to the smaller size.
    """
    if target.type != draft.type:
        return "they use different kinds of tokenizer"
    for name in ("bos", "eos"):
        adds = getattr(target, f"add_{name}"), getattr(draft, f"add_{name}")
        if adds[0] != adds[1]:
            return f"only one of them adds {name.upper()} to a prompt"
        if adds[0] and getattr(target, name) != getattr(draft, name):
            return f"their {name.upper()} tokens differ"
    if abs(target.n_tokens - draft.n_tokens) > MAX_SIZE_DIFFERENCE:
        return f"their vocabularies differ in size: {target.n_tokens} and {draft.n_tokens} tokens"
    for token in range(CHECK_START_ID, min(target.n_tokens, draft.n_tokens)):
        if target.text(token) != draft.text(token):
            ours, theirs = target.special_text(token), draft.special_text(token)
            return f"their vocabularies differ from token {token} on: “{ours}” and “{theirs}”"
    return ""
