"""pytest fixtures over the tiny models (``pytest_plugins = ["models.fixtures"]``)."""

from __future__ import annotations

import pytest

from .tiny import TinyModels


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> TinyModels:
    """The session's folder of tiny models; ``tiny_models.path("text")`` writes that one if need be."""
    return TinyModels(tmp_path_factory.mktemp("tiny-models"))
