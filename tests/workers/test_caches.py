"""Folders that grow by themselves stay small, and clocks are let go whatever happens."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from groundspeed.plugins.device.nvml import Nvml
from groundspeed.workers import caches, clocks


def folder(path: Path, age_s: float) -> Path:
    path.mkdir(parents=True)
    (path / "file").write_text("x")
    at = time.time() - age_s
    os.utime(path, (at, at))
    return path


def test_the_longest_unused_go_and_the_young_stay(tmp_path: Path) -> None:
    for i in range(12):
        folder(tmp_path / "stages" / f"s{i:02d}", 7200 + 60 * i)
        folder(tmp_path / "compile" / "project" / f"c{i:02d}", 7200 + 60 * i)
    young = [folder(tmp_path / "stages" / f"young{i}", 5) for i in range(9)]
    assert caches.tidy(tmp_path, 5) == 12 + 7
    assert sorted((tmp_path / "stages").iterdir()) == sorted(young)
    assert [path.name for path in sorted((tmp_path / "compile/project").iterdir())] == [f"c{i:02d}" for i in range(5)]


def test_use_keeps_a_folder(tmp_path: Path) -> None:
    used = folder(tmp_path / "compile" / "p" / "used", 90_000)
    for i in range(3):
        folder(tmp_path / "compile" / "p" / f"other{i}", 80_000)
    caches.touch(used)
    caches.tidy(tmp_path, 1)
    assert [path.name for path in (tmp_path / "compile/p").iterdir()] == ["used"]


def test_what_a_killed_worker_left_is_removed_at_the_start(tmp_path: Path) -> None:
    folder(tmp_path / "trusted" / "runs" / "scratch", 1)
    folder(tmp_path / "trusted" / "stages" / ".half", 1)
    kept = folder(tmp_path / "trusted" / "stages" / "whole", 1)
    caches.clean(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_dir() and not any(p.is_dir() for p in path.iterdir())] == [
        tmp_path / "trusted" / "runs",
        kept,
    ]


class Library:
    """The symbols of libnvidia-ml that locking calls, and what was asked of them."""

    def __init__(self, refuse: bool = False) -> None:
        self.asked: list[tuple[str, tuple[int, ...]]] = []
        self.refuse = refuse

    def nvmlInit_v2(self) -> int:  # noqa: N802 - NVML's name
        return 0

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            if name == "nvmlDeviceGetCount_v2":
                arguments[0]._obj.value = 1
            elif name == "nvmlDeviceGetUUID":
                arguments[1].value = b"GPU-1"
            elif name == "nvmlDeviceGetMaxClockInfo":
                arguments[-1]._obj.value = 1980
            elif "LockedClocks" in name:
                self.asked.append((name, tuple(a.value for a in arguments[1:])))
                return 4 if self.refuse else 0
            return 0

        call.restype = None  # type: ignore[attr-defined]
        return call


LOCK, LET_GO = "nvmlDeviceSetGpuLockedClocks", "nvmlDeviceResetGpuLockedClocks"


class ErrorText:
    restype = None

    def __call__(self, _code: int) -> bytes:
        return b"Insufficient Permissions"


def opened(monkeypatch: pytest.MonkeyPatch, refuse: bool = False) -> Library:
    library = Library(refuse)
    library.nvmlErrorString = ErrorText()  # type: ignore[method-assign,assignment]
    backend = Nvml(library)
    monkeypatch.setattr(clocks, "open_backend", lambda: backend)
    return library


def test_clocks_are_locked_while_it_lasts_and_let_go_after_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, said = opened(monkeypatch), []
    note = tmp_path / "locked.json"

    def measure() -> None:
        with clocks.locked(note, ["GPU-1"], 0, said.append):
            assert json.loads(note.read_text()) == ["GPU-1"]
            raise RuntimeError

    with pytest.raises(RuntimeError):
        measure()
    assert library.asked == [(LOCK, (1485, 1485)), (LET_GO, ())]
    assert json.loads(note.read_text()) == []
    assert said == ["The clock of GPU-1 is locked at 1485 MHz"]


def test_what_a_killed_worker_left_locked_is_let_go_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    library = opened(monkeypatch)
    note = tmp_path / "locked.json"
    clocks.let_go(note)
    assert library.asked == []
    note.write_text('["GPU-1", "GPU-gone"]')
    clocks.let_go(note)
    assert library.asked == [(LET_GO, ())]
    assert json.loads(note.read_text()) == []


def test_without_the_right_to_it_is_said_and_measured_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, said = opened(monkeypatch, refuse=True), []
    with clocks.locked(tmp_path / "locked.json", ["GPU-1"], 1200, said.append):
        pass
    assert library.asked == [(LOCK, (1200, 1200))]
    assert said == ["The clock of GPU-1 cannot be locked: Insufficient Permissions"]
