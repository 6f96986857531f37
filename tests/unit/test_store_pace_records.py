from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.domain.errors import StoreFailed
from slipstream.store.pace_records import PAIRS_KEPT, FileIdentity, PaceStore, file_identity, pair_key


def test_records_come_back_and_the_oldest_go(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "pace.json"
    store = PaceStore(path)
    assert store.load("k") is None
    store.save("k", {})
    full = {f"k{number}": {"n": number} for number in range(PAIRS_KEPT)}
    path.write_text(json.dumps({**json.loads(path.read_text()), "pairs": full}))
    store.save("k3", {"n": "used"})
    for number in range(PAIRS_KEPT, PAIRS_KEPT + 5):
        store.save(f"k{number}", {"n": number})
    again = PaceStore(path)
    assert again.load("k3") == {"n": "used"}, "what is used stays"
    assert [number for number in range(10) if again.load(f"k{number}") is None] == [0, 1, 2, 4, 5]
    assert again.load(f"k{PAIRS_KEPT + 4}") == {"n": PAIRS_KEPT + 4}


def test_failures_are_sentences(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = PaceStore(tmp_path / "file" / "pace.json")
    assert store.load("k") is None
    with pytest.raises(StoreFailed):
        store.save("k", {})
    store = PaceStore(tmp_path / "pace.json")
    store.save("k", {"a": 1})
    for bad in ({"x": float("nan")}, {"x": object()}):
        with pytest.raises(StoreFailed):
            store.save("k", bad)
    assert store.load("k") == {"a": 1}


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=100)
    | st.sampled_from([b'{"version":1,"pairs":[]}', b'{"version":1,"pairs":{"k":3}}', b"[" * 100_000, b"[]"])
)
def test_garbage_counts_as_nothing(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pace.json"
        path.write_bytes(data)
        store = PaceStore(path)
        assert store.load("k") is None
        store.save("k", {"a": [1.5, None]})
        assert store.load("k") == {"a": [1.5, None]}


def test_a_model_is_known_wherever_it_lies(tmp_path: Path) -> None:
    first = tmp_path / "m.gguf"
    first.write_bytes(b"header" + bytes(200_000) + b"weights")
    moved = tmp_path / "elsewhere" / "m.gguf"
    moved.parent.mkdir()
    moved.write_bytes(first.read_bytes())
    other = tmp_path / "other" / "m.gguf"
    other.parent.mkdir()
    other.write_bytes(b"header" + bytes(200_000) + b"Weights")
    assert file_identity(first) == file_identity(moved) != file_identity(other)
    with pytest.raises(OSError, match="gone"):
        file_identity(tmp_path / "gone.gguf")


def test_the_key_tells_apart_all_that_matters() -> None:
    target, draft = FileIdentity("t", 10, "aa"), FileIdentity("d", 5, "bb")
    keys = [
        pair_key(target, draft, device="cpu", threads=2, kv_type="f16"),
        pair_key(target, None, device="cpu", threads=2, kv_type="f16"),
        pair_key(draft, target, device="cpu", threads=2, kv_type="f16"),
        pair_key(target, draft, device="gpu", threads=2, kv_type="f16"),
        pair_key(target, draft, device="cpu", threads=3, kv_type="f16"),
        pair_key(target, draft, device="cpu", threads=2, kv_type="q8_0"),
        pair_key(FileIdentity("t", 11, "aa"), draft, device="cpu", threads=2, kv_type="f16"),
        pair_key(FileIdentity("t", 10, "ab"), draft, device="cpu", threads=2, kv_type="f16"),
    ]
    assert len(set(keys)) == len(keys)
    assert keys[0] == pair_key(target, draft, device="cpu", threads=2, kv_type="f16")
