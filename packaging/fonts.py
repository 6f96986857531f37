"""Make resources/fonts and resources/icons again from their npm packages.

Usage: python packaging/fonts.py   (needs npm, fontTools and brotli; writes only below resources/)

Qt ignores setWeight on the variable Inter at 500 and 600, so static files are bundled. The npm packages hold
WOFF2, which Qt's font database does not read on every platform: they are unpacked to TTF.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

from fontTools.ttLib import TTFont

ROOT = Path(__file__).resolve().parent.parent / "resources"
INTER = "inter-ui@4.1.1"
JETBRAINS_MONO = "jetbrains-mono@1.0.6"
JETBRAINS_LICENCE = "@fontsource/jetbrains-mono@5.3.0"  # carries the OFL text
LUCIDE = "lucide-static@1.62.0"

INTER_STYLES = ("Regular", "Italic", "Medium", "SemiBold")
MONO_STYLES = ("Regular", "Bold")
ICONS = [
    "arrow-down",
    "arrow-left",
    "arrow-right",
    "arrow-up",
    "ban",
    "boxes",
    "brain",
    "check",
    "chevron-down",
    "chevron-left",
    "chevron-right",
    "chevron-up",
    "chevrons-up-down",
    "circle",
    "circle-alert",
    "circle-check",
    "circle-off",
    "circle-pause",
    "circle-play",
    "circle-x",
    "clock",
    "copy",
    "download",
    "ellipsis",
    "equal",
    "external-link",
    "file-text",
    "folder-open",
    "gauge",
    "hard-drive",
    "history",
    "info",
    "keyboard",
    "link",
    "loader",
    "lock",
    "memory-stick",
    "message-square",
    "monitor",
    "moon",
    "panel-left",
    "panel-left-close",
    "panel-right",
    "panel-right-close",
    "panel-right-open",
    "paperclip",
    "pause",
    "pencil",
    "pin",
    "play",
    "plus",
    "power",
    "refresh-cw",
    "rotate-cw",
    "search",
    "settings",
    "share",
    "shield-alert",
    "sliders-horizontal",
    "square",
    "square-pen",
    "sun",
    "target",
    "trash-2",
    "triangle-alert",
    "unlink",
    "unplug",
    "upload",
    "wifi-off",
    "wind",
    "x",
]


def fetch(package: str, into: Path) -> tarfile.TarFile:
    """The package's archive, opened."""
    done = subprocess.run(["npm", "pack", "--silent", package], cwd=into, check=True, capture_output=True, text=True)
    return tarfile.open(into / done.stdout.strip().splitlines()[-1])


def read(archive: tarfile.TarFile, name: str) -> bytes:
    member = archive.extractfile(f"package/{name}")
    if member is None:
        raise FileNotFoundError(name)
    return member.read()


def unpack(woff2: bytes, target: Path) -> None:
    """Write the same font as a plain TTF, unhinted tables and all, with a reproducible time stamp."""
    font = TTFont(io.BytesIO(woff2), recalcTimestamp=False)
    font.flavor = None
    font.save(target)


def main() -> None:
    fonts, icons = ROOT / "fonts", ROOT / "icons"
    fonts.mkdir(parents=True, exist_ok=True)
    icons.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        into = Path(scratch)
        with fetch(INTER, into) as archive:
            for style in INTER_STYLES:
                unpack(read(archive, f"web/Inter-{style}.woff2"), fonts / f"Inter-{style}.ttf")
            (fonts / "Inter-LICENSE.txt").write_bytes(read(archive, "LICENSE.txt"))
        with fetch(JETBRAINS_MONO, into) as archive:
            for style in MONO_STYLES:
                unpack(
                    read(archive, f"fonts/webfonts/JetBrainsMono-{style}.woff2"), fonts / f"JetBrainsMono-{style}.ttf"
                )
        with fetch(JETBRAINS_LICENCE, into) as archive:
            (fonts / "JetBrainsMono-LICENSE.txt").write_bytes(read(archive, "LICENSE"))
        with fetch(LUCIDE, into) as archive:
            for name in ICONS:
                (icons / f"{name}.svg").write_bytes(read(archive, f"icons/{name}.svg"))
            (icons / "LICENSE").write_bytes(read(archive, "LICENSE"))


if __name__ == "__main__":
    main()
