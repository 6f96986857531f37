"""Models for the engine's tests: tiny ones are written, real ones are used where they lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slipstream.engine import environment

environment.prepare()  # before anything imports llama_cpp


def _model(name: str) -> Path:
    folder = Path(os.environ.get("SLIPSTREAM_TEST_MODELS", "~/.cache/slipstream-test-models")).expanduser()
    if not (folder / name).is_file():
        pytest.skip(f"the real model {name} is not in {folder}")
    return folder / name


@pytest.fixture(scope="session")
def smol() -> Path:
    return _model("SmolLM2-135M-Instruct-Q4_1.gguf")


@pytest.fixture(scope="session")
def qwen_f16() -> Path:
    return _model("Qwen2.5-Coder-1.5B-Instruct-F16.gguf")


@pytest.fixture(scope="session")
def qwen_draft_q4() -> Path:
    return _model("Qwen2.5-Coder-0.5B-Instruct-Q4_0.gguf")
