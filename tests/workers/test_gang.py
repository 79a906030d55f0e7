"""A job of two nodes: two workers with folders of their own, whose ranks meet where the service says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from fleet import Fleet
from groundspeed.plugins.distributed.nodes import Nodes
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.repo import Mirrors
from groundspeed.workers.address import own_address
from processes import Process, Service, until
from repositories import GitRepo

CONFIG = """\
[project]
name = "toy"

[[suite]]
name = "between"
plugin = "collectives"
params = { max_bytes = 65536, samples = 5, seconds_per_size = 0.0 }
requires = { nodes = 2 }
"""


@pytest.fixture
def service(sqlite_database: Database, tmp_path: Path) -> Iterator[Service]:
    (tmp_path / "service").mkdir()
    made = Service(tmp_path / "service", database_url=sqlite_database.url, heartbeat_s="1", lease_s="15")
    made.start("api", "control")
    yield made
    made.end()


@pytest.fixture
def workers(service: Service, tmp_path: Path) -> Iterator[list[Process]]:
    made = []
    for name in ("a", "b"):
        environment = {
            "GROUNDSPEED_WORKER_DATA_DIR": str(tmp_path / name),
            "GROUNDSPEED_WORKER_NODE": name,
            "GROUNDSPEED_WORKER_API_URL": service.url,
            "GROUNDSPEED_WORKER_IDLE_POLL_S": "1",
            "GROUNDSPEED_WORKER_DEVICE": "cpu",
            "OMP_NUM_THREADS": "1",
        }
        code = "import sys; from groundspeed.workers.main import run; sys.exit(run())"
        made.append(Process(["-c", code], environment, tmp_path / f"{name}.log").start())
    yield made
    for worker in made:
        worker.end()


@pytest.mark.timeout(600)
def test_ranks_on_two_nodes_meet_and_when_one_is_killed_they_meet_again(
    service: Service, workers: list[Process], sqlite_database: Database, tmp_path: Path
) -> None:
    repo = GitRepo(tmp_path / "repo")
    sha = repo.commit("Start", {"groundspeed.toml": CONFIG})

    def said() -> str:
        return "\n".join(worker.said()[-4000:] for worker in workers) + service.said()

    def nodes() -> set[str]:
        with sqlite_database.read() as session:
            return set(session.scalars(select(t.Node.name)))

    until(lambda: nodes() == {"a", "b"}, 120, what="both are there")
    Fleet(sqlite_database, Mirrors(tmp_path / "mirrors"), repo, [sha]).add(watch=True)

    def runs() -> list[t.Run]:
        with sqlite_database.read() as session:
            return list(session.scalars(select(t.Run)))

    def job() -> str:
        with sqlite_database.read() as session:
            return session.scalars(select(t.Job.state)).one_or_none() or ""

    def attempts() -> dict[tuple[str, int], tuple[str, str]]:
        """(state, phase) by node and number."""
        query = select(t.Node.name, t.Attempt.number, t.Attempt.state, t.Attempt.phase).join(
            t.Node, t.Node.id == t.Attempt.node_id
        )
        with sqlite_database.read() as session:
            return {(name, number): (state, phase) for name, number, state, phase in session.execute(query).tuples()}

    def joined() -> bool:
        """Both have fetched their parts."""
        return sum(state == "running" and phase not in {"", "reserved"} for state, phase in attempts().values()) == 2

    until(joined, 200, what="both nodes work on the job")
    a, b = workers
    b.kill()
    until(lambda: job() == "queued", 200, what="the job waits again as one")
    states = {name: state for (name, _), (state, _) in attempts().items()}
    assert states == {"a": "released", "b": "expired"}
    b.start()
    until(lambda: job() == "done", 300, what="the job ends")
    assert "lost" in a.said()
    [run] = runs()
    assert run.outcome == "ok", f"{run.evidence}\n{said()}"
    with sqlite_database.read() as session:
        ranks = {params["ranks"] for params in session.scalars(select(t.Series.params))}
        lines = session.scalars(select(t.LogEntry.text).where(t.LogEntry.text.contains("which meet at"))).all()
    assert ranks == {2}
    assert sorted(state for state, _ in attempts().values()) == ["expired", "released", "succeeded", "succeeded"]
    assert len(lines) >= 2


def test_ranks_are_shared_out_evenly_or_not_at_all() -> None:
    said = {"GROUP_WORLD_SIZE": "2", "GROUP_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29400"}
    assert Nodes.here({}).ranks(4) == range(4)
    assert Nodes.here(said).ranks(8) == range(4, 8)
    assert Nodes.here(said).meeting == "tcp://10.0.0.1:29400"
    with pytest.raises(ValueError, match="3 ranks cannot be shared out evenly among 2 nodes"):
        Nodes.here(said).ranks(3)


def test_the_own_address_is_the_one_towards_the_service() -> None:
    assert own_address("http://127.0.0.1:8750") == "127.0.0.1"
    assert own_address("http://no.such.host.invalid:1")
