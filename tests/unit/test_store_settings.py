from __future__ import annotations

import json
import os
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from slipstream.domain.errors import StoreFailed
from slipstream.domain.protocol import EngineSettings, Overflow
from slipstream.domain.sampling import Sampling
from slipstream.domain.speculation import Mode, Speculation
from slipstream.store.settings import Geometry, PairSettings, Settings, SettingsStore, about

CHOSEN = Settings(
    theme="dark",
    window=Geometry(-10, 5, 900, 600, True),
    target="/m/big.gguf",
    model_folders=("/m", "/nét/\udcff"),
    threads=3,
    mode=Mode.ON,
    length=7,
    min_confidence=0.25,
    sampling=Sampling(temperature=0.0, seed=4),
    overflow=Overflow.DROP_OLDEST,
    pairs=(PairSettings("/m/big.gguf", "/m/small.gguf", n_ctx=4096, mode=Mode.OFF),),
)


def write(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({"version": 1, "settings": values}))


def test_every_setting_has_a_sentence_and_a_default_it_accepts() -> None:
    for one in fields(Settings):
        assert about(one.name).endswith(".")
        default = getattr(Settings(), one.name)
        read = one.metadata["read"]
        assert read(list(default) if isinstance(default, tuple) else default) == default


def test_saved_settings_come_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "settings.json"
    assert SettingsStore(path).load() == (Settings(), ())
    SettingsStore(path).save(CHOSEN)
    assert SettingsStore(path).load() == (CHOSEN, ())
    assert [one.name for one in path.parent.iterdir()] == ["settings.json"], "no temporary file is left"
    if os.name == "posix":
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("theme", "sepia"),
        ("threads", -1),
        ("threads", True),
        ("threads", 2.0),
        ("length", 10**30),
        ("min_confidence", "0.5"),
        ("min_confidence", 1.01),
        ("sidebar_open", 1),
        ("mode", ["on"]),
        ("window", {"width": 0}),
        ("window", 7),
        ("recent_folders", [1]),
        ("target", "a\0b"),
        ("pairs", [{"mode": "maybe"}]),
        ("sampling", "hot"),
    ],
)
def test_one_bad_value_takes_its_default_alone(tmp_path: Path, name: str, bad: object) -> None:
    path = tmp_path / "settings.json"
    write(path, **{"theme": "dark", "last_chat": "kept", name: bad})
    settings, notices = SettingsStore(path).load()
    assert getattr(settings, name) == getattr(Settings(), name)
    assert settings.last_chat == "kept"
    (notice,) = notices
    assert name in notice


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\xfe", b"[]", b"{}", b'{"settings": 3}', b"[" * 200_000, b'{"settings": {"threads": NaN}}', b"\0" * 99],
)
def test_a_damaged_file_is_kept_and_said(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(data)
    store = SettingsStore(path)
    settings, (notice,) = store.load()
    assert settings == Settings()
    (kept,) = tmp_path.glob("settings.damaged-*.json")
    assert kept.read_bytes() == data
    assert str(kept) in notice
    store.save(CHOSEN)
    assert store.load() == (CHOSEN, ())
    assert kept.exists()


def test_what_a_newer_version_wrote_survives(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    newer = {
        "version": 9,
        "signature": "x",
        "settings": {"theme": "sepia", "length": 99, "hologram": {"depth": 3}, "threads": 2},
    }
    path.write_text(json.dumps(newer))
    store = SettingsStore(path)
    settings, notices = store.load()
    assert (settings.threads, settings.theme) == (2, "system")
    assert len(notices) == 2
    store.save(replace(settings, threads=5, length=6))
    written = json.loads(path.read_text())
    assert (written["version"], written["signature"]) == (9, "x")
    assert written["settings"]["hologram"] == {"depth": 3}
    assert written["settings"]["theme"] == "sepia", "not understood and not changed: left as it was"
    assert (written["settings"]["threads"], written["settings"]["length"]) == (5, 6)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.json"
    store = SettingsStore(path)
    store.save(CHOSEN)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreFailed) as caught:
        store.save(Settings())
    assert caught.value.hint
    monkeypatch.undo()
    assert store.load() == (CHOSEN, ())
    assert len(list(tmp_path.iterdir())) == 1


def test_unusable_places_are_sentences(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = SettingsStore(tmp_path / "file" / "settings.json")
    settings, (notice,) = store.load()
    assert settings == Settings()
    assert "settings.json" in notice
    with pytest.raises(StoreFailed):
        store.save(CHOSEN)


def test_a_file_that_could_not_be_read_is_not_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.json"
    SettingsStore(path).save(CHOSEN)
    old = path.read_bytes()
    store = SettingsStore(path)

    def unreadable(path: Path, limit_bytes: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("slipstream.store.settings.read_at_most", unreadable)
    assert len(store.load()[1]) == 1
    monkeypatch.undo()
    store.save(Settings(theme="light"))
    (kept,) = tmp_path.glob("settings.unread-*.json")
    assert kept.read_bytes() == old
    assert store.load()[0].theme == "light"


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "settings.json"
    link.symlink_to(tmp_path / "real" / "mine.json")
    SettingsStore(link).save(CHOSEN)
    assert link.is_symlink()
    assert SettingsStore(tmp_path / "real" / "mine.json").load() == (CHOSEN, ())


def test_pairs_have_their_own_settings() -> None:
    settings = Settings(n_ctx=2048, threads=3, length=5)
    assert settings.engine("t", "d") == EngineSettings(n_ctx=2048, threads=3)
    assert settings.speculation("t", None) == Speculation(Mode.AUTO, 5)
    changed = settings.with_pair(replace(settings.pair("t", "d"), n_ctx=512, mode=Mode.ON, length=2))
    assert changed.engine("t", "d") == EngineSettings(n_ctx=512, threads=3)
    assert changed.speculation("t", "d") == Speculation(Mode.ON, 2)
    assert changed.engine("t", None) == EngineSettings(n_ctx=2048, threads=3)
    for number in range(150):
        changed = changed.with_pair(PairSettings(f"t{number}"))
    assert len(changed.pairs) == 100
    assert changed.pairs[0].target == "t149"


def test_recent_folders_are_few_and_newest_first() -> None:
    settings = Settings()
    for number in range(30):
        settings = settings.with_recent_folder(f"/f{number}")
    settings = settings.with_recent_folder("/f25")
    assert settings.recent_folders[:2] == ("/f25", "/f29")
    assert len(settings.recent_folders) == len(set(settings.recent_folders)) == 20


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
names = st.sampled_from([one.name for one in fields(Settings)])
nested = st.dictionaries(st.sampled_from(["x", "width", "mode", "length", "temperature", "seed"]), values, max_size=4)
whole = st.fixed_dictionaries(
    {"settings": st.dictionaries(names, values | nested | st.lists(nested, max_size=3), max_size=6)},
    optional={"version": values},
)


@examples(max_examples=60, deadline=None)
@given(
    st.binary(max_size=200)
    | values.map(lambda value: json.dumps(value).encode())
    | whole.map(lambda value: json.dumps(value).encode())
)
def test_no_file_raises_and_all_that_loads_can_be_saved(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "settings.json"
        path.write_bytes(data)
        store = SettingsStore(path)
        settings, _ = store.load()
        store.save(settings)
        again, _ = store.load()
        assert again == settings
        assert path.exists()
