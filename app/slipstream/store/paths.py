"""Where things are kept on this platform. Nothing here touches the disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

HOME_VARIABLE = "SLIPSTREAM_HOME"
_APP = "Slipstream"


@dataclass(frozen=True)
class Paths:
    """Every folder and file of ours, absolute. They need not exist."""

    data_dir: Path
    config_dir: Path
    cache_dir: Path
    models_dir: Path
    chats_db: Path
    settings_file: Path
    pace_file: Path
    log_dir: Path


def default_paths(env: Mapping[str, str] = os.environ) -> Paths:
    """The platform's own places, or all in one folder where SLIPSTREAM_HOME names one."""
    home = env.get(HOME_VARIABLE, "").strip()
    if home:
        root = Path(home).expanduser().absolute()
        return _paths(root, root, root / "cache", root / "logs")
    return _paths(
        platformdirs.user_data_path(_APP, appauthor=False),
        platformdirs.user_config_path(_APP, appauthor=False),
        platformdirs.user_cache_path(_APP, appauthor=False),
        platformdirs.user_log_path(_APP, appauthor=False),
    )


def models_dir(env: Mapping[str, str] = os.environ) -> Path:
    """The folder that fetched models go to."""
    return default_paths(env).models_dir


def _paths(data: Path, config: Path, cache: Path, log: Path) -> Paths:
    return Paths(
        data_dir=data,
        config_dir=config,
        cache_dir=cache,
        models_dir=data / "models",
        chats_db=data / "chats.db",
        settings_file=config / "settings.json",
        pace_file=data / "pace.json",
        log_dir=log,
    )
