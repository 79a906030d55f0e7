"""Parts that worker tests share: real git repositories, and a service that speaks the wire over real HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from celery import Celery
from fastapi import FastAPI, Request, Response

from groundspeed.service.wire import v1
from groundspeed.service.wire.hints import RUN_JOB
from groundspeed.workers.app import celery_settings, configure
from groundspeed.workers.settings import WorkerSettings
from groundspeed.workers.stack import Stack, discover

ROOT = Path(__file__).resolve().parents[2]


class Repo:
    """A real git repository."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    @property
    def url(self) -> str:
        return str(self.path)

    def git(self, *arguments: str) -> str:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "protocol.file.allow",
            "GIT_CONFIG_VALUE_0": "always",
        }
        for who in ("AUTHOR", "COMMITTER"):
            env |= {f"GIT_{who}_NAME": "A", f"GIT_{who}_EMAIL": "a@example.com"}
        done = subprocess.run(["git", *arguments], cwd=self.path, env=env, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, files: dict[str, str], message: str = "change") -> str:
        for name, text in files.items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")


class Service:
    """The service as a worker sees it, in memory: leases, idempotent runs, and failures on demand."""

    def __init__(self) -> None:
        self.jobs: dict[int, v1.JobSpec] = {}
        self.state: dict[int, str] = {}
        self.attempts: dict[str, int] = {}
        self.runs: dict[tuple[int, int, str, int], dict[str, Any]] = {}
        self.repeated: list[tuple[int, int, str, int]] = []
        self.finished: dict[str, dict[str, Any]] = {}
        self.logs: list[dict[str, Any]] = []
        self.beats: list[dict[str, Any]] = []
        self.registered: list[dict[str, Any]] = []
        self.artefacts: dict[str, bytes] = {}
        self.pairs: list[int] = []
        self.pair_verdict: Callable[[int], str] = lambda _done: "continue"
        self.verdict: Callable[[str], str] = lambda _attempt: "continue"
        self.node_state = "active"
        self.down = False
        self.accepts_protocol = v1.PROTOCOL
        self.lease_s = 3.0
        self.url = ""
        self.lock = threading.Lock()
        self.tokens: list[str] = []
        self.accepts_token: str | None = None

    def add(self, job: v1.JobSpec) -> None:
        self.state[job.job_id] = "queued"
        self.jobs[job.job_id] = job

    def of_job(self, job_id: int) -> dict[tuple[int, str, int], dict[str, Any]]:
        return {key[1:]: run for key, run in self.runs.items() if key[0] == job_id}

    def requeue(self) -> None:
        """What the reaper does when leases have run out."""
        for job_id, state in self.state.items():
            if state == "running":
                self.state[job_id] = "queued"

    def wait(self, condition: Callable[[], bool], limit_s: float = 240.0) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                last = [line["text"][:200] for line in self.logs[-5:]]
                raise AssertionError(f"waited {limit_s} s; {self.state}, {self.finished}, {self.beats[-1:]}, {last}")
            time.sleep(0.05)

    def wait_done(self, job_id: int, limit_s: float = 240.0) -> None:
        self.wait(lambda: self.state[job_id] in {"done", "failed"}, limit_s)

    def claim(self, job_id: int) -> dict[str, Any]:
        with self.lock:
            return self._claim(job_id)

    def _claim(self, job_id: int) -> dict[str, Any]:
        if self.state.get(job_id) != "queued":
            return v1.ClaimReply(reason="taken or done").model_dump(mode="json")
        attempt = uuid.uuid4().hex
        self.attempts[attempt] = job_id
        self.state[job_id] = "running"
        done = [{"side": s, "benchmark": b, "replicate": r} for s, b, r in self.of_job(job_id)]
        job = self.jobs[job_id].model_copy(update={"done": tuple(v1.RunKey(**key) for key in done)})
        return v1.ClaimReply(attempt_id=attempt, lease_s=self.lease_s, job=job).model_dump(mode="json")

    def app(self) -> FastAPI:
        app = FastAPI()
        api = "/api/v1"

        @app.middleware("http")
        async def weather(request: Request, call_next: Any) -> Response:
            self.tokens.append(request.headers.get("authorization", ""))
            if self.accepts_token not in {None, request.headers.get("authorization", "")}:
                return Response(status_code=401)
            return Response(status_code=503) if self.down else await call_next(request)

        @app.post(f"{api}/gone")
        def gone() -> Response:
            return Response(json.dumps({"type": "conflict", "title": "It is over."}), status_code=409)

        @app.post(f"{api}/workers/register")
        def register(body: v1.RegisterRequest) -> Response:
            if body.protocol != self.accepts_protocol:
                words = {
                    "type": "protocol",
                    "title": f"This worker speaks protocol {v1.PROTOCOL}.",
                    "detail": "Upgrade it.",
                }
                return Response(json.dumps(words), status_code=426, media_type="application/json")
            self.registered.append(body.model_dump(mode="json"))
            reply = v1.RegisterReply(accepted=True, node_id=1, heartbeat_s=0.5)
            return Response(reply.model_dump_json(), media_type="application/json")

        @app.post(f"{api}/workers/{{node}}/heartbeat")
        def node_beat(node: str, body: v1.NodeHeartbeat) -> dict[str, Any]:
            return {"state": self.node_state}

        @app.post(f"{api}/workers/{{node}}/next")
        def next_job(node: str, body: v1.ClaimRequest) -> dict[str, Any]:
            for job_id, state in self.state.items():
                if state == "queued":
                    return self.claim(job_id)
            return v1.ClaimReply(reason="nothing").model_dump(mode="json")

        @app.post(f"{api}/jobs/{{job}}/claim")
        def claim(job: int, body: v1.ClaimRequest) -> dict[str, Any]:
            return self.claim(job)

        @app.post(f"{api}/attempts/{{attempt}}/heartbeat")
        def beat(attempt: str, body: v1.AttemptHeartbeat) -> dict[str, Any]:
            self.beats.append(body.model_dump())
            return {"verdict": self.verdict(attempt)}

        @app.post(f"{api}/attempts/{{attempt}}/log")
        def log(attempt: str, body: v1.LogBatch) -> dict[str, Any]:
            self.logs.extend(line.model_dump() for line in body.lines)
            return {"ok": True}

        @app.post(f"{api}/attempts/{{attempt}}/runs")
        def runs(attempt: str, body: v1.RunBatch) -> dict[str, Any]:
            accepted, already = [], []
            for run in body.runs:
                key = (self.attempts[attempt], run.key.side, run.key.benchmark, run.key.replicate)
                if key in self.runs:
                    self.repeated.append(key)
                    already.append(run.key)
                else:
                    self.runs[key] = run.model_dump()
                    accepted.append(run.key)
            return v1.RunAck(accepted=tuple(accepted), already=tuple(already)).model_dump(mode="json")

        @app.post(f"{api}/attempts/{{attempt}}/next-pair")
        def next_pair(attempt: str, body: v1.NextPairRequest) -> dict[str, Any]:
            self.pairs.append(body.pairs_done)
            return {"verdict": self.pair_verdict(body.pairs_done)}

        @app.post(f"{api}/attempts/{{attempt}}/finish")
        def finish(attempt: str, body: v1.FinishRequest) -> dict[str, Any]:
            self.finished[attempt] = body.model_dump()
            new = {"succeeded": "done", "failed": "failed", "released": "queued"}[body.state]
            if self.state[self.attempts[attempt]] == "running":
                self.state[self.attempts[attempt]] = new
            return {"ok": True}

        @app.put(f"{api}/attempts/{{attempt}}/artefacts/{{sha256}}")
        async def artefact(attempt: str, sha256: str, request: Request) -> dict[str, Any]:
            self.artefacts[sha256] = await request.body()
            return {"ok": True}

        return app


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()


class Worker:
    """A real ``groundspeed worker`` process with a data folder of its own."""

    def __init__(self, data: Path, url: str, **variables: str) -> None:
        self.data = data
        self.log = data.with_suffix(".log")
        self._variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(data.parent),
            "OMP_NUM_THREADS": "1",
            "GROUNDSPEED_DATA_DIR": str(data),
            "GROUNDSPEED_API_URL": url,
            "GROUNDSPEED_WORKER_NODE": "node-under-test",
            "GROUNDSPEED_WORKER_IDLE_POLL_S": "0.3",
            "GROUNDSPEED_WORKER_DEVICE": "cpu",
            **{k: v for k, v in os.environ.items() if k.startswith("PIP_")},
            **variables,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Worker:
        code = "import sys; from groundspeed.workers.main import run; sys.exit(run())"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code], env=self._variables, stdout=log, stderr=log, start_new_session=True
            )
        return self

    def stop(self, number: int = signal.SIGTERM, limit_s: float = 120.0) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(limit_s)

    @property
    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


@pytest.fixture
def new_repo(tmp_path: Path) -> Callable[[str], Repo]:
    return lambda name: Repo(tmp_path / name)


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    with serving(made.app()) as url:
        made.url = url
        yield made


@pytest.fixture
def start_worker(tmp_path: Path, service: Service) -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []

    def start(name: str = "data", **variables: str) -> Worker:
        worker = Worker(tmp_path / name, service.url, **variables)
        started.append(worker)
        return worker.start()

    yield start
    for worker in started:
        if worker.process is not None and worker.process.poll() is None:
            worker.process.kill()
            worker.process.wait(60)
        if worker.log.exists():
            sys.stderr.write(worker.text[-4000:])


@pytest.fixture
def announce(tmp_path: Path) -> Callable[[int], None]:
    """Send the Celery message that a job is there, as the service does."""

    def send(job_id: int) -> None:
        app = Celery("test", set_as_current=False)
        configure(WorkerSettings(data_dir=tmp_path / "data"))  # makes the folders
        app.conf.update(celery_settings(WorkerSettings(data_dir=tmp_path / "data")))
        app.send_task(RUN_JOB, kwargs={"job_id": job_id, "pool": "default"})

    return send


@pytest.fixture
def make_job() -> Callable[..., v1.JobSpec]:
    """A job with one side; keywords go to the JobSpec, ``build`` and ``benchmarks`` as dictionaries."""

    def make(repo: Repo, sha: str, job_id: int = 1, **changes: Any) -> v1.JobSpec:
        raw: dict[str, Any] = {
            "job_id": job_id,
            "project": "demo",
            "repo_url": repo.url,
            "tip_sha": sha,
            "suite": "train",
            "sides": [{"index": 0, "role": "point", "sha": sha}],
            "build": {},
            "benchmarks": [],
        }
        return v1.JobSpec.model_validate(raw | changes)

    return make


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """This Python's own stack."""
    return discover(None, ("torch", "numpy"), tmp_path_factory.mktemp("stack"))
