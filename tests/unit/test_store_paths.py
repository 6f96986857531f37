from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

from slipstream.store.paths import default_paths, models_dir


def test_one_folder_for_everything(tmp_path: Path) -> None:
    paths = default_paths({"SLIPSTREAM_HOME": str(tmp_path / "all")})
    assert all(path.is_relative_to(tmp_path / "all") for path in astuple(paths))
    assert len({paths.chats_db, paths.settings_file, paths.pace_file}) == 3
    assert models_dir({"SLIPSTREAM_HOME": str(tmp_path / "all")}) == paths.models_dir
    assert not (tmp_path / "all").exists(), "asking where things go must not make them"


def test_platform_folders_without_it() -> None:
    paths = default_paths({"SLIPSTREAM_HOME": "  "})
    assert all(path.is_absolute() and "slipstream" in str(path).lower() for path in astuple(paths))
    assert paths.cache_dir != paths.data_dir


def test_home_may_be_relative_or_tilde() -> None:
    assert default_paths({"SLIPSTREAM_HOME": "here"}).data_dir == Path.cwd() / "here"
    assert default_paths({"SLIPSTREAM_HOME": "~/x"}).data_dir == Path.home() / "x"
