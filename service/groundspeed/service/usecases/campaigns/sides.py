"""Measuring one side of one node: the jobs of a stage, results that can be used again, and how far it has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.campaign_tables import Campaign, CampaignNode
from groundspeed.service.db.tables import Attempt, Job, JobSide, Node, Request, Run
from groundspeed.service.domain.campaigns.machine import Measured
from groundspeed.service.usecases import planning, requests
from groundspeed.service.usecases.campaigns import select as choice

STAGE = {"baseline": "before", "measuring": "after", "again": "again"}
"""Side of the comparison by the state that measures it."""
_OPEN = ("queued", "running")
_AT_ONCE = 500


def start(session: Session, campaign: Campaign, part: CampaignNode, node: Node, side: str, now: datetime) -> None:
    """Make the jobs of one side of a node; those of a baseline that are there already and fresh are used again."""
    devices = choice.devices_of(session, node.id or 0)
    ids: list[int] = []
    fresh = []
    for suite in campaign.plan["suites"]:
        benchmarks = choice.spread(suite["spec"]["benchmarks"], suite["scope"], devices)
        known = _known(session, campaign, node, suite["name"], benchmarks, now) if side == "before" else None
        if known is not None:
            ids.append(known)
        else:
            fresh.append((suite, benchmarks))
    if fresh:
        request = _request(session, campaign, node, side, part.jobs.get(side, []), now)
        ids += [_job(session, campaign, node, request, one, now) for one in fresh]
    if side == "before":
        part.reused = not fresh
    part.jobs = {**part.jobs, side: ids}


def measured(session: Session, wanted: Mapping[int, Sequence[int]]) -> dict[int, tuple[Measured, str]]:
    """By part, from its jobs: how far a side has come, and why it brought nothing."""
    ids = sorted({job for jobs in wanted.values() for job in jobs})
    open_, errors, good = set(), {}, set()
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        query = select(col(Job.id), col(Job.state), col(Job.error)).where(col(Job.id).in_(some))
        for id_, state, error in session.execute(query).tuples():
            errors[id_] = error
            if state in _OPEN:
                open_.add(id_)
        done = [id_ for id_ in some if id_ not in open_]
        ran = select(col(Run.job_id)).where(col(Run.job_id).in_(done), col(Run.outcome) == "ok").distinct()
        good |= set(session.scalars(ran))
    found: dict[int, tuple[Measured, str]] = {}
    for part, jobs in wanted.items():
        if not jobs:
            found[part] = ("no", "")
        elif not open_.isdisjoint(jobs):
            found[part] = ("running", "")
        elif not good.isdisjoint(jobs):
            found[part] = ("done", "")
        else:
            found[part] = ("failed", next((e for job in jobs if (e := errors.get(job))), "") or _outcome(session, jobs))
    return found


def _outcome(session: Session, ids: Sequence[int]) -> str:
    query = select(col(Run.outcome), col(Run.evidence)).where(col(Run.job_id).in_(ids)).limit(1)
    found = session.execute(query).tuples().first()
    return f"{found[0]}: {found[1].get('message', '')}"[:300] if found else "no process of a benchmark was reported"


def _request(session: Session, campaign: Campaign, node: Node, side: str, earlier: Sequence[int], now: datetime) -> int:
    """``earlier``: jobs of this side that were cancelled; new ones need a request of their own."""
    again = f":{max(earlier)}" if earlier else ""
    key = f"campaign:{campaign.id}:{node.id}:{side}{again}"
    new = requests.New("campaign", key, campaign.plan["sha"], {"campaign": campaign.name, "node": node.name})
    ref = requests.add(session, campaign.project_id, new, now)
    request = session.get_one(Request, ref.id)
    request.state, request.config = "planned", campaign.plan["config"]
    request.budget_s = float(campaign.plan["measure_s"])
    session.add(request)
    return ref.id


def _job(
    session: Session,
    campaign: Campaign,
    node: Node,
    request: int,
    suite: tuple[dict[str, Any], list[dict[str, Any]]],
    now: datetime,
) -> int:
    planned, benchmarks = suite
    pool = node.labels.get("pool") or "default"
    job = Job(
        request_id=request,
        project_id=campaign.project_id,
        key=planned["name"],
        suite=planned["name"],
        reason="control",
        priority=requests.PRIORITY["campaign"],
        requirements={**planned["requirements"], "node": node.name, "pool": pool},
        spec=planned["spec"] | {"benchmarks": benchmarks},
        created_at=now,
    )
    planning.add_job(session, job, [("point", campaign.revision_id)], now)
    return job.id or 0


def _known(
    session: Session,
    campaign: Campaign,
    node: Node,
    suite: str,
    benchmarks: Sequence[dict[str, Any]],
    now: datetime,
) -> int | None:
    """A finished job of the same benchmarks on this node, in its present environment, not too old."""
    since = now - timedelta(seconds=float(campaign.plan["fresh_s"]))
    query = (
        select(Job)
        .join(Attempt, col(Attempt.job_id) == col(Job.id))
        .join(JobSide, col(JobSide.job_id) == col(Job.id))
        .where(col(Attempt.node_id) == node.id, col(Attempt.state) == "succeeded", col(Job.state) == "done")
        .where(col(Job.suite) == suite, col(Job.project_id) == campaign.project_id, col(Job.finished_at) >= since)
        .where(col(JobSide.revision_id) == campaign.revision_id)
        .order_by(col(Job.id).desc())
        .limit(20)
    )
    wanted = _identity(benchmarks)
    for job in session.scalars(query):
        if _identity(job.spec["benchmarks"]) != wanted or not _all_good(session, job, node):
            continue
        if min(int(b["replicates"]) for b in job.spec["benchmarks"]) >= int(campaign.plan["replicates"]):
            return job.id
    return None


def _identity(benchmarks: Sequence[dict[str, Any]]) -> list[Any]:
    return sorted(
        (b["key"], b["plugin"], b.get("target") or "", sorted(b["params"].items()), list(b.get("devices", ())))
        for b in benchmarks
    )


def _all_good(session: Session, job: Job, node: Node) -> bool:
    query = select(col(Run.environment_id), col(Run.outcome)).where(col(Run.job_id) == job.id)
    rows = session.execute(query).tuples().all()
    expected = sum(int(b["replicates"]) for b in job.spec["benchmarks"])
    return len(rows) >= expected and all(env == node.environment_id and ok == "ok" for env, ok in rows)
