"""Nodes, projects and requests for tests of scheduling, made through the use cases."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import select

from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import NotFound
from groundspeed.service.repo import Mirrors
from groundspeed.service.usecases import catalogue, claims, ends, leases, nodes, planning, projects, requests, signs
from groundspeed.service.wire import v1
from repositories import CONFIG, GitRepo, toy

START = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = leases.Policy(lease_s=60.0, heartbeat_s=10.0, retry_delay_s=15.0)


def registration(name: str = "n1", **changes: Any) -> v1.RegisterRequest:
    facts: dict[str, Any] = {
        "protocol": v1.PROTOCOL,
        "node": name,
        "worker_version": "0.1.0",
        "hardware": {"cpu_model": "Test CPU", "cpu_count": 8, "memory_bytes": 64 * 2**30},
        "environment": [{"layer": "node", "name": "kernel", "value": "6.1"}],
        "catalogue": [spec.model_dump() for spec in catalogue.shipped().values()],
    }
    return v1.RegisterRequest.model_validate(facts | changes)


@dataclass
class Fleet:
    """A project over a real repository, and a clock that stands still unless told."""

    db: Database
    mirrors: Mirrors
    repo: GitRepo
    shas: list[str]
    now: datetime = START
    slug: str = "toy"

    def later(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now

    def node(self, name: str = "n1", **changes: Any) -> str:
        reply = nodes.register(self.db, registration(name, **changes), self.now, 10.0)
        assert reply.accepted, reply.reason
        return name

    def add(self, **changes: Any) -> projects.Added:
        return projects.add(self.db, self.mirrors, projects.New(str(self.repo.path), **changes), self.now)

    def ask(self, range_: str = "", **changes: Any) -> requests.Ref:
        return requests.create(self.db, self.mirrors, self.slug, requests.Asked(range=range_, **changes), self.now)

    def plan(self, ref: requests.Ref) -> planning.Planned:
        return planning.plan_request(self.db, self.mirrors, ref.id, self.now)

    def measure(self, range_: str = "", **changes: Any) -> list[t.Job]:
        """Ask and plan; the jobs of the request in the order of the queue."""
        ref = self.ask(range_, **changes)
        self.plan(ref)
        return self.jobs(ref.id)

    def jobs(self, request_id: int | None = None) -> list[t.Job]:
        with self.db.read() as session:
            query = select(t.Job).order_by(t.Job.id)
            if request_id is not None:
                query = query.where(t.Job.request_id == request_id)
            return list(session.scalars(query))

    def job(self, job_id: int | None) -> t.Job:
        with self.db.read() as session:
            return session.get_one(t.Job, job_id)

    def request(self, request_id: int) -> t.Request:
        with self.db.read() as session:
            return session.get_one(t.Request, request_id)

    def attempt(self, attempt_id: str | None) -> t.Attempt:
        with self.db.read() as session:
            return session.get_one(t.Attempt, attempt_id)

    def claim(self, job_id: int | None, node: str = "n1", delivery: str = "") -> v1.ClaimReply:
        return self.answer(claims.Ask(self.asking(node, delivery), job_id or 0))

    def next(self, node: str = "n1", delivery: str = "") -> v1.ClaimReply:
        return self.answer(claims.Ask(self.asking(node, delivery)))

    def answer(self, ask: claims.Ask) -> v1.ClaimReply:
        return claims.answer(self.db, [ask], self.now, POLICY)[0]

    def asking(self, node: str, delivery: str = "") -> v1.ClaimRequest:
        return v1.ClaimRequest(protocol=v1.PROTOCOL, node=node, delivery=delivery)

    def beat(self, attempt_id: str | None, phase: str = "run") -> v1.AttemptHeartbeatReply:
        beat = signs.Beat(attempt_id or "", v1.AttemptHeartbeat(phase=phase))
        return signs.of_attempts(self.db, [beat], self.now, POLICY)[0]

    def finish(self, attempt_id: str | None, state: str = "succeeded", kind: str = "", error: str = "") -> v1.Ack:
        message = v1.FinishRequest.model_validate({"state": state, "error_kind": kind, "error": error})
        [found] = ends.answer(self.db, [ends.End(attempt_id or "", message)], self.now, POLICY)
        if isinstance(found, NotFound):
            raise found
        return found.ack

    def messages(self, topic: str) -> list[dict[str, Any]]:
        with self.db.read() as session:
            query = select(t.Outbox.payload).where(t.Outbox.topic == topic).order_by(t.Outbox.id)
            return list(session.scalars(query))


def fleet(db: Database, folder: Path, commits: int = 6, config: str = CONFIG, slug: str = "toy") -> Fleet:
    repo, shas = toy(folder / f"repo-{slug}", commits, config)
    return Fleet(db, Mirrors(folder / "mirrors"), repo, shas, slug=slug)
