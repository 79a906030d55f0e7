"""Tables of campaigns: a change of environment over many nodes, in phases."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import UniqueConstraint
from sqlmodel import Field, SQLModel

from groundspeed.service.db.columns import json_column, time_column, time_or_none


class Campaign(SQLModel, table=True):
    """One change and how far it has come. What it does next follows from these rows (domain/campaigns/machine.py)."""

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True, max_length=100)
    project_id: int = Field(foreign_key="project.id", index=True)
    revision_id: int = Field(foreign_key="revision.id")
    state: str = Field(default="running", index=True)  # running, held, aborted, done
    phase: int = 0  # 0 baseline, 1 canary, 2 … waves
    reason: str = ""
    """Why it is held or ended."""
    wanted: dict[str, str] = json_column()
    """The facets that are to change, with the value each is to have."""
    plan: dict[str, Any] = json_column()
    """What was asked for, and each suite's job as it was planned at the start."""
    report: dict[str, Any] = json_column()
    """What it has shown so far, as it was last judged."""
    due: bool = False
    """Something has happened that the report does not know of: it is judged anew."""
    actor: str = ""
    created_at: datetime = time_column()
    updated_at: datetime = time_column()
    finished_at: datetime | None = time_or_none()


class CampaignNode(SQLModel, table=True):
    """A node's part in a campaign."""

    __table_args__ = (UniqueConstraint("campaign_id", "node_id"),)
    id: int | None = Field(default=None, primary_key=True)
    campaign_id: int = Field(foreign_key="campaign.id")
    node_id: int = Field(foreign_key="node.id", index=True)
    wave: int
    state: str = "waiting"
    """As drawn in docs/campaigns.md."""
    state_at: datetime = time_column()
    note: str = ""
    before_environment_id: int | None = Field(default=None, foreign_key="environment.id")
    after_environment_id: int | None = Field(default=None, foreign_key="environment.id")
    lost: list[str] = json_column(list)
    """Settings that it came back without, in words."""
    other: list[str] = json_column(list)
    """What else is different in its environment, in words."""
    jobs: dict[str, list[int]] = json_column()
    """Ids by side: before, after, again."""
    reused: bool = False
    """Whether its baseline stands on results that were there already."""
    hook: dict[str, Any] = json_column()
    """State and outcome of the operator's hook for the step under way."""
