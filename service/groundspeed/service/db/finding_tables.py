"""Tables of what was found: verdicts, change points, regressions with their triage, and what happened around them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, UniqueConstraint
from sqlmodel import Field, SQLModel

from groundspeed.service.db.columns import json_column, time_column, time_or_none


class Event(SQLModel, table=True):
    """Something from outside the code: an annotation, a changed environment, a node taken out."""

    id: int | None = Field(default=None, primary_key=True)
    kind: str  # annotation, environment, node
    project_id: int | None = Field(default=None, foreign_key="project.id", index=True)
    node_id: int | None = Field(default=None, foreign_key="node.id", index=True)
    revision_id: int | None = Field(default=None, foreign_key="revision.id")
    environment_from_id: int | None = Field(default=None, foreign_key="environment.id")
    environment_to_id: int | None = Field(default=None, foreign_key="environment.id")
    title: str
    body: str = ""
    at: datetime = time_column(index=True)
    created_at: datetime = time_column()


class Verdict(SQLModel, table=True):
    """Head against base for one series of one job."""

    __table_args__ = (UniqueConstraint("job_id", "series_id"),)
    id: int | None = Field(default=None, primary_key=True)
    job_id: int = Field(foreign_key="job.id", index=True)
    series_id: int = Field(foreign_key="series.id", index=True)
    base_revision_id: int = Field(foreign_key="revision.id")
    head_revision_id: int = Field(foreign_key="revision.id")
    base_environment_id: int | None = Field(default=None, foreign_key="environment.id")
    head_environment_id: int | None = Field(default=None, foreign_key="environment.id")
    answer: str  # regressed, improved, unchanged, inconclusive, never-compared
    reason: str = ""
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    mde: float | None = None
    pairs: int = 0
    detail: dict[str, Any] = json_column()
    created_at: datetime = time_column()


class Regression(SQLModel, table=True):
    """Change points (or verdicts) with one cause, and their triage. Improvements are kept the same way."""

    id: int | None = Field(default=None, primary_key=True)
    project_id: int = Field(foreign_key="project.id", index=True)
    kind: str = "regression"  # regression, improvement, change
    state: str = Field(default="new", index=True)
    # new, acknowledged, in-progress, accepted, false-alarm, fixed, recovered, withdrawn, merged
    # (drawn in docs/triage.md; who may move which to which: usecases/triage.py)
    title: str = ""
    before_revision_id: int | None = Field(default=None, foreign_key="revision.id")
    after_revision_id: int | None = Field(default=None, foreign_key="revision.id")
    cause: str = "code"  # code, environment, node, both
    merged_into_id: int | None = Field(default=None, foreign_key="regression.id")
    assignee: str = ""
    note: str = ""
    link: str = ""
    ignore_until: str = ""
    ignored_at: datetime | None = time_or_none(index=True)
    """Since when it is left out of the queue, until what ``ignore_until`` names has come; None: it is not."""
    created_at: datetime = time_column(index=True)
    updated_at: datetime = time_column()
    notified_at: datetime | None = time_or_none()


class ChangePoint(SQLModel, table=True):
    """A step in a series. The row, and so its triage, survives recomputation and a move by a commit."""

    __table_args__ = (Index("ix_changepoint_series", "series_id", "state"),)
    id: int | None = Field(default=None, primary_key=True)
    series_id: int = Field(foreign_key="series.id")
    regression_id: int | None = Field(default=None, foreign_key="regression.id", index=True)
    pinned: bool = False
    """A person chose its regression: recomputation leaves it there."""
    before_revision_id: int = Field(foreign_key="revision.id")
    after_revision_id: int = Field(foreign_key="revision.id")
    environment_from_id: int | None = Field(default=None, foreign_key="environment.id")
    environment_to_id: int | None = Field(default=None, foreign_key="environment.id")
    state: str = "provisional"  # provisional, confirmed, withdrawn
    kind: str  # regression, improvement, change
    cause: str = "code"
    ratio: float | None = None
    """Level after over level before; None where levels are not all positive: read ``difference``."""
    ratio_low: float | None = None
    ratio_high: float | None = None
    difference: float = 0.0
    strength: float = 0.0
    p_value: float | None = None
    detail: dict[str, Any] = json_column()
    detector_version: str = ""
    created_at: datetime = time_column(index=True)
    updated_at: datetime = time_column()
