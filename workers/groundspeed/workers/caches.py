"""Keeps the folders that grow by themselves small: staged plugins, compile caches, layers, scratch of killed runs."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

YOUNG_S = 3600.0
"""What was used within the last hour stays, however many there are: a benchmark may be running on it."""
STAGES = 8
LAYERS = 4


def touch(folder: Path) -> None:
    """It is in use now."""
    os.utime(folder)


def keep_newest(folders: Iterable[Path], keep: int, *, young_s: float = YOUNG_S) -> int:
    """Delete all but the ``keep`` last used and those used lately; returns how many went."""
    dated = []
    for folder in folders:
        try:
            dated.append((folder.stat().st_mtime, folder))
        except OSError:  # another slot was faster
            continue
    old = [folder for at, folder in sorted(dated, reverse=True)[keep:] if time.time() - at > young_s]
    for folder in old:
        shutil.rmtree(folder, ignore_errors=True)
    return len(old)


def tidy(cache: Path, keep_compiled: int) -> int:
    """One level of trust's folder, between jobs; returns how many folders went."""
    return keep_newest(cache.glob("stages/[!.]*"), STAGES) + keep_newest(cache.glob("compile/*/*"), keep_compiled)


def clean(cache: Path) -> None:
    """At a worker's start, when nothing of it runs: scratch folders and half copies that a killed one left behind, and
    layers of stacks that this node no longer has.
    """
    keep_newest(cache.glob("layers/*"), LAYERS, young_s=30 * 24 * YOUNG_S)
    for pattern in ("*/runs/*", "*/stages/.*"):
        for folder in cache.glob(pattern):
            shutil.rmtree(folder, ignore_errors=True)
