"""Results from anywhere: a CI job posts what its tool wrote, in any format that the importer knows."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import StringConstraints

from groundspeed.service.api.access import Now, PartsDep, Reporter
from groundspeed.service.usecases import receiving
from groundspeed.service.wire.imports import Imported, Left

router = APIRouter(prefix="/api/v1", tags=["results"])
Text = Annotated[str, Query(max_length=200)]
Mapping = Annotated[
    tuple[Annotated[str, StringConstraints(max_length=300)], ...],
    Query(alias="map", max_length=200, description="For tables: role=column, e.g. benchmark=test."),
]


@router.post("/projects/{slug}/results", status_code=201, summary="Take in results of any known format.")
async def post_results(  # noqa: PLR0913, PLR0917 - one for each thing that is said
    slug: str,
    request: Request,
    parts: PartsDep,
    who: Reporter,
    now: Now,
    name: Text = "posted",
    form: Annotated[str, Query(alias="format", max_length=60)] = "",
    commit: Annotated[str, Query(pattern=r"^([0-9a-fA-F]{7,64})?$")] = "",
    time: datetime | None = None,
    mapping: Mapping = (),
) -> Imported:
    """The body is the file as the tool wrote it (gzip too). The same body again adds nothing."""
    from starlette.concurrency import run_in_threadpool

    who.require_project(slug)
    body = await request.body()
    summary = await run_in_threadpool(
        receiving.receive, parts.database, slug, name, body, now,
        form=form, commit=commit.lower(), time=time, mapping=mapping,
    )  # fmt: skip
    return Imported(
        results=summary.added.results,
        runs=summary.added.runs,
        failures=summary.added.failures,
        already=summary.added.already,
        skipped=tuple(
            Left(reason=reason, count=found.count, where=tuple(map(str, found.where)))
            for reason, found in summary.skipped.items()
        ),
        refused=tuple(str(error) for error in summary.refused),
    )
