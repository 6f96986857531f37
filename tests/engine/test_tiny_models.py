"""The tiny models load, behave and roll back as the engine assumes of their kinds.

What is asserted here about llama.cpp's memories is what the roll-back code rests on: if a new llama.cpp changes it,
these tests say so first.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gguf
import llama_cpp
import numpy as np
import numpy.typing as npt
import pytest

from models.broken import ABORTING, BROKEN
from models.driver import PARTIAL_ONLY, Session, acceptance, softmax
from models.tiny import CYCLE, OTHER_TEXT_ID, RECIPES, Recipe, TinyModels, write, write_llama
from models.vocab import CHAT_TEMPLATE, text_vocabulary

KINDS = ("text", "sliding", "snapshots", "delta", "recurrent", "hybrid")
WITH_SNAPSHOTS = ("snapshots", "delta")
BY_CHECKPOINT = ("recurrent", "hybrid", "snapshots", "delta", "sliding")
TEXT_PAIRS = ("text", "sliding", "snapshots", "delta", "recurrent", "hybrid")
TINY8_PAIRS = ("tiny8", *(f"tiny8-{kind}" for kind in KINDS if kind != "text"))
CHAT = "<|im_start|>user\nHow far is the town? 🙂 Grüße!<|im_end|>\n<|im_start|>assistant\n"
SLACK = 0.02  # logits are of size 10, rounding is below 0.005, a wrong state is off by 0.1 and more

_random = np.random.default_rng(0)
PROMPT = [int(token) for token in _random.integers(0, 500, 40)]
ROUND = [int(token) for token in _random.integers(0, 500, 5)]
AFTER = [int(token) for token in _random.integers(0, 500, 3)]


def expected(path: Path, tokens: list[int]) -> npt.NDArray[np.float32]:
    """Logits of the last rows, those of ``AFTER``, in a context that never saw anything else."""
    with Session(path) as session:
        return session.decode([*tokens, *AFTER])[-len(AFTER) :]


def agrees(session: Session, kept: list[int], path: Path) -> bool:
    """Whether decoding ``AFTER`` now gives what it gives after ``kept`` alone."""
    return bool(np.abs(session.decode(AFTER) - expected(path, kept)).max() < SLACK)


@pytest.mark.parametrize("name", list(RECIPES))
def test_loads_and_decodes_the_same_finite_logits_twice(tiny_models: TinyModels, name: str) -> None:
    path = tiny_models.path(name)
    assert path.stat().st_size < 1_000_000
    tokens = [token % 8 for token in PROMPT]
    with Session(path) as session:
        first = session.decode(tokens)
        session.clear()
        assert np.isfinite(first).all()
        assert np.array_equal(first, session.decode(tokens))
        assert session.n_vocab == len(RECIPES[name].vocabulary())


def test_the_same_recipe_gives_the_same_bytes(tmp_path: Path) -> None:
    first = write_llama(tmp_path / "a.gguf", noise=0.1).read_bytes()
    assert first == write_llama(tmp_path / "b.gguf", noise=0.1).read_bytes()
    assert first != write_llama(tmp_path / "c.gguf", noise=0.2).read_bytes()


# The small vocabulary


@pytest.mark.parametrize("name", TINY8_PAIRS)
def test_tiny8_is_peaked_but_uncertain_and_never_ends(tiny_models: TinyModels, name: str) -> None:
    with Session(tiny_models.path(name)) as session:
        tokens = session.generate([0, 1, 2], 300, np.random.default_rng(1))
        session.clear()
        p = softmax(session.decode([0, 1, 2, *tokens]))
    entropy = -(p * np.log(np.maximum(p, 1e-30))).sum(axis=-1).mean() / np.log(8)
    assert 0.6 < entropy < 0.9
    assert p[:, 8].max() < 1e-6
    assert np.bincount(tokens, minlength=8).min() > 0


@pytest.mark.parametrize("name", ["tiny8", "tiny8-draft", "tiny8-cut"])
@pytest.mark.parametrize("back", [1, 2, 3])
def test_tiny8_depends_on_each_of_the_last_tokens(tiny_models: TinyModels, name: str, back: int) -> None:
    distances = []
    with Session(tiny_models.path(name)) as session:
        for start in range(8):
            tokens = [start, 3, 1, 4, 2]
            other = list(tokens)
            other[-back] = (other[-back] + 3) % 8
            rows = []
            for each in (tokens, other):
                session.clear()
                rows.append(softmax(session.decode(each)[-1]))
            distances.append(0.5 * np.abs(rows[0] - rows[1]).sum())
    assert np.mean(distances) > 0.1


# The text vocabulary


@pytest.mark.parametrize("text", ["Hello, world", "  two\n\nlines\t", "Grüße, 你好, мир 🙂👩‍👩‍👧", "a" * 300, ""])
def test_any_text_survives_the_tokenizer(tiny_models: TinyModels, text: str) -> None:
    with Session(tiny_models.path("text")) as session:
        tokens = session.tokenize(text)
        assert session.text(tokens) == text
        assert len(tokens) <= len(text.encode())


def test_specials_are_single_tokens_and_an_emoji_is_several(tiny_models: TinyModels) -> None:
    vocab = text_vocabulary()
    with Session(tiny_models.path("text")) as session:
        assert session.tokenize("<|im_start|>") == [vocab.id_of("<|im_start|>")]
        assert session.tokenize("<|im_end|>") == [vocab.eos]
        assert len(session.tokenize("🙂")) == 4
        assert len(session.tokenize(" the river")) < 5


def test_the_header_carries_the_chat_template(tiny_models: TinyModels) -> None:
    with Session(tiny_models.path("text")) as session:
        template = llama_cpp.llama_model_chat_template(session.model, None)
    assert template.decode() == CHAT_TEMPLATE


@pytest.mark.parametrize("name", KINDS)
def test_greedy_text_does_not_get_stuck(tiny_models: TinyModels, name: str) -> None:
    with Session(tiny_models.path(name)) as session:
        tokens = session.generate(session.tokenize(CHAT), 100)
        assert len(set(tokens)) > 30


def test_the_brief_model_ends_its_turn(tiny_models: TinyModels) -> None:
    end = text_vocabulary().eos
    ended = 0
    with Session(tiny_models.path("text-brief")) as session:
        prompt = session.tokenize(CHAT)
        for seed in range(8):
            ended += end in session.generate(prompt, 100, np.random.default_rng(seed))
    assert ended >= 4


def test_the_copycat_goes_round(tiny_models: TinyModels) -> None:
    with Session(tiny_models.path("copycat")) as session:
        tokens = session.generate(session.tokenize(CHAT), 60)
        assert session.text(tokens).count(CYCLE.strip()) >= 2


# Drafts


@pytest.mark.parametrize("name", TEXT_PAIRS)
def test_a_noisy_draft_of_text_is_accepted_in_part(tiny_models: TinyModels, name: str) -> None:
    sampled, one_hot = acceptance(tiny_models.path(name), tiny_models.path(f"{name}-draft"), PROMPT)
    assert 0.5 < sampled < 0.8
    assert 0.1 < one_hot < sampled


@pytest.mark.parametrize("name", TINY8_PAIRS)
def test_a_noisy_draft_of_letters_is_accepted_in_part(tiny_models: TinyModels, name: str) -> None:
    sampled, _ = acceptance(tiny_models.path(name), tiny_models.path(f"{name}-draft"), [0, 1, 2])
    assert 0.5 < sampled < 0.85


@pytest.mark.parametrize(
    ("target", "draft", "low", "high"),
    [
        ("text", "text-f16", 0.95, 1.0),
        ("text", "text-cut", 0.25, 0.6),
        ("text", "text-bad", 0.0, 0.15),
        ("tiny8", "tiny8-cut", 0.5, 0.85),
        ("tiny8", "tiny8-bad", 0.2, 0.5),
        ("copycat", "copycat-draft", 0.85, 1.0),
    ],
)
def test_other_drafts_are_as_good_as_their_names(
    tiny_models: TinyModels, target: str, draft: str, low: float, high: float
) -> None:
    prompt = [0, 1, 2] if target == "tiny8" else PROMPT
    sampled, _ = acceptance(tiny_models.path(target), tiny_models.path(draft), prompt)
    assert low < sampled < high


# Rolling back


@pytest.mark.parametrize("name", KINDS)
def test_probe_tells_the_kinds_apart(tiny_models: TinyModels, name: str) -> None:
    """Two tokens in, one out: it works for attention always, for states only with snapshots."""
    with Session(tiny_models.path(name)) as session:
        session.decode(PROMPT[:2])
        assert session.remove(1) == (name in ("text", "sliding"))
    with Session(tiny_models.path(name), n_rs_seq=4) as session:
        assert session.n_rs_seq == (4 if name in WITH_SNAPSHOTS else 0)
        session.decode(PROMPT[:2])
        assert session.remove(1) == (name not in ("recurrent", "hybrid"))


@pytest.mark.parametrize("name", KINDS)
def test_everything_can_always_be_removed(tiny_models: TinyModels, name: str) -> None:
    path = tiny_models.path(name)
    with Session(path) as session:
        session.decode([*PROMPT, *ROUND])
        assert session.remove(0)
        assert session.span() == (-1, -1)
        session.decode(PROMPT)
        assert agrees(session, PROMPT, path)


@pytest.mark.parametrize("name", ["text", "sliding"])
def test_attention_takes_any_tail_off_any_number_of_times(tiny_models: TinyModels, name: str) -> None:
    path = tiny_models.path(name)
    with Session(path) as session:
        session.decode(PROMPT)
        session.decode(ROUND)
        assert session.remove(len(PROMPT) + 3)
        assert session.remove(len(PROMPT) + 1)
        assert session.span()[1] == len(PROMPT)
        assert agrees(session, [*PROMPT, ROUND[0]], path)


@pytest.mark.parametrize("name", WITH_SNAPSHOTS)
@pytest.mark.parametrize("back", [1, 2, 3, 4])
def test_snapshots_go_back_within_the_last_decode_round_after_round(
    tiny_models: TinyModels, name: str, back: int
) -> None:
    path = tiny_models.path(name)
    kept = len(ROUND) - back
    with Session(path, n_rs_seq=4) as session:
        session.decode(PROMPT)
        for _ in range(3):
            session.decode(ROUND)
            assert session.remove(session.position - back)
        assert agrees(session, [*PROMPT, *ROUND[:kept] * 3], path)


@pytest.mark.parametrize("name", WITH_SNAPSHOTS)
def test_snapshots_allow_one_removal_a_decode(tiny_models: TinyModels, name: str) -> None:
    path = tiny_models.path(name)
    with Session(path, n_rs_seq=4) as session:
        session.decode([*PROMPT, *ROUND])
        end = session.position
        assert not session.remove(end - 5)  # more than there are snapshots: refused, nothing lost
        assert session.remove(end - 2)
        assert session.remove(end - 2)  # nothing more to take off
        assert not session.remove(end - 3)
        assert agrees(session, [*PROMPT, *ROUND[:3]], path)


@pytest.mark.parametrize("name", WITH_SNAPSHOTS)
def test_snapshots_lie_past_the_rows_of_the_last_decode(tiny_models: TinyModels, name: str) -> None:
    """llama.cpp says yes to these and leaves a wrong state: the caller must count its own rows."""
    path = tiny_models.path(name)
    with Session(path, n_rs_seq=4) as session:
        session.decode([*PROMPT, *ROUND[:4]])
        session.decode(ROUND[4:])
        assert session.remove(session.position - 2)
        assert not agrees(session, [*PROMPT, *ROUND[:3]], path)


@pytest.mark.parametrize("name", WITH_SNAPSHOTS)
def test_snapshots_also_lie_when_the_whole_last_decode_goes(tiny_models: TinyModels, name: str) -> None:
    path = tiny_models.path(name)
    with Session(path, n_rs_seq=8) as session:
        session.decode(PROMPT)
        session.decode(ROUND)
        assert session.remove(len(PROMPT))
        assert not agrees(session, PROMPT, path)


@pytest.mark.parametrize("name", BY_CHECKPOINT)
@pytest.mark.parametrize("accepted", [0, 2])
def test_checkpoint_restores_what_cannot_be_trimmed(tiny_models: TinyModels, name: str, accepted: int) -> None:
    path = tiny_models.path(name)
    with Session(path) as session:
        session.decode(PROMPT)
        state = session.save(PARTIAL_ONLY)
        for _ in range(2):  # the same checkpoint serves again
            session.decode(ROUND)
            assert session.restore(state) == len(state)
            assert session.remove(len(PROMPT))
            assert session.span()[1] == len(PROMPT) - 1
        if accepted:
            session.decode(ROUND[:accepted])
        assert agrees(session, [*PROMPT, *ROUND[:accepted]], path)


@pytest.mark.parametrize("name", ["recurrent", "hybrid", "snapshots", "delta"])
def test_removal_before_the_restore_is_refused(tiny_models: TinyModels, name: str) -> None:
    with Session(tiny_models.path(name)) as session:
        session.decode(PROMPT)
        session.decode(ROUND)
        assert not session.remove(len(PROMPT))
        assert session.span()[1] == len(PROMPT) + len(ROUND) - 1


@pytest.mark.parametrize("name", ["hybrid", "snapshots", "delta"])
def test_a_restore_without_the_removal_leaves_rejected_tokens_in_sight(tiny_models: TinyModels, name: str) -> None:
    path = tiny_models.path(name)
    with Session(path) as session:
        session.decode(PROMPT)
        state = session.save(PARTIAL_ONLY)
        session.decode(ROUND)
        session.restore(state)
        session.position = len(PROMPT)
        assert not agrees(session, PROMPT, path)


def test_partial_states_grow_with_the_text_for_full_attention_only(tiny_models: TinyModels) -> None:
    sizes: dict[str, list[tuple[int, int]]] = {}
    for name in KINDS:
        with Session(tiny_models.path(name)) as session:
            for length in (100, 300):
                session.clear()
                session.decode((PROMPT * 8)[:length])
                sizes.setdefault(name, []).append((len(session.save(PARTIAL_ONLY)), len(session.save(0))))
    for name, ((partial, full), (later_partial, later_full)) in sizes.items():
        if name == "text":
            assert partial == full and later_partial > 2 * partial
        else:
            assert partial == later_partial
            assert (later_full > full) == (name != "recurrent")


def test_a_sliding_window_forgets_and_says_so_by_its_oldest_position(tiny_models: TinyModels) -> None:
    path = tiny_models.path("sliding")
    text = (PROMPT * 13)[:500]
    with Session(path, n_ctx=1024) as session:
        session.decode(text)
        oldest, newest = session.span()
        assert newest == 499 and oldest > 100
        assert session.remove(490)
        assert agrees(session, text[:490], path)
        assert session.remove(100)  # says yes, but the window before position 100 is gone
        assert not agrees(session, text[:100], path)


# Files that must be refused


@pytest.mark.parametrize("name", list(BROKEN))
def test_llama_cpp_refuses_broken_files(tiny_models: TinyModels, name: str) -> None:
    with pytest.raises(ValueError, match="refuses"):
        Session(tiny_models.broken(name))


@pytest.mark.parametrize("name", list(ABORTING))
@pytest.mark.skipif(sys.platform == "win32", reason="an abort opens a dialogue there")
def test_llama_cpp_ends_the_process_on_some(tiny_models: TinyModels, name: str) -> None:
    code = "import sys; from pathlib import Path; from models.driver import Session; Session(Path(sys.argv[1]))"
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tiny_models.broken(name))],
        capture_output=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONPATH": paths, "GGML_NO_BACKTRACE": "1"},
    )
    assert done.returncode < 0, done.stderr


@pytest.mark.parametrize("arch", ["eagle3", "dflash", "dspark"])
def test_draft_only_headers_name_their_architecture(tiny_models: TinyModels, arch: str) -> None:
    reader = gguf.GGUFReader(tiny_models.draft_only(arch))
    field = reader.get_field("general.architecture")
    assert field is not None
    assert field.contents() == ("dflash" if arch == "dspark" else arch)
    with pytest.raises(ValueError, match="refuses"):
        Session(tiny_models.draft_only(arch))


def test_vocabulary_partners_differ_where_they_say(tiny_models: TinyModels) -> None:
    base = text_vocabulary()
    assert len(RECIPES["vocab-plus-128"].vocabulary()) == len(base) + 128
    assert len(RECIPES["vocab-plus-129"].vocabulary()) == len(base) + 129
    other = RECIPES["vocab-other-text"].vocabulary()
    assert [n for n, (a, b) in enumerate(zip(base.texts, other.texts, strict=True)) if a != b] == [OTHER_TEXT_ID]
    assert base.types == other.types
    early = RECIPES["vocab-early-id"].vocabulary()
    assert [n for n, (a, b) in enumerate(zip(base.texts, early.texts, strict=True)) if a != b] == [4]


def test_a_recipe_of_ones_own(tiny_models: TinyModels, tmp_path: Path) -> None:
    path = write(tmp_path / "own.gguf", Recipe(arch="mamba", vocab="tiny8", n_layer=1, seed=3))
    with Session(path) as session:
        assert len(session.generate([1, 2, 3], 10)) == 10
    assert tiny_models.custom("own", Recipe(vocab="tiny8", n_layer=1)).exists()
