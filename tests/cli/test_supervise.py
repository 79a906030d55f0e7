"""Children are kept running, restarted with a growing pause, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from groundspeed.cli.supervise import LONGEST_PAUSE_S, Part, Supervisor, end_leftovers, start_time

SLEEPER = "import time; time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
WITH_CHILD = "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); print(p.pid, flush=True); time.sleep(600)"


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def part(folder: Path, code: str, name: str = "one", grace_s: float = 5.0) -> Part:
    return Part(name, (sys.executable, "-c", code), dict(os.environ), folder / "logs" / f"{name}.log", grace_s)


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[..., Supervisor]]:
    made: list[Supervisor] = []

    def make(*parts: Part, clock: Any = time.monotonic) -> Supervisor:
        made.append(Supervisor(parts, tmp_path / "processes.json", clock))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.stop()


def wait(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(what)


def test_who_dies_is_started_again_after_a_pause_that_grows(
    supervise: Callable[..., Supervisor], tmp_path: Path
) -> None:
    clock = Clock()
    one = supervise(part(tmp_path, "raise SystemExit(3)"), clock=clock)
    pauses = []
    for _ in range(9):
        [death] = wait(one.poll, "it should end")
        assert death.status == 3
        pauses.append(death.pause_s)
        assert one.poll() == []
        assert one.pids() == {}, "not before the pause is over"
        clock.now += death.pause_s
        one.poll()
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == LONGEST_PAUSE_S


def test_a_steady_life_makes_the_pause_short_again(supervise: Callable[..., Supervisor], tmp_path: Path) -> None:
    clock = Clock()
    one = supervise(part(tmp_path, SLEEPER), clock=clock)
    one.children[0].deaths = 5
    clock.now += 61
    os.kill(one.pids()["one"], signal.SIGKILL)
    [death] = wait(one.poll, "it should end")
    assert (death.deaths, death.pause_s) == (1, 0.5)
    assert "killed by signal 9" in str(death)


def test_stopping_ends_whole_groups_even_of_children_that_do_not_listen(
    supervise: Callable[..., Supervisor], tmp_path: Path
) -> None:
    parent, deaf = part(tmp_path, WITH_CHILD, "parent"), part(tmp_path, STUBBORN, "deaf", grace_s=0.3)
    one = supervise(parent, deaf)
    grandchild = int(wait(lambda: parent.log.exists() and parent.log.read_text().strip(), "its child's id"))
    wait(lambda: "up" in deaf.log.read_text(), "it should be up")
    pids = [*one.pids().values(), grandchild]
    one.stop()
    wait(lambda: all(start_time(pid) is None for pid in pids), "all should be gone")
    assert not (tmp_path / "processes.json").exists()


def test_children_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    code = f"""
import sys, time
from pathlib import Path
from groundspeed.cli.supervise import Part, Supervisor
folder = Path({str(tmp_path)!r})
one = Supervisor([Part("one", (sys.executable, "-c", {SLEEPER!r}), {{}}, folder / "one.log")], folder / "processes.json")
one.start()
print(one.pids()["one"], flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
        process.wait()
    wait(lambda: start_time(child) is None, "the child should have ended too")


def test_the_next_start_ends_what_was_left_and_nobody_else(tmp_path: Path) -> None:
    left, other = (subprocess.Popen([sys.executable, "-c", SLEEPER], start_new_session=True) for _ in range(2))
    try:
        record = tmp_path / "processes.json"
        record.write_text(f"[[{left.pid}, {start_time(left.pid)}], [{other.pid}, 1]]")
        assert end_leftovers(record, grace_s=60.0) == 1
        assert left.wait(60) == -signal.SIGTERM
        assert psutil.pid_exists(other.pid), "another process has that number now"
        assert other.poll() is None
        assert end_leftovers(record) == 0
    finally:
        for one in (left, other):
            one.kill()
            one.wait()


def test_a_record_that_cannot_be_read_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "processes.json").write_text("{ not json")
    assert end_leftovers(tmp_path / "processes.json") == 0


def test_a_log_that_has_grown_too_large_is_turned_over_once(
    supervise: Callable[..., Supervisor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groundspeed.cli.supervise.LOG_LIMIT_BYTES", 10)
    one = part(tmp_path, "print('hello')")
    one.log.parent.mkdir()
    one.log.write_text("x" * 100)
    supervise(one)
    wait(lambda: one.log.read_text() == "hello\n", "a new log")
    assert one.log.with_suffix(".old.log").read_text() == "x" * 100
