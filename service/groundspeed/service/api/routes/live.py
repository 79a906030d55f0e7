"""Streams of server-sent events: the log and progress of an attempt, the progress of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from groundspeed.service.api.routes.loaders import Db, small_id
from groundspeed.service.api.routes.reach import project_of_attempt, project_of_request
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases.views import live
from groundspeed.service.wire import views as v

router = APIRouter(tags=["live"])
EVERY_S = 0.5
LONGEST_S = 1800.0
"""A stream ends after so long; a browser opens it again where it was."""


@router.get(
    "/attempts/{attempt_id}/events",
    dependencies=[Depends(project_of_attempt)],
    summary="Log lines and progress of an attempt as they come.",
)
async def attempt_events(
    request: Request,
    db: Db,
    attempt_id: str,
    after: Annotated[int, Query(ge=-1, le=2**31)] = -1,
    last_event_id: Annotated[str, Header()] = "",
) -> EventSourceResponse:
    """Events ``log`` (an array of lines; its id is the newest line's number), ``state``, and ``done`` at the end."""
    begin = max(after, int(last_event_id)) if last_event_id.isascii() and last_event_id.isdigit() else after
    first = await run_in_threadpool(live.attempt_news, db, attempt_id, begin)
    return EventSourceResponse(_attempt(request, db, attempt_id, begin, first))


async def _attempt(
    request: Request, db: Database, id_: str, after: int, news: v.AttemptNews
) -> AsyncIterator[ServerSentEvent]:
    shown = None
    for _ in range(int(LONGEST_S / EVERY_S)):
        if news.lines:
            after = news.lines[-1].seq
            lines = "[" + ",".join(line.model_dump_json() for line in news.lines) + "]"
            yield ServerSentEvent(lines, event="log", id=str(after))
        state = news.model_copy(update={"lines": ()})
        if state != shown:
            shown = state
            yield ServerSentEvent(state.model_dump_json(), event="state")
        if news.state != "running" and not news.lines:
            yield ServerSentEvent(news.state, event="done")
            return
        if await request.is_disconnected():
            return
        await asyncio.sleep(0 if len(news.lines) == live.AT_ONCE else EVERY_S)
        news = await run_in_threadpool(live.attempt_news, db, id_, after)


@router.get(
    "/requests/{request_id}/events",
    dependencies=[Depends(project_of_request)],
    summary="Progress of a request as it comes.",
)
async def request_events(request: Request, db: Db, request_id: int) -> EventSourceResponse:
    """Events ``progress`` when anything of it has changed, and ``done`` at the end."""
    first = await run_in_threadpool(live.request_news, db, small_id(request_id))
    return EventSourceResponse(_request(request, db, request_id, first))


async def _request(request: Request, db: Database, id_: int, news: v.RequestNews) -> AsyncIterator[ServerSentEvent]:
    shown = None
    for _ in range(int(LONGEST_S / EVERY_S)):
        if news != shown:
            shown = news
            yield ServerSentEvent(news.model_dump_json(), event="progress")
        if news.state not in {"pending", "planned", "running"}:
            yield ServerSentEvent(news.state, event="done")
            return
        if await request.is_disconnected():
            return
        await asyncio.sleep(EVERY_S)
        news = await run_in_threadpool(live.request_news, db, id_)
