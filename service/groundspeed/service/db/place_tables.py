"""Tables of what is measured and where: projects, commits, machines and what is on them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, Index, UniqueConstraint
from sqlmodel import Field, SQLModel

from groundspeed.service.db.columns import json_column, time_column, time_or_none


class Project(SQLModel, table=True):
    """A repository under watch."""

    id: int | None = Field(default=None, primary_key=True)
    slug: str = Field(unique=True, max_length=100)
    name: str = Field(max_length=200)
    repo_url: str
    branch: str = "main"
    credential: str | None = None
    """Name of the credential in the settings of service and worker."""
    watch: bool = True
    poll_interval_s: float = 15.0
    tip_sha: str | None = None
    polled_at: datetime | None = time_or_none()
    config_error: str = ""
    created_at: datetime = time_column()


class Revision(SQLModel, table=True):
    """A commit. ``position`` is its place on the branch's first-parent history (dates lie); None: not on the branch."""

    __table_args__ = (
        UniqueConstraint("project_id", "sha"),
        Index("ix_revision_position", "project_id", "position"),
    )
    id: int | None = Field(default=None, primary_key=True)
    project_id: int = Field(foreign_key="project.id")
    sha: str = Field(max_length=64, index=True)
    parents: list[str] = json_column(list)
    position: int | None = None
    author: str = ""
    authored_at: datetime = time_column()
    committed_at: datetime = time_column()
    title: str = ""
    tags: list[str] = json_column(list)


class Hardware(SQLModel, table=True):
    """A class of machine: what makes series comparable. No host name, no UUID."""

    id: int | None = Field(default=None, primary_key=True)
    fingerprint: str = Field(unique=True, max_length=64)
    label: str = ""
    facts: dict[str, Any] = json_column()


class Environment(SQLModel, table=True):
    """Tracked facets of node and stack, content-addressed."""

    id: int | None = Field(default=None, primary_key=True)
    fingerprint: str = Field(unique=True, max_length=64)
    label: str = ""
    facets: list[dict[str, Any]] = json_column(list)
    created_at: datetime = time_column()


class BuildSnapshot(SQLModel, table=True):
    """What a revision resolved (packages, compiler), content-addressed: a change here is a code change."""

    id: int | None = Field(default=None, primary_key=True)
    fingerprint: str = Field(unique=True, max_length=64)
    facets: list[dict[str, Any]] = json_column(list)


class Node(SQLModel, table=True):
    """A machine that runs benchmarks."""

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True, max_length=200)
    state: str = "active"  # active, draining, quarantined
    state_reason: str = ""
    labels: dict[str, str] = json_column()
    protocol: int = 0
    worker_version: str = ""
    slots: int = 1
    sandbox: str = ""
    address: str = ""
    """Where other nodes reach this one."""
    instance: str = Field(default="", max_length=64, sa_column_kwargs={"server_default": ""})
    """Of the worker that registered last."""
    hardware_id: int | None = Field(default=None, foreign_key="hardware.id")
    environment_id: int | None = Field(default=None, foreign_key="environment.id")
    info: list[dict[str, Any]] = json_column(list)
    """Facets that are not tracked."""
    registered_at: datetime = time_column()
    seen_at: datetime | None = time_or_none(index=True)


class Device(SQLModel, table=True):
    __table_args__ = (UniqueConstraint("node_id", "uuid"),)
    id: int | None = Field(default=None, primary_key=True)
    node_id: int = Field(foreign_key="node.id")
    index: int = 0
    uuid: str = Field(max_length=100, index=True)
    model: str = ""
    memory_bytes: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    facts: dict[str, Any] = json_column()


class CatalogueEntry(SQLModel, table=True):
    """A plugin that some node can run. ``node_id`` None: the catalogue shipped with the service."""

    __table_args__ = (UniqueConstraint("node_id", "plugin"),)
    id: int | None = Field(default=None, primary_key=True)
    node_id: int | None = Field(default=None, foreign_key="node.id")
    plugin: str = Field(max_length=200, index=True)
    version: str = ""
    spec: dict[str, Any] = json_column()
