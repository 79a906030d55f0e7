"""What clients send to ask for work and to steer it, and the answers. Pydantic only."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from groundspeed.service.wire.v1 import Name, Wire


class AddProject(Wire):
    repo_url: Annotated[str, Field(min_length=1, max_length=2000)]
    branch: str | None = None
    credential: str | None = None
    watch: bool = True


class ProjectAdded(Wire):
    id: int
    slug: str
    branch: str
    created: bool


class AskForWork(Wire):
    """``range`` is ``a..b`` or one commit; empty: the newest of the branch. ``key``: the same key asks once.

    ``every``: only every so many-th commit, counted back from the newest.
    """

    range: Annotated[str, Field(max_length=300)] = ""
    suites: tuple[Name, ...] = ()
    key: Annotated[str, Field(max_length=200)] = ""
    priority: Annotated[int, Field(ge=0, le=99)] | None = None
    every: Annotated[int, Field(ge=1, le=10_000)] = 1


class RequestRef(Wire):
    id: int
    state: str
    created: bool


class Reprioritise(Wire):
    """0 runs first, 99 last."""

    priority: Annotated[int, Field(ge=0, le=99)]


class NodeState(Wire):
    """``state``: active, draining or quarantined."""

    state: str
    reason: Annotated[str, Field(max_length=500)] = ""


class JobOutlook(Wire):
    """A waiting job's place and an honest range for its end; None: not known, and ``why`` says what is missing."""

    state: str
    ahead: int | None = None
    slots: int = 0
    earliest: datetime | None = None
    latest: datetime | None = None
    why: str = ""
