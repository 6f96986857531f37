"""The house's own rules: layers, lint and types, run with the tools that know them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

CHECKS = {
    "layers": ["lint-imports"],
    "ruff": ["ruff", "check", "app", "tests", "packaging"],
    "mypy": [sys.executable, "-m", "mypy"],
}


@pytest.mark.parametrize("name", CHECKS)
def test_check(name: str) -> None:
    command = list(CHECKS[name])
    if command[0] != sys.executable:
        command[0] = str(Path(sys.executable).with_name(command[0]))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_engine_process_imports_no_qt() -> None:
    """The headless parts run where Qt is not installed."""
    script = (
        "import sys\nsys.modules['PySide6'] = None\nsys.modules['qasync'] = None\n"
        "import slipstream.__main__, slipstream.compose, slipstream.cli.chat, slipstream.cli.bench"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT / "app", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_project_speaks_of_itself_alone() -> None:
    """No machine's paths and no registry's host in what is committed."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    words = ["/" + "work/", "pypi" + ".org", "pythonhosted" + ".org", "registry." + "npmjs"]
    for name in listed:
        path = ROOT / name
        if path.suffix in (".py", ".toml", ".md", ".lock", ".sh", ".json") and path.is_file():
            text = path.read_text(encoding="utf-8")
            assert not [word for word in words if word in text], name
