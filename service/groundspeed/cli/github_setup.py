"""The way to GitHub and back in a browser: a page on this machine that begins it, and the address where it ends."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from groundspeed.service.errors import GroundspeedError
from groundspeed.service.forge.manifest import NewApp, convert, manifest, page, web_url

_DONE = "<!doctype html><meta charset=utf-8><title>Groundspeed</title><p>Done. Go on in the terminal."
_NO = "<!doctype html><meta charset=utf-8><title>Groundspeed</title><p>This did not begin here: begin again."


class _Server(HTTPServer):
    begin: str = ""
    state: str = ""
    convert: Callable[[str], NewApp]
    made: NewApp | None = None
    error: GroundspeedError | None = None


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/":
            self._say(200, self.server.begin)
            return
        query = parse_qs(parts.query)
        state, code = query.get("state", [""])[0], query.get("code", [""])[0]
        if parts.path != "/created" or not code.isalnum() or not hmac.compare_digest(state, self.server.state):
            self._say(404, _NO)
            return
        try:
            self.server.made = self.server.convert(code)
            self._say(200, _DONE)
        except GroundspeedError as error:
            self.server.error = error
            self._say(502, _NO)

    def _say(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Nothing: the terminal is for the person."""


def make(api_url: str, public_url: str, organization: str, name: str, port: int, show: Callable[[str], None]) -> NewApp:
    """Serve the page on loopback until GitHub has sent its reader back; returns the App. Ctrl-C ends it."""
    with _Server(("127.0.0.1", port), _Handler) as server:
        here = f"http://127.0.0.1:{server.server_address[1]}"
        server.state = secrets.token_urlsafe(24)
        found = manifest(public_url, f"{here}/created", name)
        server.begin = page(web_url(api_url), organization, server.state, found)
        server.convert = lambda code: convert(api_url, code)
        show(here)
        while server.made is None:
            if server.error is not None:
                raise server.error
            server.handle_request()
        return server.made
