"""How an end becomes an outcome with evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundspeed.plugins.protocol import ChildReport
from groundspeed.plugins.spi import Outcome
from groundspeed.workers.outcomes import clean, judge
from groundspeed.workers.output import LineReader, harmless
from groundspeed.workers.process import Command, Ended

COMMAND = Command(argv=("x",), cwd=Path("/"), env={}, wall_s=5, no_progress_s=2, memory_limit_bytes=100)


@pytest.mark.parametrize(
    ("ended", "outcome", "words"),
    [
        (Ended("wall", -6), Outcome.TIMEOUT, "5 s"),
        (Ended("no-progress", -6, last_progress="warm-up"), Outcome.TIMEOUT, "warm-up"),
        (Ended("memory", -9, max_rss_bytes=120), Outcome.OOM, "120"),
        (Ended("exited", -11), Outcome.CRASHED, "SIGSEGV"),
        (Ended("exited", -9, kernel_oom=True), Outcome.OOM, "kernel"),
        (Ended("exited", -9), Outcome.CRASHED, "SIGKILL"),
        (Ended("exited", 1, stderr_tail="MemoryError"), Outcome.OOM, "memory"),
        (Ended("exited", -6, stderr_tail="terminate: std::bad_alloc"), Outcome.OOM, "memory"),
        (Ended("exited", 1, stderr_tail="torch.cuda.OutOfMemoryError: CUDA out of memory"), Outcome.OOM, "memory"),
        (Ended("exited", 0), Outcome.CRASHED, "status 0 without a report"),
        (Ended("not-started", 127, error="no such file"), Outcome.CRASHED, "no such file"),
    ],
)
def test_a_process_without_a_report(ended: Ended, outcome: Outcome, words: str) -> None:
    """Each way to die has its outcome and its words."""
    found, evidence = judge(COMMAND, ended, None, "")
    assert found is outcome
    assert words in evidence["message"]


@pytest.mark.parametrize(
    ("ended", "codes"),
    [
        (Ended("no-progress", -6), ["hang"]),
        (Ended("exited", -9, kernel_oom=True), ["out-of-memory"]),
        (Ended("exited", -6, stderr_tail="DataLoader worker (pid 7) is killed by signal: Bus error."), ["low-shm"]),
        (Ended("exited", -11), None),
    ],
)
def test_what_died_without_a_word_is_explained_as_doctor_does(ended: Ended, codes: list[str] | None) -> None:
    """From what it wrote last, and from what ended it."""
    hints = judge(COMMAND, ended, None, "")[1].get("hints")
    assert (hints and [hint["code"] for hint in hints]) == codes


def test_a_report_speaks_for_itself_unless_a_limit_ended_the_process() -> None:
    """A report written before a hang in tear-down does not turn the hang into success."""
    report = ChildReport("p", "1", "ok")
    assert judge(COMMAND, Ended("exited", 0), report, "") == (Outcome.OK, {})
    assert judge(COMMAND, Ended("wall", -9), report, "")[0] is Outcome.TIMEOUT


def test_evidence_is_bounded_and_free_of_what_stores_refuse() -> None:
    """NUL characters, infinities, depth and length."""
    nested: dict[str, object] = {}
    inner = nested
    for _ in range(50):
        inner["x"] = inner = {}
    cleaned = clean({"a": "x\x00y" * 100_000, "b": float("nan"), "c": nested, 4: [1, float("inf")]})
    assert len(cleaned["a"]) < 20_000
    assert "\x00" not in cleaned["a"]
    assert cleaned["b"] is None
    assert cleaned["4"] == [1, None]


def test_terminal_escapes_are_taken_out_of_lines() -> None:
    """Colours vanish, other control characters are shown as what they are not."""
    assert harmless("\x1b[31mred\x1b[0m \x07") == "red \N{REPLACEMENT CHARACTER}"


def test_lines_broken_anywhere_come_out_whole() -> None:
    """A character split over two reads is one character."""
    seen: list[str] = []
    reader = LineReader(seen.append, 1000)
    for byte in "größe\r\nnext\rlast".encode():
        reader.feed(bytes([byte]))
    reader.close()
    assert seen == ["größe", "next", "last"]
