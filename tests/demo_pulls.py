"""Pull requests for tests and pictures of their pages: one measured, one that waits for a maintainer, one of a queue."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.db.forge_tables import ForgeRepository, PullRequest
from groundspeed.service.domain.kernels.told import Told, ToldRow

NOW = datetime(2026, 3, 20, 12, 0, tzinfo=UTC)
ANSWERS = (
    ("regressed", 0.93, 0.006, ""),
    ("regressed", 1.08, 0.009, ""),
    ("improved", 1.031, 0.005, ""),
    ("unchanged", 1.001, 0.004, ""),
    ("inconclusive", 1.012, 0.02, "the spread is too wide for 12 pairs"),
    ("never-compared", None, None, "the base has no such benchmark"),
)


KERNELS = Told(
    "told", "Kernels of a step take 3.46 → 3.73 ms (+7.9 %, +7.7 % … +8.1 %; 12 + 12 processes).", 3.46e-3, 3.73e-3,
    (
        ToldRow("slower", "softmax_warp_forward", "void (anonymous namespace)::softmax_warp_forward<float, 8>(float*)",
                "", "slower per launch: 24.0 µs → 29.6 µs each, 48 launches a step", 1.152e-3, 1.421e-3, 48, 48, 0.98),
        ToldRow("replaced", "<i>gemm</i>_128x64", "<i>gemm</i>_128x64", "<b>gemm</b>_64x64",
                "12 launches a step, 30.1 µs → 31.0 µs each", 3.612e-4, 3.72e-4, 12, 12, 0.04),
    ),
    1, -6e-6,
)  # fmt: skip


def add(db: Database, slug: str = "tinygpt") -> None:
    with db.transaction() as session:
        project = session.scalars(select(t.Project).where(col(t.Project.slug) == slug)).one()
        repository = ForgeRepository(project_id=project.id or 0, forge_id=7, full_name="octo/tinygpt")
        session.add(repository)
        session.flush()
        about: dict[str, Any] = {
            "repository_id": repository.id or 0,
            "base_sha": "b" * 40,
            "base_ref": "main",
            "compared_sha": "b" * 40,
        }
        for number, sha, kind, outcome in ((3, "a" * 40, "pull", "approval"), (-1, "c" * 40, "queue", "error")):
            session.add(
                PullRequest(number=number, kind=kind, title="Faster & <safer>", author="stranger", from_fork=number > 0,
                            head_sha=sha, outcome=outcome, outcome_sha=sha, note="No node can run it.", **about)
            )  # fmt: skip
        session.add(
            PullRequest(number=12, title="Fuse the softmax into the attention kernel", author="ada", head_sha="d" * 40,
                        measured_sha="d" * 40, request_id=_measured(session, project), outcome="asked",
                        outcome_sha="d" * 40, told={"at": (NOW - timedelta(minutes=3)).isoformat()}, **about)
        )  # fmt: skip


def _measured(session: Session, project: t.Project) -> int:
    """A request of which every job is done, with a verdict of each kind; its id."""
    request = t.Request(
        project_id=project.id or 0, kind="pull_request", idempotency_key="pull-12", state="done", tip_sha="d" * 40,
        created_at=NOW - timedelta(minutes=20), finished_at=NOW - timedelta(minutes=4),
    )  # fmt: skip
    session.add(request)
    session.flush()
    gated = select(t.Series).where(col(t.Series.project_id) == project.id, col(t.Series.gate).is_(True))
    series = session.scalars(gated.order_by(col(t.Series.id)).limit(len(ANSWERS))).all()
    keys = {",".join(f"{name}={value}" for name, value in one.params.items()): one.params for one in series}
    benchmarks = [{"key": key, "plugin": "training", "params": params} for key, params in keys.items()]
    job = t.Job(
        request_id=request.id or 0, project_id=project.id or 0, key="pull-12", suite="train", reason="gate",
        state="done", spec={"benchmarks": benchmarks}, created_at=request.created_at, finished_at=request.finished_at,
    )  # fmt: skip
    session.add(job)
    session.flush()
    commit = select(col(t.Revision.id)).where(col(t.Revision.project_id) == project.id)
    newest = session.scalars(commit.order_by(col(t.Revision.id).desc())).first() or 0
    for one, (answer, ratio, half, reason) in zip(series, ANSWERS, strict=False):
        between = (ratio - half, ratio + half) if ratio is not None and half is not None else (None, None)
        session.add(
            t.Verdict(job_id=job.id or 0, series_id=one.id or 0, base_revision_id=newest, head_revision_id=newest,
                      answer=answer, reason=reason, ratio=ratio, ratio_low=between[0], ratio_high=between[1],
                      mde=half, pairs=12 if half else 0,
                      detail={"kernels": asdict(KERNELS)} if half else {"why": "missing-baseline"},
                      created_at=NOW)
        )  # fmt: skip
    return request.id or 0
