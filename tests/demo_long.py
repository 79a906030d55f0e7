"""A series of many thousand points, for tests and benchmarks of what a browser does with it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import insert
from sqlmodel import Session, col, func, select

import demo_data
from demo_data.rows import hash_of
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database

POINTS = 100_000
PART = 5000
BASE = 510.0
"""Of the demonstration's first series."""


class Long(NamedTuple):
    """Where it is, and what must be seen of it: positions of its lowest and highest value, and of its two changes."""

    slug: str
    series: int
    lowest: int
    highest: int
    changes: tuple[int, int]
    values: np.ndarray


def fill(db: Database, points: int = POINTS, slug: str = "long") -> Long:
    """A project of ``points`` commits with one result each of one series; the tables are there."""
    shape = demo_data.Shape(
        slug=slug,
        name="A long history",
        commits=3,
        machines=1,
        extra=0,
        live=False,
        keep_runs=False,
        keep_samples=False,
    )
    demo = demo_data.fill(db, shape)
    series, rng = min(demo.series.values()), np.random.default_rng(8)
    changes = (int(0.4 * points), int(0.7 * points))
    values = BASE * (1 + 0.01 * rng.standard_normal(points))
    values[changes[0] :] *= 1.2
    values[changes[1] :] *= 0.95
    lowest, highest = int(0.87654 * points), int(0.12345 * points)
    values[lowest], values[highest] = 0.5 * BASE, 1.6 * BASE
    with db.transaction() as session:
        project = session.get(t.Project, demo.project_id)
        assert project
        project.watch = False
        revisions = _bulk(session, demo, series, values)
        for at in changes:
            session.add(_change(series, revisions[at - 1], revisions[at], float(values[at] / values[at - 1])))
    first = len(demo.shas)
    return Long(slug, series, first + lowest, first + highest, (first + changes[0], first + changes[1]), values)


def _bulk(session: Session, demo: demo_data.Filled, series: int, values: np.ndarray) -> list[int]:
    """Commits after those of the demonstration, a run and a result of each; their ids."""
    like = session.exec(select(t.Result).where(col(t.Result.series_id) == series)).first()
    assert like
    run, tip = session.get(t.Run, like.run_id), session.get(t.Revision, demo.revisions[-1])
    assert run
    assert tip
    last = [session.exec(select(func.max(table.id))).one() or 0 for table in (t.Revision, t.Run)]
    rows: dict[Any, dict[str, Any]] = {
        t.Revision: tip.model_dump(exclude={"id", "parents"}) | {"tags": []},
        t.Run: run.model_dump(exclude={"id"}) | {"evidence": {}, "conditions": {}, "trace": None},
        t.Result: like.model_dump(exclude={"id"}) | {"samples": None},
    }
    ids = [last[0] + 1 + i for i in range(len(values))]
    for start in range(0, len(values), PART):
        made: dict[Any, list[dict[str, Any]]] = {table: [] for table in rows}
        for i in range(start, min(start + PART, len(values))):
            at = tip.committed_at + timedelta(minutes=3 * (i + 1))
            this, that = {"revision_id": ids[i]}, {"run_id": last[1] + 1 + i}
            place = {"id": ids[i], "sha": hash_of(f"long-{i}"), "position": (tip.position or 0) + 1 + i, "parents": []}
            made[t.Revision].append(rows[t.Revision] | place | {"committed_at": at, "title": f"Commit number {i}"})
            made[t.Run].append(rows[t.Run] | this | {"id": that["run_id"], "replicate": 10 + i})
            one = {"value": float(values[i]), "spread": 0.005 * float(values[i])}
            made[t.Result].append(rows[t.Result] | this | that | one)
        for table, some in made.items():
            session.execute(insert(table), some)
    return ids


def _change(series: int, before: int, after: int, ratio: float) -> t.ChangePoint:
    return t.ChangePoint(
        series_id=series, before_revision_id=before, after_revision_id=after, state="confirmed", cause="code",
        kind="regression" if ratio > 1 else "improvement", ratio=ratio, ratio_low=ratio * 0.99, ratio_high=ratio * 1.01,
        difference=ratio * BASE - BASE, strength=14.0, p_value=1e-6, detector_version="1",
        created_at=demo_data.NOW, updated_at=demo_data.NOW,
    )  # fmt: skip
