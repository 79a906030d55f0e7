"""``groundspeed up``: the whole service on this machine, as one tree of processes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from groundspeed.cli import context, instance
from groundspeed.cli.output import console
from groundspeed.cli.supervise import Death, Part, Supervisor, end_leftovers
from groundspeed.service.errors import Invalid, NotFound, Unavailable

if TYPE_CHECKING:
    from groundspeed.service.settings import Settings

PortOption = Annotated[int | None, typer.Option("--port", help="Port to listen on; 0 takes a free one.")]
HostOption = Annotated[str | None, typer.Option("--host", help="Address to listen on.")]
POLL_S = 0.5
START_LIMIT_S = 60.0
HOPELESS_DEATHS = 5
CANNOT = 2
"""With this status a process of ours ends that could not begin, having said why."""


def up(
    data: context.DataOption = None,
    host: HostOption = None,
    port: PortOption = None,
    worker: Annotated[bool, typer.Option(help="Run a benchmark worker on this machine too.")] = True,
) -> None:
    """Run the service, its pages and a benchmark worker; watch the projects and measure what comes. Ctrl-C ends it."""
    settings = context.settings_for(data, host=host, port=port)
    out = console()
    with stop_on_signals() as stop, service(settings, with_worker=worker) as running:
        out.print(f"Groundspeed runs at {running.url}. Ctrl-C stops it. Its logs are in {running.logs}")
        while not stop.wait(POLL_S):
            for death in running.supervisor.poll():
                out.print(str(death))
        out.print("Stopping ...")


@dataclass(slots=True)
class Running:
    """A service whose processes are up."""

    settings: Settings
    url: str
    logs: Path
    supervisor: Supervisor
    deaths: list[Death] = field(default_factory=list)


@contextmanager
def service(settings: Settings, *, with_worker: bool = True) -> Iterator[Running]:
    """Start everything and stop it again at the end.

    Raises Conflict when it runs already or the database is newer, Invalid when the port is taken, Unavailable when the
    service does not answer in time.
    """
    from groundspeed.service.__main__ import require_protection

    context.make_folder(settings.data_dir)
    record = settings.data_dir / "processes.json"
    with instance.only_one(settings.data_dir) as note:
        end_leftovers(record)
        settings = settings.model_copy(update={"port": instance.free_port(settings.host, settings.port)})
        note({"url": settings.base_url})
        with context.database(settings) as db:  # brings the tables up to date before anyone uses them
            require_protection(settings, db)
        with _token_of_worker(settings, with_worker) as token:
            supervisor = Supervisor(parts(settings, with_worker=with_worker, worker_token=token), record)
            running = Running(settings, settings.base_url, settings.data_dir / "logs", supervisor)
            try:
                supervisor.start()
                _wait_until_answering(running)
                yield running
            finally:
                supervisor.stop()


@contextmanager
def _token_of_worker(settings: Settings, with_worker: bool) -> Iterator[str | None]:
    """A token for this machine's own worker, in force as long as it runs; None where none is needed or one is set."""
    given = any(os.environ.get(f"GROUNDSPEED_WORKER_TOKEN{end}") for end in ("", "_FILE"))
    if not with_worker or given or settings.local:
        yield None
        return
    from groundspeed.service.usecases import tokens
    from groundspeed.workers.settings import WorkerSettings

    node = WorkerSettings.load().node
    new = tokens.New(f"{node} of groundspeed up", "worker", node)
    with context.database(settings) as db:
        with suppress(NotFound):  # what a start that was killed has left behind
            tokens.revoke(db, new.name, datetime.now(UTC))
        secret = tokens.create(db, new, datetime.now(UTC))
        try:
            yield secret
        finally:
            tokens.revoke(db, new.name, datetime.now(UTC))


def refuse_if_blocked(settings: Settings) -> None:
    """Raises what :func:`service` would for a folder in use or a port that is taken, before anything is written."""
    with instance.only_one(settings.data_dir):
        end_leftovers(settings.data_dir / "processes.json")
        instance.free_port(settings.host, settings.port)


def parts(settings: Settings, *, with_worker: bool = True, worker_token: str | None = None) -> list[Part]:
    """The processes of one machine, in the order in which they start."""
    environment = {
        **os.environ,
        "GROUNDSPEED_DATA_DIR": str(settings.data_dir),
        "GROUNDSPEED_HOST": settings.host,
        "GROUNDSPEED_PORT": str(settings.port),
        "GROUNDSPEED_API_URL": local_url(settings),
        "PYTHONUNBUFFERED": "1",
    }
    logs = settings.data_dir / "logs"

    def part(name: str, *arguments: str, grace_s: float = 10.0, **more: str) -> Part:
        return Part(name, (sys.executable, *arguments), environment | more, logs / f"{name}.log", grace_s)

    made = [
        part("service", "-m", "groundspeed.service", "api"),
        part("control", "-m", "groundspeed.service", "control"),
    ]
    if with_worker:
        token = {"GROUNDSPEED_WORKER_TOKEN": worker_token} if worker_token else {}
        made.append(part("worker", "-m", "groundspeed.cli", "worker", grace_s=20.0, **token))
    return made


def local_url(settings: Settings) -> str:
    """Where a process of this machine reaches the service, whatever address people use."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings.host, settings.host)  # noqa: S104 - compared, not bound
    return f"http://[{host}]:{settings.port}" if ":" in host.strip("[]") else f"http://{host}:{settings.port}"


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that SIGINT, SIGTERM and SIGHUP set. A second Ctrl-C is not needed and not punished."""
    stop = threading.Event()

    def ask(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [(one, signal.signal(one, ask)) for one in wanted]
    try:
        yield stop
    finally:
        for one, handler in before:
            signal.signal(one, handler)


def _wait_until_answering(running: Running) -> None:
    """Return once the service answers. Raises Unavailable with the end of its log when it does not."""
    end = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end:
        running.deaths += running.supervisor.poll()
        for death in running.deaths:
            if death.status == CANNOT:  # it has said why in words, and would again
                why = last_words(death.log, 1).removeprefix("groundspeed: ").removeprefix("groundspeed worker: ")
                raise Unavailable(f"The {death.name} process cannot start: {why}", f"Its log is {death.log}.")
        if any(death.deaths >= HOPELESS_DEATHS for death in running.deaths):
            break
        if answers(local_url(running.settings)):
            return
        time.sleep(0.1)
    log = running.logs / f"{running.deaths[-1].name if running.deaths else 'service'}.log"
    raise Unavailable(
        f"The service does not answer at {running.url}: {last_words(log)}",
        f"Its log is {log}; correct what it says and start again.",
    )


def answers(url: str) -> bool:
    """Whether something speaks HTTP there."""
    if not url.startswith("http://"):
        raise Invalid(f"{url} is no address of a local service.", "It begins with http://.")
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=2.0):  # noqa: S310 - the scheme is checked above
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def last_words(log: Path, lines: int = 3) -> str:
    """The end of a log as one line."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "it wrote no log."
    return " / ".join(line.strip() for line in text.splitlines()[-lines:]) or "it wrote nothing."
