"""Pages that take long to make: their head is sent, and seen, while the rest is still being read.

What has been sent cannot be named by its content beforehand, so such an answer is named by a number, under which this
process remembers for a while what the content was: who has it already is told so as for any other page.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from markupsafe import escape

from groundspeed.service.api.requestlog import BrokenOffError
from groundspeed.service.api.routes.loaders import InParts
from groundspeed.service.api.routes.views import takes_gzip
from groundspeed.service.errors import GroundspeedError
from groundspeed.service.pages import render
from groundspeed.service.pages.routing import me, page_headers

log = logging.getLogger(__name__)
REMEMBERED = 2000
_LEVEL, _GZIP = 4, 31


class Sent:
    """Tag of an answer → hash of what it was; the newest ones, for several threads."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._known: OrderedDict[str, str] = OrderedDict()
        self._most = most
        self._lock = threading.Lock()

    def note(self, tag: str, content: str) -> None:
        with self._lock:
            self._known[tag] = content
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def of(self, tags: str) -> dict[str, str]:
        """Those that are remembered of an If-None-Match header."""
        with self._lock:
            return {tag: self._known[tag] for part in tags.split(",") if (tag := part.strip()) in self._known}


_sent = Sent()


def page(request: Request, template: str, parts: InParts) -> Response:
    """The page, its head at once; whole where the browser has one to compare it with."""
    theme, path = request.cookies.get("theme", "auto"), request.url.path
    texts = render.in_parts(template, parts.head, parts.whole, path=path, theme=theme, me=me(request))
    first = next(texts)  # what goes wrong until here is an error page
    headers = {**page_headers(), "Cache-Control": "private, no-cache", "X-Accel-Buffering": "no"}
    headers["Vary"] += ", Accept-Encoding"
    if held := _sent.of(request.headers.get("if-none-match", "")):
        first += "".join(texts)
        for tag, content in held.items():
            if content == _hash(first):
                return Response(status_code=304, headers={"ETag": tag, "Cache-Control": headers["Cache-Control"]})
    headers["ETag"] = f'W/"{uuid.uuid4().hex[:24]}"'
    packed = takes_gzip(request)
    if packed:
        headers["Content-Encoding"] = "gzip"
    body = _body(first, texts, headers["ETag"], packed=packed)
    return StreamingResponse(body, media_type="text/html; charset=utf-8", headers=headers)


def _body(first: str, texts: Iterator[str], tag: str, *, packed: bool) -> Iterator[bytes]:
    """The texts as they are sent, each to its end; what they were is noted once all of them are gone."""
    content = hashlib.sha256()
    pack = zlib.compressobj(_LEVEL, wbits=_GZIP) if packed else None
    for text in chain([first], _to_the_end(texts)):
        data = text.encode()
        content.update(data)
        yield data if pack is None else pack.compress(data) + pack.flush(zlib.Z_SYNC_FLUSH)
    if pack is not None:
        yield pack.flush()
    _sent.note(tag, content.hexdigest())


def _to_the_end(texts: Iterator[str]) -> Iterator[str]:
    try:
        yield from texts
    except Exception as error:  # the edge of an answer that has begun: it can only say so where it stops
        log.exception("a page breaks off")
        words = "The rest of this page could not be made. Reload it."
        if isinstance(error, GroundspeedError):
            words = f"{error.title} {error.advice}"
        yield f'<p class="empty">{escape(words)}</p></main></body></html>'
        raise BrokenOffError from error


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
