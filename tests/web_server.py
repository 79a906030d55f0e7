"""A real server in a thread, for tests of pages: the whole service over a database, on a free port of loopback."""

from __future__ import annotations

import functools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from groundspeed.service.api.app import create_app
from groundspeed.service.control.wiring import make
from groundspeed.service.db.engine import Database
from groundspeed.service.settings import Settings


def app(db: Database, folder: Path, **settings: Any) -> FastAPI:
    """The service over ``db``, its other files in ``folder``."""
    return create_app(make(Settings.load(data_dir=folder, database_url=db.url, **settings)))


@contextmanager
def serve(application: FastAPI, listener: socket.socket | None = None) -> Iterator[str]:
    """The address of a running server, on a free port; ``listener`` for an application that must know it before."""
    listener = listener or socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()
        application.state.db.close()


@contextmanager
def files(folder: Path) -> Iterator[str]:
    """The address of a plain file server over a folder."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that is overridden
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
