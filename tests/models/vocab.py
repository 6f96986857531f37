"""Vocabularies of the tiny models: which tokens, which specials, how text is cut.

``TINY8`` has eight letters and one end token, small enough for chi-square tests on the joint of several tokens.
``text`` is a byte-level BPE that cuts any UTF-8 text, with ChatML specials and a chat template.
``spm`` is a SentencePiece-like vocabulary, there to be refused as a partner of the others.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import gguf

NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6  # llama.cpp's token types

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# Only there to learn merges from; any prose would do.
_CORPUS = """
A river runs past the mill and under the old stone bridge. The miller counts sacks of flour in the morning, and his
daughter draws maps of the river in the evening. When the rain comes the water rises, the wheel turns faster and the
bread is cheaper in the town. People say that the bridge will stand for another hundred years. Nobody has asked the
river. There are three ways to the town: by the road, by the path along the water, and by boat when the wind is right.
Which of these is the shortest? That depends on where you start and on what you carry. The answer to a question is
often another question, and the best of them can be answered with a walk. Please write a list of the things you need:
some bread, a good map, the name of a friend in the town, and something to read while you wait for the ferry.
def count(words): total = 0 for word in words: total = total + len(word) return total
def mean(values): return sum(values) / len(values) if values else 0
for index in range(10): print(index, count(names[index])) and then return the result of the function to the caller
"""


@dataclass(frozen=True)
class Vocabulary:
    """Everything the header says about tokens. ``texts`` holds one entry per id, in id order."""

    model: str
    texts: tuple[str, ...]
    types: tuple[int, ...]
    merges: tuple[str, ...] = ()
    pre: str | None = None
    scores: tuple[float, ...] | None = None
    bos: int | None = None
    eos: int | None = None
    pad: int | None = None
    unk: int | None = None
    add_bos: bool = False
    add_eos: bool = False
    chat_template: str | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def id_of(self, text: str) -> int:
        """The id whose text is exactly this; ValueError if there is none."""
        return self.texts.index(text)

    def write(self, writer: gguf.GGUFWriter) -> None:
        """Put the tokenizer's keys into a header."""
        writer.add_tokenizer_model(self.model)
        if self.pre is not None:
            writer.add_tokenizer_pre(self.pre)
        writer.add_token_list(list(self.texts))
        writer.add_token_types(list(self.types))
        if self.scores is not None:
            writer.add_token_scores(list(self.scores))
        if self.merges:
            writer.add_token_merges(list(self.merges))
        if self.bos is not None:
            writer.add_bos_token_id(self.bos)
        if self.eos is not None:
            writer.add_eos_token_id(self.eos)
        if self.pad is not None:
            writer.add_pad_token_id(self.pad)
        if self.unk is not None:
            writer.add_unk_token_id(self.unk)
        writer.add_add_bos_token(self.add_bos)
        writer.add_add_eos_token(self.add_eos)
        if self.chat_template is not None:
            writer.add_chat_template(self.chat_template)


@functools.cache
def byte_letters() -> tuple[str, ...]:
    """One printable letter for each of the 256 bytes, as byte-level BPE vocabularies name them (GPT-2's table)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    letters = {byte: chr(byte) for byte in printable}
    for extra, byte in enumerate(b for b in range(256) if b not in letters):
        letters[byte] = chr(256 + extra)
    return tuple(letters[byte] for byte in range(256))


def letters_of(text: str) -> str:
    """The text as a byte-level vocabulary spells it."""
    table = byte_letters()
    return "".join(table[byte] for byte in text.encode())


def _learn_merges(corpus: str, count: int) -> list[tuple[str, str]]:
    """Plain byte-pair merges by frequency, ties broken by spelling so that the result never changes."""
    pieces = re.findall(r" ?[A-Za-z]+| ?[^\sA-Za-z]+|\s+", corpus)
    words = [(list(letters_of(piece)), number) for piece, number in sorted(Counter(pieces).items())]
    merges: list[tuple[str, str]] = []
    while len(merges) < count:
        pairs: Counter[tuple[str, str]] = Counter()
        for letters, number in words:
            for pair in itertools.pairwise(letters):
                pairs[pair] += number
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        for letters, _ in words:
            at = 0
            while at < len(letters) - 1:
                if (letters[at], letters[at + 1]) == best:
                    letters[at : at + 2] = ["".join(best)]
                at += 1
    return merges


@functools.cache
def text_vocabulary(merge_count: int = 300) -> Vocabulary:
    """256 bytes, then merges, then ``<|endoftext|>``, ``<|im_start|>``, ``<|im_end|>`` (end of turn)."""
    merges = _learn_merges(_CORPUS, merge_count)
    merged = list(dict.fromkeys(left + right for left, right in merges))
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    texts = (*byte_letters(), *merged, *specials)
    return Vocabulary(
        model="gpt2",
        pre="qwen2",
        texts=texts,
        types=(NORMAL,) * (len(texts) - len(specials)) + (CONTROL,) * len(specials),
        merges=tuple(f"{left} {right}" for left, right in merges),
        bos=texts.index("<|endoftext|>"),
        pad=texts.index("<|endoftext|>"),
        eos=texts.index("<|im_end|>"),
        chat_template=CHAT_TEMPLATE,
    )


@functools.cache
def tiny8_vocabulary() -> Vocabulary:
    """Letters a to h as ids 0 to 7, ``<|endoftext|>`` as id 8. The one merge is never met: its token is the end."""
    return Vocabulary(
        model="gpt2",
        pre="qwen2",
        texts=(*"abcdefgh", "<|endoftext|>"),
        types=(NORMAL,) * 8 + (CONTROL,),
        merges=("<|endof text|>",),
        bos=8,
        eos=8,
        pad=8,
    )


@functools.cache
def spm_vocabulary() -> Vocabulary:
    """``<unk>``, ``<s>``, ``</s>``, 256 byte tokens, the space mark and the lower-case letters."""
    texts = ("<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"abcdefghijklmnopqrstuvwxyz")
    return Vocabulary(
        model="llama",
        texts=texts,
        types=(UNKNOWN, CONTROL, CONTROL, *(BYTE,) * 256, *(NORMAL,) * 27),
        scores=(0.0,) * 259 + tuple(-float(n) for n in range(27)),
        bos=1,
        eos=2,
        unk=0,
        add_bos=True,
        chat_template=CHAT_TEMPLATE,
    )


def vocabulary(name: str) -> Vocabulary:
    """By name: ``tiny8``, ``text`` or ``spm``; KeyError otherwise."""
    return {"tiny8": tiny8_vocabulary, "text": text_vocabulary, "spm": spm_vocabulary}[name]()


def renamed(base: Vocabulary, token: int, text: str) -> Vocabulary:
    """The same width with another text at one id."""
    texts = list(base.texts)
    texts[token] = text
    return replace(base, texts=tuple(texts))


def padded(base: Vocabulary, extra: int) -> Vocabulary:
    """``extra`` unused tokens more, as converters add them to reach a round width."""
    names: Sequence[str] = [f"[PAD{number}]" for number in range(extra)]
    scores = None if base.scores is None else (*base.scores, *(-1000.0,) * extra)
    return replace(base, texts=(*base.texts, *names), types=(*base.types, *(UNUSED,) * extra), scores=scores)
