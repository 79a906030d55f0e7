"""Triage for programs; the forms of the pages do the same through the same use cases."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from groundspeed.service.api.access import Now, Triager
from groundspeed.service.api.routes.loaders import Db, small_id
from groundspeed.service.api.routes.reach import project_of_path
from groundspeed.service.usecases import regressions, several
from groundspeed.service.usecases.views import findings
from groundspeed.service.wire import v1
from groundspeed.service.wire import views as v

router = APIRouter(tags=["triage"], dependencies=[Depends(project_of_path)])


@router.patch("/projects/{slug}/regressions/{regression_id}", summary="Change state, assignee, note, link or pause.")
def triage(slug: str, regression_id: int, message: v.Triage, db: Db, who: Triager, now: Now) -> v.RegressionDetail:
    id_ = small_id(regression_id)
    findings.regression_detail(db, slug, id_)  # raises NotFound for one of another project
    fields = message.model_dump(exclude={"state", "why"}, exclude_none=True)
    if fields:
        regressions.edit(db, id_, fields, now, actor=who.name)
    if message.state is not None:
        regressions.set_state(db, id_, message.state, now, actor=who.name, why=message.why)
    return findings.regression_detail(db, slug, id_)


@router.post("/projects/{slug}/regressions/{regression_id}/merge", summary="Put others into this one: one cause.")
def merge(slug: str, regression_id: int, message: v.Merge, db: Db, who: Triager, now: Now) -> v.RegressionDetail:
    for id_ in (regression_id, *message.regressions):
        findings.regression_detail(db, slug, small_id(id_))
    regressions.merge(db, message.regressions, regression_id, now, actor=who.name)
    return findings.regression_detail(db, slug, regression_id)


@router.post("/projects/{slug}/regressions/{regression_id}/split", summary="Two causes after all: split some off.")
def split(slug: str, regression_id: int, message: v.Split, db: Db, who: Triager, now: Now) -> v.RegressionDetail:
    id_ = small_id(regression_id)
    findings.regression_detail(db, slug, id_)
    new = regressions.split(db, id_, message.changes, now, actor=who.name)
    return findings.regression_detail(db, slug, new)


@router.post("/projects/{slug}/regressions", summary="One thing for several: a state, an assignee, merge, ignore.")
def bulk(slug: str, message: v.Bulk, db: Db, who: Triager, now: Now) -> v1.Ack:
    chosen = [small_id(one) for one in message.regressions]
    for one in chosen:
        findings.regression_detail(db, slug, one)
    fields = message.model_dump(include={"assignee", "ignore_until"})
    several.act(db, chosen, message.action, now, actor=who.name, **fields)
    return v1.Ack(reason=f"{len(set(chosen))} regressions.")
