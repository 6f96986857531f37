"""What a loaded pair takes, by llama.cpp's own log: the figures it prints when it makes its buffers."""

from __future__ import annotations

import re
from collections.abc import Iterable

_BUFFER = re.compile(r"(\S+) +(model|KV|RS|recurrent|compute|output) buffer size *= *([\d.]+) MiB")
_PARTS = {"model": "weights", "KV": "KV", "RS": "KV", "recurrent": "KV", "compute": "compute", "output": "output"}


def buffers(log: Iterable[str], owner: str) -> dict[str, int]:
    """Bytes per part from log lines such as “CPU KV buffer size = 56.00 MiB”. `owner`: "target" or "draft".

    Weights and KV are named after the owner; compute and output buffers are shared words.
    """
    sums: dict[str, int] = {}
    for line in log:
        if found := _BUFFER.search(line):
            part = _PARTS[found[2]]
            key = f"{owner} {part}" if part in ("weights", "KV") else part
            sums[key] = sums.get(key, 0) + round(float(found[3]) * (1 << 20))
    return sums
