"""Forms of the pages: each does one thing through a use case and goes back to where it was sent from."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, Field

from groundspeed.service.addresses import apart
from groundspeed.service.api.access import Now, Operator, Triager
from groundspeed.service.api.auth.origin import same_origin
from groundspeed.service.api.routes.loaders import Db, small_id
from groundspeed.service.api.routes.reach import project_of_path, project_of_request
from groundspeed.service.errors import Invalid
from groundspeed.service.pages.routing import PageRoute
from groundspeed.service.usecases import annotating, jobs, regressions, requests, several
from groundspeed.service.usecases.views import findings, live

Text = Annotated[str, Field(max_length=12_000)]
SEE_OTHER = 303


router = APIRouter(
    route_class=PageRoute, include_in_schema=False, dependencies=[Depends(same_origin), Depends(project_of_path)]
)


def _back(request: Request, path: str) -> Response:
    """To the page that the form stood on, when it is one of ours."""
    referer = apart(request.headers.get("referer", ""))
    here = referer.netloc == request.headers.get("host") and referer.path.startswith("/")
    where = f"{referer.path}?{referer.query}" if here and referer.query else referer.path if here else path
    return RedirectResponse(where, SEE_OTHER)


class TriageForm(BaseModel):
    """The form of one regression; an empty state keeps the present one."""

    state: Text = ""
    assignee: Text = ""
    note: Text = ""
    link: Text = ""
    ignore_until: Text = ""


@router.post("/projects/{slug}/regressions/{regression_id}")
def triage(
    request: Request,
    slug: str,
    regression_id: int,
    form: Annotated[TriageForm, Form()],
    db: Db,
    who: Triager,
    now: Now,
) -> Response:
    """All fields of the form of one regression."""
    id_ = small_id(regression_id)
    before = findings.regression_detail(db, slug, id_).row
    fields = form.model_dump(exclude={"state"})
    regressions.edit(db, id_, {**fields, "note": form.note.replace("\r\n", "\n")}, now, actor=who.name)
    if form.state and form.state != before.state:
        regressions.set_state(db, id_, form.state, now, actor=who.name)
    return _back(request, f"/projects/{slug}/regressions/{id_}")


@router.post("/projects/{slug}/regressions/{regression_id}/split")
def split(
    slug: str,
    regression_id: int,
    db: Db,
    who: Triager,
    now: Now,
    change: Annotated[list[int], Form(max_length=500)] = [],  # noqa: B006 - read only
) -> Response:
    """Change points that have another cause become a regression of their own."""
    id_ = small_id(regression_id)
    findings.regression_detail(db, slug, id_)
    new = regressions.split(db, id_, [small_id(one) for one in change], now, actor=who.name)
    return RedirectResponse(f"/projects/{slug}/regressions/{new}", SEE_OTHER)


class SeveralForm(BaseModel):
    """The rows chosen, and what to do with them: a state, "merge", "assign" or "ignore"."""

    id: Annotated[list[int], Field(max_length=200)] = []
    action: Text = ""
    assignee: Text = ""
    ignore_until: Text = ""


@router.post("/projects/{slug}/regressions")
def triage_several(
    request: Request,
    slug: str,
    db: Db,
    who: Triager,
    now: Now,
    form: Annotated[SeveralForm, Form()],
) -> Response:
    """One state for all that are chosen, or a merge of them into the oldest."""
    chosen = sorted(small_id(one) for one in form.id)
    if not chosen:
        raise Invalid("No regression is chosen.", "Tick the rows first.")
    for one in chosen:
        findings.regression_detail(db, slug, one)
    several.act(db, chosen, form.action, now, actor=who.name, assignee=form.assignee, ignore_until=form.ignore_until)
    return _back(request, f"/projects/{slug}/regressions")


class NoteForm(BaseModel):
    """What happened at a commit, in a few words."""

    title: Text = ""


@router.post("/projects/{slug}/commits/{sha}/annotations")
def annotate(
    request: Request, slug: str, sha: str, form: Annotated[NoteForm, Form()], db: Db, who: Triager, now: Now
) -> Response:
    """A note that every graph of the project shows at this commit."""
    annotating.annotate(db, slug, sha, form.title, now, actor=who.name)
    return _back(request, f"/projects/{slug}/commits/{sha}")


def _reach_job(db: Db, who: Operator, job_id: int) -> None:
    if who.projects:
        who.require_project(live.project_of_job(db, small_id(job_id)))


@router.post("/jobs/{job_id}/cancel", dependencies=[Depends(_reach_job)])
def cancel_job(request: Request, job_id: int, db: Db, who: Operator, now: Now) -> Response:
    jobs.cancel(db, small_id(job_id), now, actor=who.name)
    return _back(request, f"/jobs/{job_id}")


@router.post("/jobs/{job_id}/retry", dependencies=[Depends(_reach_job)])
def retry_job(request: Request, job_id: int, db: Db, who: Operator, now: Now) -> Response:
    jobs.retry(db, small_id(job_id), now, actor=who.name)
    return _back(request, f"/jobs/{job_id}")


@router.post("/requests/{request_id}/cancel", dependencies=[Depends(project_of_request)])
def cancel_request(request: Request, request_id: int, db: Db, who: Operator, now: Now) -> Response:
    requests.cancel(db, small_id(request_id), now, actor=who.name)
    return _back(request, f"/requests/{request_id}")
