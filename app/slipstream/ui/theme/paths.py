"""Where bundled files lie."""

from __future__ import annotations

import sys
from pathlib import Path


def resource_path(*parts: str) -> Path:
    """A file below resources/: in a frozen application, an installed wheel or a source checkout.

    Raises FileNotFoundError where none of them holds it.
    """
    package = Path(__file__).resolve().parents[2]  # slipstream/
    frozen = getattr(sys, "_MEIPASS", None)
    homes = [Path(frozen) / "slipstream" / "resources", Path(frozen) / "resources"] if frozen else []
    homes += [package / "resources", package.parents[1] / "resources"]
    for home in homes:
        path = home.joinpath(*parts)
        if path.exists():
            return path
    raise FileNotFoundError("/".join(("resources", *parts)))
