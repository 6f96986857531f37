"""What must be set before llama.cpp loads, and how many threads it gets."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

import psutil


def prepare(env: MutableMapping[str, str] = os.environ) -> None:
    """Keep OpenMP's idle threads from spinning: a desktop has other busy processes, and the default spin makes
    both crawl (measured on two cores beside one busy process: 0.5 tokens/s by default, 24 with a short spin,
    at 4 % less when nothing else runs). The user's own values win."""
    env.setdefault("GOMP_SPINCOUNT", "1000")
    env.setdefault("KMP_BLOCKTIME", "0")
    env.setdefault("GGML_NO_BACKTRACE", "1")  # an abort would start a debugger


def thread_count(asked: int = 0) -> int:
    """`asked`, or the physical cores this process may use, one left to the desktop from four on."""
    if asked > 0:
        return asked
    physical = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        physical = min(physical, len(os.sched_getaffinity(0)))
    return max(1, physical - 1 if physical >= 4 else physical)
