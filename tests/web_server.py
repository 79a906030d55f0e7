"""A real server in a thread, for tests of pages: the routers over a database, on a free port of loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from groundspeed.service.api.routes import views
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import GroundspeedError
from groundspeed.service.pages import routes


def app(db: Database) -> FastAPI:
    """The reading part of the service."""
    made = FastAPI()
    made.state.db = db
    made.include_router(views.router)
    made.include_router(routes.router)

    @made.exception_handler(GroundspeedError)
    def problem(_request: Request, error: GroundspeedError) -> JSONResponse:
        return JSONResponse({"type": error.code, "title": error.title, "detail": error.advice}, error.status)

    return made


@contextmanager
def serve(application: FastAPI) -> Iterator[str]:
    """The address of a running server."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
