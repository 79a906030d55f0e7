"""Posting to where somebody else answers: whatever that one does, it is over in time and little of it is kept."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

_KEPT_BYTES = 2000
"""Of what is answered, enough to say why; the rest is not waited for."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    text: str
    """How it begins, decoded with replacement."""

    @property
    def yes(self) -> bool:
        return 200 <= self.status < 300


class NoAnswerError(Exception):
    """Nothing came back: the address cannot be, nobody is there, or it took too long."""


def _words(error: Exception) -> str:
    """What went wrong, without the address, which may hold a secret."""
    if isinstance(error, httpx.ConnectError):
        return "nobody can be reached at that address (ConnectError): does a server listen there, is the name right?"
    if isinstance(error, httpx.TimeoutException):
        return f"it took too long ({type(error).__name__})"
    return type(error).__name__


def post(address: str, body: bytes, headers: Mapping[str, str], limit_s: float) -> Answer:
    """What ``address`` answers; redirections are not followed. Raises :class:`NoAnswerError`."""
    last = time.monotonic() + limit_s
    text = b""
    try:
        with httpx.stream("POST", address, content=body, headers=dict(headers), timeout=limit_s) as reply:
            for part in reply.iter_raw():
                text += part
                if len(text) >= _KEPT_BYTES or time.monotonic() > last:
                    break
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:  # a name that is none is a ValueError
        raise NoAnswerError(_words(error)) from error
    return Answer(reply.status_code, text[:_KEPT_BYTES].decode("utf-8", "replace"))
