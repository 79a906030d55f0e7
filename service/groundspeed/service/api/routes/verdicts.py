"""Why a point was flagged and another was not; bisection by hand."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query

from groundspeed.service.api.access import Id, Now, Operator, PartsDep, Viewer
from groundspeed.service.usecases import bisect, explain
from groundspeed.service.wire import verdicts as w

router = APIRouter(tags=["verdicts"])
Text = Annotated[str, Query(min_length=1, max_length=300)]


@router.get("/projects/{slug}/explain", summary="Why a commit was flagged in a series, or was not, in words.")
def explain_point(slug: str, series: Text, commit: Text, parts: PartsDep, who: Viewer) -> w.PointExplanation:
    """``series`` is its number or suite/metric; ``commit`` four or more characters of its hash, a tag, or tip."""
    who.require_project(slug)
    return w.PointExplanation.model_validate(asdict(explain.explain(parts.database, series, commit, slug)))


@router.post("/projects/{slug}/bisections", status_code=201, summary="Measure between two commits until one is left.")
def begin(slug: str, message: w.AskForBisection, parts: PartsDep, who: Operator, now: Now) -> w.Bisection:
    """The same question again answers where it stands."""
    who.require_project(slug)
    asked = bisect.Asked(message.series, message.good, message.bad, message.replicates)
    state = bisect.start(parts.database, asked, now, project=slug, actor=who.name)
    return w.Bisection.model_validate(asdict(state))


@router.get("/bisections/{request_id}", summary="Where a bisection stands.")
def look(request_id: Id, parts: PartsDep, who: Viewer) -> w.Bisection:
    state = bisect.look(parts.database, request_id)
    who.require_project(state.project)
    return w.Bisection.model_validate(asdict(state))
