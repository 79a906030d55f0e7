"""Asking for work and steering it: projects, requests, jobs, nodes."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter
from fastapi.responses import FileResponse

from groundspeed.service.api.access import Id, Now, Operator, PartsDep, Viewer
from groundspeed.service.api.routes import verdicts
from groundspeed.service.usecases import artefacts, jobs, nodes, outlook, projects, requests
from groundspeed.service.usecases.artefacts import Store
from groundspeed.service.usecases.tokens import Principal
from groundspeed.service.usecases.views import live
from groundspeed.service.wire import client as c
from groundspeed.service.wire import v1

router = APIRouter(prefix="/api/v1", tags=["work"])
router.include_router(verdicts.router)


def _within_job(parts: PartsDep, who: Principal, job_id: int) -> None:
    """A token for some projects steers the jobs of those."""
    if who.projects:
        who.require_project(live.project_of_job(parts.database, job_id))


@router.post("/projects", status_code=201)
def add_project(message: c.AddProject, parts: PartsDep, who: Operator, now: Now) -> c.ProjectAdded:
    """Put a repository under watch."""
    new = projects.New(message.repo_url, message.branch, message.credential, message.watch)
    added = projects.add(parts.database, parts.mirrors, new, now, who.name)
    return c.ProjectAdded(id=added.id, slug=added.slug, branch=added.branch, created=added.created)


@router.post("/projects/{slug}/requests", status_code=201)
def ask(slug: str, message: c.AskForWork, parts: PartsDep, who: Operator, now: Now) -> c.RequestRef:
    """Ask for commits to be measured."""
    who.require_project(slug)
    asked = requests.Asked("manual", message.range, message.suites, message.key, message.priority, message.every)
    ref = requests.create(parts.database, parts.mirrors, slug, asked, now, who.name)
    return c.RequestRef(id=ref.id, state=ref.state, created=ref.created)


@router.post("/requests/{request_id}/cancel")
def cancel_request(request_id: Id, parts: PartsDep, who: Operator, now: Now) -> v1.Ack:
    """Stop everything that is open of a request."""
    if who.projects:
        who.require_project(live.project_of_request(parts.database, request_id))
    count = requests.cancel(parts.database, request_id, now, actor=who.name)
    return v1.Ack(reason=f"{count} jobs were cancelled.")


@router.post("/jobs/{job_id}/cancel")
def cancel_job(job_id: Id, parts: PartsDep, who: Operator, now: Now) -> v1.Ack:
    """Stop a job that waits or runs."""
    _within_job(parts, who, job_id)
    jobs.cancel(parts.database, job_id, now, actor=who.name)
    return v1.Ack()


@router.post("/jobs/{job_id}/retry")
def retry_job(job_id: Id, parts: PartsDep, who: Operator, now: Now) -> v1.Ack:
    """Queue a job again that failed, was given up or was cancelled."""
    _within_job(parts, who, job_id)
    jobs.retry(parts.database, job_id, now, actor=who.name)
    return v1.Ack()


@router.post("/jobs/{job_id}/priority")
def reprioritise(job_id: Id, message: c.Reprioritise, parts: PartsDep, who: Operator, now: Now) -> v1.Ack:
    """Move a waiting job in the queue: 0 goes first, 99 last."""
    _within_job(parts, who, job_id)
    jobs.reprioritise(parts.database, job_id, message.priority, now, actor=who.name)
    return v1.Ack()


@router.get("/jobs/{job_id}/outlook")
def job_outlook(job_id: Id, parts: PartsDep, who: Viewer, now: Now) -> c.JobOutlook:
    """When a waiting job is likely to be done."""
    _within_job(parts, who, job_id)
    found = outlook.of_job(parts.database, job_id, now, parts.settings.node_silent_s)
    return c.JobOutlook.model_validate(asdict(found))


@router.post("/nodes/{node}/state")
def set_node_state(node: str, message: c.NodeState, parts: PartsDep, who: Operator, now: Now) -> v1.Ack:
    """Drain a node, put it in quarantine or take it back."""
    nodes.set_state(parts.database, node, message.state, now, actor=who.name, reason=message.reason)
    return v1.Ack()


@router.get("/attempts/{attempt_id}/artefacts/{sha256}")
def get_artefact(attempt_id: str, sha256: str, parts: PartsDep, who: Viewer) -> FileResponse:
    """A file that a benchmark left with its result."""
    if who.projects:
        who.require_project(live.project_of_attempt(parts.database, attempt_id))
    settings = parts.settings
    store = Store(
        settings.data_dir.absolute() / "artefacts", settings.max_artefact_bytes, settings.max_attempt_artefact_bytes
    )
    found = artefacts.find(parts.database, store, attempt_id, sha256)
    # What a stranger's program wrote is never shown as a page of ours.
    return FileResponse(
        found.path, media_type="application/octet-stream", filename=found.name, content_disposition_type="attachment"
    )
