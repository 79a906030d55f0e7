"""The web application: routes over use cases, pages, one form for every error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from starlette.exceptions import HTTPException

from groundspeed.service.api import problems, reference
from groundspeed.service.api.access import needs
from groundspeed.service.api.auth import providers
from groundspeed.service.api.auth import routes as sign_in
from groundspeed.service.api.headers import SafeHeaders
from groundspeed.service.api.limits import BodyLimit
from groundspeed.service.api.metrics import Answered
from groundspeed.service.api.requestlog import RequestLog
from groundspeed.service.api.routes import channels, health, people, results, views, webhooks, work, workers
from groundspeed.service.api.scheduling import Scheduling
from groundspeed.service.control.app import configure
from groundspeed.service.control.relay import Relay
from groundspeed.service.control.wiring import Parts
from groundspeed.service.pages import routes as pages
from groundspeed.service.pages.routing import unknown


def create_app(parts: Parts) -> FastAPI:
    """An application over these parts; its start begins the relay that hands messages to the broker."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        configure(parts.settings)
        relay = Relay(parts.database)
        relay.start()
        yield
        app.state.scheduling.close()
        relay.stop()

    app = FastAPI(title="Groundspeed", version="1", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.parts = parts
    app.state.db = parts.database
    app.state.settings = parts.settings
    app.state.providers = providers.make(parts.settings)
    problems.install(app)
    app.add_exception_handler(HTTPException, unknown)
    app.add_middleware(
        BodyLimit,
        max_bytes=parts.settings.max_body_bytes,
        max_artefact_bytes=parts.settings.max_artefact_bytes,
        max_webhook_bytes=parts.settings.max_webhook_bytes,
    )
    app.add_middleware(SafeHeaders, https=parts.settings.base_url.startswith("https://"))
    app.state.answered = Answered()
    app.state.scheduling = Scheduling(parts, app.state.answered.registry)
    app.add_middleware(RequestLog, answered=app.state.answered)
    app.include_router(workers.router)
    app.include_router(work.router)
    app.include_router(results.router)
    app.include_router(health.router)
    app.include_router(webhooks.router)
    reads = [Depends(needs("viewer"))]
    app.include_router(people.router)
    app.include_router(channels.router)
    app.include_router(sign_in.router)
    app.include_router(pages.public)
    reference.describe(app)
    app.include_router(views.router, dependencies=reads)
    app.include_router(pages.router, dependencies=reads)
    return app
