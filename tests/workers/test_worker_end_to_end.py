"""A real worker process: Celery over files, git, builds, benchmark processes, and a service over HTTP."""

from __future__ import annotations

import os
import signal
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from groundspeed.service.wire import v1

# A plugin of another distribution, found by its entry point: calls the target and reports what it returns.
ACME = """
from groundspeed.plugins.spi import Direction, Kind, Measured, Metric, Needs, Param

class Plugin:
    name = "acme"
    version = "3"
    description = "calls the target"
    timing = "self-timed"
    params = (Param("x", "int", default=1),)
    needs = Needs(target=True)
    def metrics(self):
        return (Metric("seconds", "s", Direction.LOWER, Kind.TIME),)
    def run(self, context):
        yield Measured("seconds", [float(context.target(context) or 1.0)] * 3)

PLUGIN = Plugin()
"""
BENCH = """
import os, sys, time
def fine(context): return 2.5
def raises(context): raise RuntimeError("it broke here")
def leaves(context): os._exit(7)
def hangs(context):
    time.sleep(0.3); context.progress("about to hang"); time.sleep(600)
def crashes(context):
    import ctypes; ctypes.string_at(0)
def floods(context):
    for _ in range(200): os.write(1, b"x" * 65536 + bytes(range(256)))
    return 1.5
def exhausts(context):
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    return len(bytearray(1 << 31))
def grows(context):
    kept = []
    while True: kept.append(b"x" * (8 << 20))
def daemon(context):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open(os.environ["PID_FILE"], "w").write(str(os.getpid())); time.sleep(600)
        os._exit(0)
    os.wait()
    while not os.path.exists(os.environ["PID_FILE"]) or not open(os.environ["PID_FILE"]).read(): time.sleep(0.01)
    return 1.0
def numpy_version(context):
    import numpy
    return float(numpy.__version__.split(".")[0])
def secrets(context):
    found = [k for k, v in os.environ.items() if "hush" in v]
    seen = [m for m in ("celery", "httpx", "groundspeed.workers", "groundspeed.service") if _importable(m)]
    if found or seen: raise RuntimeError(f"{found} {seen}")
    return 1.0
def _importable(name):
    import importlib.util
    try: return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError: return False
def slow(context):
    while not os.path.exists(os.environ.get("ENOUGH", "nowhere")):
        context.progress("working"); time.sleep(0.1)
    return 1.0
def meets(context):
    open(os.path.join(os.environ["MEETING"], str(os.getpid())), "w").close()
    while len(os.listdir(os.environ["MEETING"])) < 2:
        context.progress("waiting"); time.sleep(0.05)
    return 10.0 + min(os.sched_getaffinity(0))
"""


@pytest.fixture
def acme(tmp_path: Path) -> str:
    """A folder with the plugin's distribution as pip would have left it."""
    site = tmp_path / "site"
    info = site / "acme_bench-3.0.dist-info"
    info.mkdir(parents=True)
    (site / "acme_bench.py").write_text(ACME)
    (site / "not_of_acme.py").write_text("")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-bench\nVersion: 3.0\n")
    (info / "entry_points.txt").write_text("[groundspeed.benchmarks]\nacme = acme_bench:PLUGIN\n")
    names = ("METADATA", "entry_points.txt", "RECORD")
    (info / "RECORD").write_text("acme_bench.py,,\n" + "".join(f"{info.name}/{name},,\n" for name in names))
    return str(site)


@pytest.fixture
def acme_bench() -> Callable[..., dict[str, Any]]:
    """A benchmark of the acme plugin that calls one function of bench.py."""
    return lambda function, **changes: {"key": function, "plugin": "acme", "target": f"bench:{function}", **changes}


def test_every_way_to_end_is_a_result_and_the_rest_go_on(service: Any, announce: Any, repo: Any, make_job: Any, start_worker: Any, acme: str, acme_bench: Any, tmp_path: Path) -> None:  # fmt: skip
    """One job, many accidents; woken by a real Celery message."""
    sha = repo.commit({"bench.py": BENCH})
    pid_file = tmp_path / "daemon.pid"
    hang = {"no_progress_s": 2.0, "wall_s": 60.0}
    job = make_job(
        repo,
        sha,
        build={"env": {"PID_FILE": str(pid_file)}},
        benchmarks=[
            acme_bench("raises"),
            acme_bench("hangs", limits=hang),
            acme_bench("leaves"),
            acme_bench("crashes"),
            acme_bench("exhausts"),
            acme_bench("grows"),
            acme_bench("floods"),
            acme_bench("daemon"),
            acme_bench("secrets"),
            acme_bench("absent"),
            {"key": "unknown plugin", "plugin": "nobody-has-it", "target": "bench:fine"},
            acme_bench("fine", limits={"nonsense": 1}) | {"key": "bad limit"},
            acme_bench("fine", params={"x": 4}, replicates=2),
        ],
    )
    start_worker(
        PYTHONPATH=acme,
        GROUNDSPEED_WORKER_IDLE_POLL_S="600",
        GROUNDSPEED_WORKER_MEMORY_LIMIT_BYTES=str(600 << 20),
        GROUNDSPEED_WORKER_LOG_BYTES_PER_RUN="20000",
        GROUNDSPEED_WORKER_TOKEN="hush-token",
        GROUNDSPEED_CREDENTIALS='{"forge": "hush-password"}',
        GROUNDSPEED_WORKER_STARTS_AHEAD="1",
    )
    service.wait(lambda: bool(service.registered))
    time.sleep(0.5)  # the worker has asked once and found nothing: now only the message can wake it
    service.add(job)
    announce(1)
    service.wait_done(1)
    runs = {key[1]: run for key, run in service.of_job(1).items()}
    outcomes = {key: run["outcome"] for key, run in runs.items()}
    assert outcomes == {
        "raises": "failed",
        "hangs": "timeout",
        "leaves": "crashed",
        "crashes": "crashed",
        "exhausts": "oom",
        "grows": "oom",
        "floods": "ok",
        "daemon": "ok",
        "secrets": "ok",
        "absent": "unsupported",
        "unknown plugin": "unsupported",
        "bad limit": "failed",
        "fine": "ok",
    }
    assert "it broke here" in runs["raises"]["evidence"]["message"]
    assert "about to hang" in runs["hangs"]["evidence"]["message"]
    assert "in hangs" in runs["hangs"]["evidence"]["stacks"]
    assert "SIGSEGV" in runs["crashes"]["evidence"]["message"]
    assert "string_at" in runs["crashes"]["evidence"]["stderr_tail"]
    assert "status 7" in runs["leaves"]["evidence"]["message"]
    assert runs["grows"]["evidence"]["peak_memory_bytes"] > 500 << 20
    assert not psutil.pid_exists(int(pid_file.read_text()))
    fine = service.of_job(1)[0, "fine", 1]
    assert fine["samples"][0]["values"] == (2.5, 2.5, 2.5)
    assert (fine["plugin_version"], fine["params"]) == ("3", {"x": 4})
    assert (fine["conditions"]["compile_caches"], fine["conditions"]["start"]) == ("cold", "ahead")
    assert fine["conditions"]["turn_s"] > fine["phases_s"]["measure"]
    assert 0 < fine["conditions"]["overhead_share"] < 1
    assert "gate" in fine["phases_s"]
    assert {f["name"] for f in fine["environment"]} >= {"package.torch", "kernel", "python"}
    assert service.finished.popitem()[1]["state"] == "succeeded"
    assert (
        sum(len(line["text"]) for line in service.logs if line["run"] and line["run"]["benchmark"] == "floods") < 30_000
    )
    assert sorted(line["seq"] for line in service.logs) == list(range(1, len(service.logs) + 1))
    assert set(service.tokens) == {"Bearer hush-token"}
    assert service.registered[0]["labels"]["pool"] == "default"


def test_a_commit_that_does_not_build_is_a_result(service: Any, repo: Any, make_job: Any, start_worker: Any, acme: str, acme_bench: Any) -> None:  # fmt: skip
    """For each benchmark, with the end of the build's log."""
    sha = repo.commit({"bench.py": BENCH})
    build = {"install": ["echo the-reason; exit 3"]}
    service.add(make_job(repo, sha, build=build, benchmarks=[acme_bench("fine"), acme_bench("slow")]))
    start_worker(PYTHONPATH=acme)
    service.wait_done(1)
    runs = service.of_job(1)
    assert {run["outcome"] for run in runs.values()} == {"failed"}
    assert len(runs) == 2
    assert all("the-reason" in run["evidence"]["build_log"] for run in runs.values())
    assert service.state[1] == "done"


def test_a_target_that_pins_another_numpy_sees_its_own(service: Any, repo: Any, make_job: Any, start_worker: Any, acme: str, acme_bench: Any, tmp_path: Path) -> None:  # fmt: skip
    """From the build's environment, while the build's packages are told with the result."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "numpy-1.26.4-py3-none-any.whl", "w") as wheel:
        wheel.writestr("numpy/__init__.py", "__version__ = '1.26.4'\n")
        wheel.writestr("numpy-1.26.4.dist-info/METADATA", "Metadata-Version: 2.1\nName: numpy\nVersion: 1.26.4\n")
        wheel.writestr("numpy-1.26.4.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        names = ("numpy/__init__.py", *(f"numpy-1.26.4.dist-info/{n}" for n in ("METADATA", "WHEEL", "RECORD")))
        wheel.writestr("numpy-1.26.4.dist-info/RECORD", "".join(f"{name},,\n" for name in names))
    sha = repo.commit({"bench.py": BENCH})
    build = {"install": [f"pip install --no-index --find-links {wheels} numpy==1.26.4"]}
    service.add(make_job(repo, sha, 1, build=build, benchmarks=[acme_bench("numpy_version")]))
    service.add(make_job(repo, sha, 2, benchmarks=[acme_bench("numpy_version")]))
    start_worker(PYTHONPATH=acme)
    service.wait_done(1)
    service.wait_done(2)
    pinned, node = service.of_job(1)[0, "numpy_version", 0], service.of_job(2)[0, "numpy_version", 0]
    assert pinned["samples"][0]["values"][0] == 1.0
    assert node["samples"][0]["values"][0] == 2.0
    assert [(f["name"], f["value"]) for f in pinned["build"]] == [("package.numpy", "1.26.4")]


def test_two_sides_run_in_pairs_until_the_service_has_seen_enough(service: Any, repo: Any, make_job: Any, start_worker: Any, acme: str, acme_bench: Any) -> None:  # fmt: skip
    """A B B A: the order turns with each pair, and each pair is delivered before the question."""
    base, head = repo.commit({"bench.py": BENCH}), repo.commit({"bench.py": BENCH + "\n# head\n"})
    sides = [{"index": 0, "role": "base", "sha": base}, {"index": 1, "role": "head", "sha": head}]
    delivered: list[int] = []
    service.pair_verdict = lambda done: (delivered.append(len(service.runs)), "enough" if done >= 2 else "continue")[1]
    service.add(make_job(repo, head, sides=sides, max_pairs=5, min_pairs=1, benchmarks=[acme_bench("fine")]))
    start_worker(PYTHONPATH=acme, GROUNDSPEED_WORKER_STARTS_AHEAD="2")
    service.wait_done(1)
    assert [key[1:] for key in service.runs] == [(0, "fine", 0), (1, "fine", 0), (1, "fine", 1), (0, "fine", 1)]
    assert (service.pairs, delivered) == ([1, 2], [2, 4])


def test_kill_nine_in_mid_job_then_a_restart_completes_it_once(service: Any, repo: Any, make_job: Any, start_worker: Any, acme: str, acme_bench: Any, tmp_path: Path) -> None:  # fmt: skip
    """Results of before arrive by replay, done ones are not measured again, and no process is left."""
    sha = repo.commit({"bench.py": BENCH})
    slow = acme_bench("slow", replicates=1)
    enough = tmp_path / "enough"
    service.add(make_job(repo, sha, build={"env": {"ENOUGH": str(enough)}}, benchmarks=[acme_bench("fine", replicates=2), slow]))  # fmt: skip
    service.down = False
    first = start_worker(PYTHONPATH=acme, GROUNDSPEED_WORKER_STARTS_AHEAD="1")
    service.wait(lambda: any(line["text"] == "working" for line in service.logs))
    assert first.process is not None
    below = psutil.Process(first.process.pid).children(recursive=True)
    assert below
    first.process.kill()
    first.process.wait()
    _gone, alive = psutil.wait_procs(below, timeout=60)
    assert [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE] == []
    enough.touch()
    service.requeue()
    start_worker(PYTHONPATH=acme)
    service.wait_done(1)
    assert sorted(service.of_job(1)) == [(0, "fine", 0), (0, "fine", 1), (0, "slow", 0)]
    assert service.repeated == []
    assert len(service.attempts) == 2


def test_results_made_during_an_outage_arrive_after_a_kill(service: Any, repo: Any, make_job: Any, start_worker: Any, acme: str, acme_bench: Any, tmp_path: Path) -> None:  # fmt: skip
    """The spool is read by the next process."""
    sha = repo.commit({"bench.py": BENCH})
    enough = tmp_path / "enough"
    service.add(make_job(repo, sha, build={"env": {"ENOUGH": str(enough)}}, benchmarks=[acme_bench("slow"), acme_bench("fine")]))  # fmt: skip
    first = start_worker(PYTHONPATH=acme)
    service.wait(lambda: any(line["text"] == "working" for line in service.logs))
    service.down = True
    enough.touch()
    service.wait(lambda: len(list((tmp_path / "data" / "worker" / "spool").rglob("*.run.json"))) == 2)
    assert first.process is not None
    first.process.kill()
    first.process.wait()
    assert service.runs == {}
    service.down = False
    start_worker(PYTHONPATH=acme)
    service.wait(lambda: len(service.runs) == 2)


def test_sigterm_gives_the_job_back_and_leaves_nothing(service: Any, repo: Any, make_job: Any, start_worker: Any, acme: str, acme_bench: Any) -> None:  # fmt: skip
    """Within seconds, with exit status 0, and what was measured is delivered."""
    sha = repo.commit({"bench.py": BENCH})
    service.add(make_job(repo, sha, benchmarks=[acme_bench("fine"), acme_bench("slow"), acme_bench("daemon")]))
    worker = start_worker(PYTHONPATH=acme, GROUNDSPEED_WORKER_STARTS_AHEAD="1")
    service.wait(lambda: any(line["text"] == "working" for line in service.logs))
    assert worker.process is not None
    below = psutil.Process(worker.process.pid).children(recursive=True)
    assert worker.stop(signal.SIGTERM) == 0
    assert not [p for p in below if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    assert [f["state"] for f in service.finished.values()] == ["released"]
    assert list(service.of_job(1)) == [(0, "fine", 0)]


@pytest.mark.parametrize("verdict", ["cancel", "lost"])
def test_a_cancelled_or_lost_job_stops_at_once(service: Any, repo: Any, make_job: Any, start_worker: Any, acme: str, acme_bench: Any, verdict: str) -> None:  # fmt: skip
    """The worker goes on to the next job; a lost attempt is not finished by it."""
    sha = repo.commit({"bench.py": BENCH})
    service.add(make_job(repo, sha, 1, benchmarks=[acme_bench("slow")]))
    service.lease_s = 0.9
    worker = start_worker(PYTHONPATH=acme)
    service.wait(lambda: any(line["text"] == "working" for line in service.logs))
    attempt = next(iter(service.attempts))
    service.state[1] = "cancelled"
    service.add(make_job(repo, sha, 2, benchmarks=[acme_bench("fine")]))
    service.verdict = lambda asked: verdict if asked == attempt else "continue"
    service.wait_done(2)
    assert ("lost" in service.finished.get(attempt, {"error": "lost"})["error"]) == (verdict == "lost")
    assert (0, "slow", 0) not in service.of_job(1)
    assert worker.process is not None
    assert worker.process.poll() is None


def test_untrusted_code_is_refused_without_a_sandbox(service: Any, repo: Any, make_job: Any, start_worker: Any, acme: str, acme_bench: Any) -> None:  # fmt: skip
    """In words, and nothing of it runs."""
    sha = repo.commit({"bench.py": BENCH})
    service.add(make_job(repo, sha, trust="untrusted", benchmarks=[acme_bench("fine")]))
    start_worker(PYTHONPATH=acme, GROUNDSPEED_WORKER_SANDBOX="off")
    service.wait_done(1)
    (finish,) = service.finished.values()
    assert finish["state"] == "failed"
    assert "Untrusted code is not run here" in finish["error"]
    assert service.runs == {}


def test_a_full_spool_sends_directly_and_takes_no_further_job(service: Any, repo: Any, make_job: Any, start_worker: Any, acme: str, acme_bench: Any, tmp_path: Path) -> None:  # fmt: skip
    """No result is lost while the service is there to take it."""
    sha = repo.commit({"bench.py": BENCH})
    start_worker(PYTHONPATH=acme, GROUNDSPEED_WORKER_SPOOL_MAX_BYTES="4096")
    filler = tmp_path / "data" / "worker" / "spool" / "old"
    enough = tmp_path / "enough"
    service.add(make_job(repo, sha, build={"env": {"ENOUGH": str(enough)}}, benchmarks=[acme_bench("slow"), acme_bench("fine")]))  # fmt: skip
    service.wait(lambda: any(line["text"] == "working" for line in service.logs))
    enough.touch()
    service.wait_done(1)
    assert len(service.of_job(1)) == 2
    assert not filler.exists()


def test_a_draining_node_takes_no_job(service: Any, repo: Any, make_job: Any, start_worker: Any, acme: str, acme_bench: Any) -> None:  # fmt: skip
    """Until it is active again."""
    service.node_state = "draining"
    sha = repo.commit({"bench.py": BENCH})
    worker = start_worker(PYTHONPATH=acme)
    service.wait(lambda: "no jobs are taken: draining" in worker.text)
    service.add(make_job(repo, sha, benchmarks=[acme_bench("fine")]))
    time.sleep(1.0)
    assert service.state[1] == "queued"
    service.node_state = "active"
    service.wait_done(1)


def test_a_worker_of_another_protocol_is_told_and_takes_no_job(service: Any, repo: Any, make_job: Any, start_worker: Any, acme: str, acme_bench: Any) -> None:  # fmt: skip
    """It stays, says why, and can be stopped from a keyboard."""
    service.accepts_protocol = 99
    service.add(make_job(repo, repo.commit({"bench.py": BENCH}), benchmarks=[acme_bench("fine")]))
    worker = start_worker(PYTHONPATH=acme)
    service.wait(lambda: f"speaks protocol {v1.PROTOCOL}" in worker.text)
    assert service.state[1] == "queued"
    assert worker.stop(signal.SIGINT) == 0


def test_two_workers_in_one_folder_is_an_error(service: Any, start_worker: Any, acme: str, tmp_path: Path) -> None:  # fmt: skip
    """The second says what to do and ends with status 2."""
    import fcntl

    home = tmp_path / "data" / "worker"
    home.mkdir(parents=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        worker = start_worker(PYTHONPATH=acme, GROUNDSPEED_WORKER_LOCK_WAIT_S="0.3")
        assert worker.process is not None
        assert worker.process.wait(240) == 2
    assert "Another worker already uses the folder" in worker.text


def test_settings_that_cannot_be_used_are_told_in_words(start_worker: Any) -> None:
    """Variable by variable, without a traceback."""
    worker = start_worker(GROUNDSPEED_WORKER_SLOTS="many", GROUNDSPEED_WORKER_POOL="a b")
    assert worker.process is not None
    assert worker.process.wait(240) == 2
    assert "SLOTS" in worker.text
    assert "POOL" in worker.text
    assert "Traceback" not in worker.text


def test_slots_run_jobs_at_the_same_time_on_processors_of_their_own(service: Any, repo: Any, make_job: Any, start_worker: Any, acme: str, acme_bench: Any, tmp_path: Path) -> None:  # fmt: skip
    """Two jobs overlap; neither shares a processor with the other."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two processors")
    sha = repo.commit({"bench.py": BENCH})
    (tmp_path / "meeting").mkdir()
    build = {"env": {"MEETING": str(tmp_path / "meeting")}}
    for job_id in (1, 2):
        service.add(make_job(repo, sha, job_id, build=build, benchmarks=[acme_bench("meets")]))
    start_worker(PYTHONPATH=acme, GROUNDSPEED_WORKER_SLOTS="2")
    service.wait(lambda: bool(service.registered))
    service.wait_done(1)
    service.wait_done(2)
    runs = [service.of_job(job_id)[0, "meets", 0] for job_id in (1, 2)]
    assert len({run["samples"][0]["values"][0] for run in runs}) == 2
