"""Campaigns over HTTP: make one, see it, decide about it; and the stragglers of a fleet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from groundspeed.service.api.access import Now, Operator, PartsDep, Viewer
from groundspeed.service.api.routes.exports import csv_response
from groundspeed.service.api.routes.loaders import Db, small_id
from groundspeed.service.usecases import environment_changes, events
from groundspeed.service.usecases.campaigns import commands, create, stragglers, view
from groundspeed.service.wire import campaigns as w

router = APIRouter(tags=["campaigns"])


def load_campaigns(db: Db, project: Annotated[str | None, Query(max_length=200)] = None) -> w.CampaignList:
    return view.campaigns(db, project)


def load_campaign(db: Db, name: str) -> w.CampaignPage:
    return view.campaign(db, name)


def load_stragglers(
    db: Db,
    now: Now,
    slug: str,
    days: Annotated[float, Query(gt=0, le=3650)] = 30.0,
    margin: Annotated[float, Query(gt=0, lt=1)] = 0.01,
) -> w.Stragglers:
    return stragglers.report(db, slug, now, days, margin)


@router.post("/campaigns", status_code=201, summary="Validate a change of environment on a set of nodes.")
def create_campaign(message: w.NewCampaign, parts: PartsDep, who: Operator, now: Now) -> w.CampaignCreated:
    who.require_project(message.project)
    new = create.New(**message.model_dump())
    hooks = parts.settings.campaign_hooks
    made = create.create(parts.database, parts.mirrors, new, now, actor=who.name, hooks=hooks)
    return w.CampaignCreated(id=made.id, name=made.name, waves=made.waves, notes=made.notes)


@router.post("/campaigns/{name}/decide", summary="Approve a hold point, abort, resume, or confirm by rolling back.")
def decide_campaign(name: str, message: w.Decide, parts: PartsDep, who: Operator, now: Now) -> w.Decided:
    who.require_project(view.campaign(parts.database, name).project.slug)
    db = parts.database
    said = commands.decide(db, name, message.action, now, actor=who.name, why=message.why, node=message.node)
    return w.Decided(said=said)


@router.post("/events", status_code=201, summary="Tell of something outside the code: it shows on the graphs.")
def tell_event(message: w.TellEvent, parts: PartsDep, who: Operator, now: Now) -> w.EventsTold:
    if who.projects:
        who.require_project(message.project)
    told = events.Told(**message.model_dump())
    return w.EventsTold(ids=tuple(events.tell(parts.database, told, now, actor=who.name)))


@router.get(
    "/projects/{slug}/regressions/{regression_id}/cause",
    summary="Code or environment: what each did alone, or that it cannot be known.",
)
def regression_cause(slug: str, regression_id: int, db: Db, who: Viewer) -> w.Causes:
    who.require_project(slug)
    rows = environment_changes.causes(db, slug, small_id(regression_id))
    return w.Causes(rows=tuple(w.CauseRow(**row) for row in rows))


@router.get("/campaigns/{name}/report.csv", summary="Every node of a campaign and every metric as CSV.")
def campaign_csv(name: str, db: Db, who: Viewer) -> Response:
    shown = view.campaign(db, name)
    who.require_project(shown.project.slug)
    return csv_response(f"{shown.name}.csv", campaign_rows(shown))


def campaign_rows(shown: w.CampaignPage) -> Iterable[Sequence[Any]]:
    """Metrics of the fleet first, then nodes, then devices that stand out: ``kind`` says which a line is."""
    yield ("kind", "name", "phase", "state", "counts", "metric", "answer", "worsening", "low", "high", "margin", "note")
    for m in shown.metrics:
        yield ("metric", "", "", "", m.nodes, m.metric, m.answer, m.worsening, m.low, m.high, m.margin, m.reason)
    for n in shown.nodes:
        note = "; ".join(filter(None, [n.note, *n.lost, *n.other]))
        yield ("node", n.name, n.phase, n.state, n.counts, n.worst, "", n.worsening, "", "", "", note)
    for o in shown.odd:
        yield ("device", f"{o.node} {o.device}", "", o.where, "", o.metric, "", o.worse_by, "", "", "", o.area)
