"""Triage for programs; the forms of the pages do the same through the same use cases."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from groundspeed.service.api.access import Now, Triager
from groundspeed.service.api.routes.loaders import Db, small_id
from groundspeed.service.api.routes.reach import project_of_path
from groundspeed.service.usecases import regressions
from groundspeed.service.usecases.views import findings
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
