"""How far a reader reaches: a token for some projects sees those and nothing of the others."""

from __future__ import annotations

from fastapi import Request

from groundspeed.service.api.access import PrincipalDep
from groundspeed.service.api.routes.loaders import Db, small_id
from groundspeed.service.errors import Forbidden
from groundspeed.service.usecases.tokens import Principal
from groundspeed.service.usecases.views import live
from groundspeed.service.wire import views as v


def within(who: Principal, model: v.View) -> v.View:
    """The model, or the part of it that ``who`` may see. Raises Forbidden when that is nothing."""
    if not who.projects:
        return model
    if isinstance(model, v.ProjectList):
        mine = tuple(card for card in model.projects if card.project.slug in who.projects)
        return model.model_copy(update={"projects": mine, "nodes": ()})
    if isinstance(model, v.SearchResults):
        hits = tuple(hit for hit in model.hits if _slug_of(hit.url) in who.projects)
        return model.model_copy(update={"hits": hits})
    slug = _slug(model)
    if slug is None:
        raise Forbidden("This page spans all projects, and the token does not.", "Open the page of a project.")
    who.require_project(slug)
    return model.model_copy(update={"nodes": ()}) if isinstance(model, v.Overview) else model


def _slug(model: v.View) -> str | None:
    holder = getattr(model, "card", None) or getattr(model, "row", None) or model
    project = getattr(holder, "project", None)
    if isinstance(project, v.ProjectRef):
        return project.slug
    return project if isinstance(project, str) else None


def _slug_of(url: str) -> str:
    parts = url.split("/")
    return parts[2] if len(parts) > 2 and parts[1] == "projects" else ""


async def project_of_path(request: Request, who: PrincipalDep) -> None:
    """For routes whose path names the project."""
    slug = request.path_params.get("slug")
    if slug is not None:
        who.require_project(slug)


def project_of_attempt(db: Db, who: PrincipalDep, attempt_id: str) -> None:
    if who.projects:
        who.require_project(live.project_of_attempt(db, attempt_id))


def project_of_request(db: Db, who: PrincipalDep, request_id: int) -> None:
    if who.projects:
        who.require_project(live.project_of_request(db, small_id(request_id)))
