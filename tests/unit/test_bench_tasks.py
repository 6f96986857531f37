from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.bench.tasks import (
    DEFAULT_MODES,
    TASKS,
    BadPrompts,
    choose,
    default_prompts_path,
    parse_modes,
    parse_prompts,
    read_prompts,
)
from slipstream.domain.speculation import Mode


def entry(name: str = "a", task: str = "code", **more: object) -> dict[str, object]:
    return {"id": name, "task": task, "messages": [{"role": "user", "content": "hi"}], **more}


def test_bundled_prompts_cover_every_task() -> None:
    prompts = read_prompts(default_prompts_path())
    assert Counter(prompt.task for prompt in prompts) == dict.fromkeys(TASKS, 4)
    assert len({prompt.conversation for prompt in prompts}) == 20


def test_edit_prompts_hold_files_of_150_lines() -> None:
    edits = [p.conversation[-1].content for p in read_prompts(default_prompts_path()) if p.task == "edit"]
    files = [text.split("```")[1].split("\n", 1)[1] for text in edits]
    assert [len(file.splitlines()) for file in files] == [150] * 4
    assert len(set(files)) == 4
    assert all("Return the whole file" in text and "code block only" in text for text in edits)


def test_summary_prompts_hold_300_to_500_words() -> None:
    for prompt in read_prompts(default_prompts_path()):
        if prompt.task == "summary":
            assert 300 <= len(prompt.conversation[-1].content.split("\n\n", 1)[1].split()) <= 500


def test_choose_takes_the_first_of_each_task_in_the_order_asked() -> None:
    prompts = parse_prompts(json.dumps([entry(f"{task}{n}", task) for task in ("x", "y", "z") for n in range(3)]))
    assert [p.id for p in choose(prompts, ["z", "x", "z"], limit=2)] == ["z0", "z1", "x0", "x1"]
    assert choose(prompts) == prompts
    with pytest.raises(BadPrompts, match="no prompt for the task w") as error:
        choose(prompts, ["w"])
    assert "x, y, z" in error.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("{}", "no list"),
        ("[]", "no list"),
        ("[1]", "Prompt 1 is no object"),
        (json.dumps([entry(), {"id": "b"}]), "Prompt 2 is incomplete"),
        (json.dumps([entry(messages=[])]), "does not end with the user"),
        (json.dumps([entry(messages=[{"role": "assistant", "content": "x"}])]), "does not end with the user"),
        (json.dumps([entry(messages=[{"role": "robot", "content": "x"}])]), "no role"),
        (json.dumps([entry(messages=["x"])]), "no role"),
        (json.dumps([entry(messages=[{"role": "user", "content": None}])]), "no content"),
        (json.dumps([entry("a"), entry("a")]), "id a is used more than once"),
    ],
)
def test_bad_prompts_are_told_in_words(text: str, said: str) -> None:
    with pytest.raises(BadPrompts, match=said) as error:
        parse_prompts(text)
    assert error.value.hint


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadPrompts, match="cannot be read"):
        read_prompts(tmp_path / "none.json")
    (tmp_path / "latin.json").write_bytes(b'["\xe9"]')
    with pytest.raises(BadPrompts, match="UTF-8"):
        read_prompts(tmp_path / "latin.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.sampled_from(["user", "system", "id"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["id", "task", "messages", "role", "content"]) | st.text(), inner, max_size=5)
    ),
    max_leaves=25,
)


@given(JSON.map(json.dumps) | st.text())
def test_any_prompts_are_read_or_refused(text: str) -> None:
    try:
        prompts = parse_prompts(text)
    except BadPrompts:
        return
    assert prompts and all(prompt.conversation[-1].role == "user" for prompt in prompts)


def test_modes() -> None:
    modes = parse_modes("plain, auto,ngram,3,fixed-8,auto-model,plain", 16)
    assert [mode.label for mode in modes] == ["plain", "auto", "ngram", "fixed-3", "fixed-8", "auto-model", "plain-2"]
    plain, auto, ngram, three, eight, auto_model, again = (mode.speculation for mode in modes)
    assert plain.mode is again.mode is Mode.OFF
    assert (auto.mode, auto.drafters) == (Mode.AUTO, ())
    assert (ngram.mode, ngram.length, ngram.drafters) == (Mode.ON, 16, ("ngram",))
    assert (three.mode, three.length, three.drafters) == (Mode.ON, 3, ("model",))
    assert (eight.length, modes[4].length, modes[4].drafter) == (8, 8, "model")
    assert (auto_model.mode, auto_model.drafters) == (Mode.AUTO, ("model",))
    assert len(parse_modes(DEFAULT_MODES, 16)) == 7


@pytest.mark.parametrize("text", ["", ",", "fast", "0", "65", "-1", "3.5", "²", "auto 3", "99999999"])
def test_bad_modes(text: str) -> None:
    with pytest.raises(ValueError, match=r"mode|draft length"):
        parse_modes(text, 16)


@given(st.text() | st.lists(st.sampled_from(["plain", "auto", "3", "x", "fixed-2", ""])).map(",".join))
def test_any_modes_are_read_or_refused(text: str) -> None:
    try:
        modes = parse_modes(text, 16)
    except ValueError:
        return
    assert len({mode.label for mode in modes}) == len(modes) > 0
