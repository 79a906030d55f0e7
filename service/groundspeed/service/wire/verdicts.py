"""Explaining a point and bisecting by hand: what clients send, and the answers. Pydantic only."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from groundspeed.service.wire.v1 import Wire
from groundspeed.service.wire.views.kernels import Kernels

Text = Annotated[str, Field(max_length=300)]


class PointExplanation(Wire):
    """Why a point was flagged, or was not: ``sentences`` for people. ``flagged``: a change point begins here."""

    project: str
    series_id: int
    series: str
    hardware: str
    sha: str
    title: str
    position: int | None
    flagged: bool
    series_class: str
    sentences: tuple[str, ...]
    kernels: tuple[Kernels, ...] = ()
    """Of a gate's verdict on this commit, or of the change that begins here, where tables of kernels were kept."""


class AskForBisection(Wire):
    """``series``: its number or suite/metric. ``good`` and ``bad``: commits; none: around its newest change point."""

    series: Annotated[str, Field(min_length=1, max_length=300)]
    good: Text = ""
    bad: Text = ""
    replicates: Annotated[int, Field(ge=1, le=50)] = 3


class Bisection(Wire):
    """Where it stands. ``good`` and ``bad`` are the nearest commits known to be so, ``left`` the commits between;
    found: ``bad`` made the difference, of ``effect`` (relative, positive: more).
    """

    request_id: int
    project: str
    series_id: int
    series: str
    outcome: Literal["open", "found", "no-difference", "stuck", "budget", "cancelled"]
    good: str
    bad: str
    bad_title: str
    left: int
    effect: float | None
    words: str
    created: bool = False
