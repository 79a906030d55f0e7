"""Running a command under a keeper: limits hold, and nothing outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from groundspeed.plugins.gate import Gate
from groundspeed.workers import turns
from groundspeed.workers.process import Command, Ended, run
from groundspeed.workers.settings import WorkerSettings

Run = Callable[..., Ended]


@pytest.fixture
def lines() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def python(tmp_path: Path, lines: list[tuple[str, str]]) -> Run:
    """Runs a piece of Python as a command."""

    def go(
        code: str, stop: threading.Event | None = None, seen: Callable[[str], None] = lambda _: None, **changes: object
    ) -> Ended:
        env = {"PATH": os.environ["PATH"], "PYTHONFAULTHANDLER": "1"}
        command = Command(argv=(sys.executable, "-c", code), cwd=tmp_path, env=env, **changes)  # type: ignore[arg-type]

        def on_line(stream: str, text: str) -> None:
            lines.append((stream, text))
            seen(text)

        return run(command, on_line, stop)

    return go


@pytest.fixture
def once_begun(python: Run, tmp_path: Path) -> Iterator[Run]:
    """As ``python``, and the limits count from when all ``words`` have been said: starting may take as long as it does."""
    gate = Gate(tmp_path / "begun")

    def go(code: str, words: set[str], **changes: object) -> Ended:
        def seen(text: str) -> None:
            words.discard(text)
            if not words:
                gate.open()

        return python(code, seen=seen, gate=gate, **changes)

    yield go
    gate.close()


def test_output_and_status_come_back(python: Run, lines: list[tuple[str, str]]) -> None:
    """Lines arrive by stream, the exit status and the peak memory are told."""
    ended = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (ended.cause, ended.status, ended.ok) == ("exited", 3, False)
    assert ("stdout", "out") in lines
    assert ("stderr", "err") in lines
    assert ended.max_rss_bytes > 1_000_000


def test_standard_input_is_handed_over(python: Run) -> None:
    """Whatever its length."""
    ended = python("import sys; assert len(sys.stdin.read()) == 500_000", stdin="x" * 500_000)
    assert ended.ok


def test_a_daemon_forked_twice_is_killed(python: Run, tmp_path: Path) -> None:
    """A process that left its session and its parent does not outlive the command."""
    code = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists({str(tmp_path / "pid")!r}) or not open({str(tmp_path / "pid")!r}).read():
    time.sleep(0.01)
"""
    ended = python(code)
    assert ended.ok
    assert ended.swept == 1
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_a_hang_is_ended_with_the_stacks_of_all_its_processes(once_begun: Run) -> None:
    """Both the parent and its forked child say where they hang."""
    code = """
import os, time
def where_the_parent_hangs(): print("parent", flush=True); time.sleep(600)
def where_the_child_hangs(): print("child", flush=True); time.sleep(600)
if os.fork() == 0:
    where_the_child_hangs()
where_the_parent_hangs()
"""
    ended = once_begun(code, {"parent", "child"}, no_progress_s=0.7, wall_s=60)
    assert ended.cause == "no-progress"
    assert "where_the_parent_hangs" in ended.stacks
    assert "where_the_child_hangs" in ended.stacks


def test_the_wall_limit_holds_against_a_process_that_ignores_signals(once_begun: Run) -> None:
    """Output counts as life, but the wall limit does not care, and SIGKILL cannot be ignored."""
    code = """
import signal, time
for number in (signal.SIGTERM, signal.SIGABRT, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
while True:
    print("alive", flush=True); time.sleep(0.1)
"""
    ended = once_begun(code, {"alive"}, wall_s=2.5, no_progress_s=2.0)
    assert ended.cause == "wall"
    assert ended.status == -signal.SIGKILL


@pytest.mark.parametrize("what", ["b'x' * 65536 + b'\\n'", "bytes(range(256)) * 256", "b'y' * 65536"])
def test_a_flood_of_output_is_cut_and_kept_harmless(once_begun: Run, lines: list[tuple[str, str]], what: str) -> None:
    """Text, binary or one endless line: what is kept is bounded and free of control characters."""
    code = f"import os\nos.write(1, b'begun\\n')\nwhile True: os.write(1, {what})"
    ended = once_begun(code, {"begun"}, wall_s=1.0, log_bytes=50_000)
    assert ended.cause == "wall"
    kept = [text for stream, text in lines if stream == "stdout"]
    assert sum(map(len, kept)) < 70_000
    assert any("further bytes" in text for text in kept)
    assert not any(ord(c) < 32 and c != "\t" for text in kept for c in text)
    assert len(ended.stdout_tail) <= 20_000


def test_too_much_memory_ends_the_command(python: Run) -> None:
    """The limit counts the memory of all its processes."""
    code = "import os, time\nif os.fork() == 0: pass\nx = bytearray(150 << 20)\ntime.sleep(600)"
    ended = python(code, memory_limit_bytes=200 << 20, memory_always=True, wall_s=120)
    assert ended.cause == "memory"
    assert ended.max_rss_bytes > 200 << 20


def test_stop_ends_it_at_once(python: Run) -> None:
    """A worker that shuts down does not wait for the benchmark."""
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    ended = python("import time; time.sleep(600)", stop=stop)
    assert ended.cause == "stopped"


def test_a_command_that_is_not_there_says_so(tmp_path: Path) -> None:
    """No exception, no hang."""
    ended = run(Command(argv=("/no/such/command",), cwd=tmp_path, env={}), lambda *_: None)
    assert ended.cause == "not-started"
    assert "/no/such/command" in ended.error


def test_a_killed_worker_takes_its_benchmark_with_it(tmp_path: Path) -> None:
    """kill -9 of the process that called ``run`` leaves neither keeper nor command behind."""
    pid_file = tmp_path / "pid"
    inner = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    outer = (
        "import os, sys; from pathlib import Path; from groundspeed.workers.process import Command, run\n"
        f"run(Command((sys.executable, '-c', {inner!r}), Path('/'), dict(os.environ)), print)"
    )
    worker = subprocess.Popen([sys.executable, "-c", outer])
    try:
        deadline = time.monotonic() + 120
        while not (pid_file.exists() and pid_file.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        benchmark = psutil.Process(int(pid_file.read_text()))
        keeper = benchmark.parent()
    finally:
        worker.kill()
        worker.wait()
    _gone, alive = psutil.wait_procs([benchmark, *([keeper] if keeper else [])], timeout=60)
    assert [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE] == []


def test_processors_and_limits_are_set(python: Run, lines: list[tuple[str, str]]) -> None:
    """Pinning and resource limits reach the command."""
    cpu = min(os.sched_getaffinity(0))
    code = "import os, resource; print(os.sched_getaffinity(0), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    python(code, cpus=(cpu,), rlimits={"RLIMIT_NOFILE": 77})
    assert ("stdout", f"{{{cpu}}} 77") in lines


def test_limits_of_a_command_at_its_gate_begin_when_that_opens(python: Run, tmp_path: Path) -> None:
    """Waiting is no silence; and one that is given up at its gate is ended."""
    gate = Gate(tmp_path / "gate")
    threading.Timer(3.3, gate.open).start()
    code = f"open({str(gate.path)!r}, 'rb', 0).read(1)"
    ended = python(code, gate=gate, wall_s=3.0, no_progress_s=3.0)
    assert (ended.cause, ended.status) == ("exited", 0)
    assert ended.wall_s < 3.3
    gate.close()
    closed, stop = Gate(tmp_path / "other"), threading.Event()
    threading.Timer(0.3, stop.set).start()
    assert python(code.replace("gate", "other"), stop, gate=closed, wall_s=0.1).cause == "stopped"
    closed.close()


def test_how_many_start_ahead_depends_on_the_machine_unless_it_is_set() -> None:
    """An accelerator and at least four processors; never with several nodes."""
    auto = WorkerSettings.load()
    found = [turns.depth(auto, cpus, accelerated=gpu, gang=False) for cpus, gpu in ((16, True), (2, True), (16, False))]
    assert found == [1, 0, 0]
    assert turns.depth(WorkerSettings.load(starts_ahead=3), 2, accelerated=False, gang=False) == 3
    assert turns.depth(WorkerSettings.load(starts_ahead=3), 16, accelerated=True, gang=True) == 0
