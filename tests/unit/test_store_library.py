from __future__ import annotations

import os
from pathlib import Path

import pytest

from slipstream.store.library import LocalModel, find_starter, list_models


def put(path: Path, size_bytes: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size_bytes)
    return path


def names(*folders: Path) -> list[str]:
    return [model.name for model in list_models(folders).models]


def test_lists_models_and_nothing_else(tmp_path: Path) -> None:
    for name in ("b.gguf", "A.GGUF", "half.gguf.part", "mmproj-x.gguf", "x-mmproj-f16.gguf", "notes.txt", ".c.gguf"):
        put(tmp_path / name)
    (tmp_path / "folder.gguf").mkdir()
    assert names(tmp_path) == ["A", "b"]


def test_split_models_count_once_and_name_what_is_missing(tmp_path: Path) -> None:
    for number, size in ((1, 5), (2, 7), (4, 11)):
        put(tmp_path / f"big-{number:05d}-of-00004.gguf", size)
    put(tmp_path / "lone-00002-of-00002.gguf")
    put(tmp_path / "whole-00001-of-00001.gguf", 3)
    big, whole = list_models([tmp_path]).models
    assert big == LocalModel(tmp_path / "big-00001-of-00004.gguf", "big", 23, 4, (3,))
    assert whole == LocalModel(tmp_path / "whole-00001-of-00001.gguf", "whole", 3)


def test_goes_three_folders_deep(tmp_path: Path) -> None:
    put(tmp_path / "a/b/c/in.gguf")
    put(tmp_path / "a/b/c/d/out.gguf")
    assert names(tmp_path) == ["in"]
    assert names(tmp_path, tmp_path / "a/b/c/d") == ["in", "out"]


def test_missing_folder_is_empty_and_a_file_is_unreadable(tmp_path: Path) -> None:
    file = put(tmp_path / "file.txt")
    library = list_models([tmp_path / "none", file])
    assert library.models == ()
    assert library.unreadable == (file,)


def test_unreadable_folder_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "a/closed/x.gguf")
    put(tmp_path / "b/y.gguf")
    scan = os.scandir

    def refusing(path: Path) -> object:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    library = list_models([tmp_path])
    assert [model.name for model in library.models] == ["y"]
    assert library.unreadable == (tmp_path / "a/closed",)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_links_are_followed_once(tmp_path: Path) -> None:
    real = put(tmp_path / "blobs/abc123", 42)
    (tmp_path / "one").mkdir()
    (tmp_path / "one/model.gguf").symlink_to(real)
    (tmp_path / "one/same.gguf").symlink_to(real)
    (tmp_path / "one/broken.gguf").symlink_to(tmp_path / "gone")
    (tmp_path / "one/loop").symlink_to(tmp_path)
    (model,) = list_models([tmp_path, tmp_path / "one"]).models
    assert (model.name, model.size_bytes) == ("model", 42)


def test_finds_the_starter(tmp_path: Path) -> None:
    put(tmp_path / "SmolLM2-1.7B-Instruct-Q8_0.gguf")
    assert find_starter(list_models([tmp_path]).models) is None
    put(tmp_path / "sub/smollm2-135m-instruct-q8_0.gguf")
    starter = find_starter(list_models([tmp_path]).models)
    assert starter is not None
    assert starter.name == "smollm2-135m-instruct-q8_0"
