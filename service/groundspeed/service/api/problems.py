"""Every error as a Problem: what happened, and what to do. One handler for the whole tree of errors."""

from __future__ import annotations

import errno
import logging
import os

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as NoConnection
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from groundspeed.service.errors import GroundspeedError, TooMany, Unauthorized
from groundspeed.service.wire import v1

log = logging.getLogger(__name__)
_MAX_LISTED = 5
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_OF_THE_DISK = {*_NO_ROOM, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ESTALE}


def problem(status: int, code: str, title: str, detail: str = "") -> JSONResponse:
    body = v1.Problem(type=code, title=title, detail=detail)
    return JSONResponse(body.model_dump(), status, media_type="application/problem+json")


def install(app: FastAPI) -> None:
    """Answer every error of the service, of the framework and of the database in the same form."""
    app.add_exception_handler(GroundspeedError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _framework)
    app.add_exception_handler(DBAPIError, _database)
    app.add_exception_handler(NoConnection, _database)
    app.add_exception_handler(DataError, _out_of_range)
    app.add_exception_handler(OverflowError, _out_of_range)  # how SQLite's driver says the same
    app.add_exception_handler(ClientDisconnect, _cut)
    app.add_exception_handler(OSError, _system)
    app.add_exception_handler(Exception, _unexpected)


async def _ours(_request: Request, error: Exception) -> Response:
    assert isinstance(error, GroundspeedError)
    answer = problem(error.status, error.code, error.title, error.advice)
    if isinstance(error, Unauthorized):
        answer.headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, TooMany):
        answer.headers["Retry-After"] = str(error.retry_s)
    return answer


async def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    listed = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
    more = f" (and {len(listed) - _MAX_LISTED} more)" if len(listed) > _MAX_LISTED else ""
    return problem(422, "invalid", "The request is not understood.", "; ".join(listed[:_MAX_LISTED]) + more)


async def _framework(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, "http", str(error.detail), "See /docs for what there is.")


async def _database(_request: Request, error: Exception) -> Response:
    if isinstance(error, IntegrityError):
        log.warning("two requests met: %s", error.orig)
        return problem(503, "unavailable", "Somebody else changed the same at the same moment.", "Try again.")
    log.error("the database did not answer", exc_info=error)
    if _full(getattr(error, "orig", None)):
        return _no_room()
    return problem(503, "unavailable", "The database does not answer.", "Try again in a moment.")


def _full(error: object) -> bool:
    return getattr(error, "sqlite_errorname", "") == "SQLITE_FULL" or getattr(error, "sqlstate", "") == "53100"


def _no_room() -> JSONResponse:
    return problem(503, "unavailable", "The service's disk is full.", "Free some space on it, then try again.")


async def _system(_request: Request, error: Exception) -> Response:
    """What the disk refuses is the operator's to put right, and then works; anything else is our own mistake."""
    number = error.errno if isinstance(error, OSError) else 0
    if number not in _OF_THE_DISK:
        raise error
    log.error("the service's disk refuses", exc_info=error)
    if number in _NO_ROOM:
        return _no_room()
    words = f"The service's disk cannot be used: {os.strerror(number or 0)}."
    return problem(503, "unavailable", words, "Correct that on the service's machine, then try again.")


async def _out_of_range(_request: Request, _error: Exception) -> Response:
    return problem(422, "invalid", "A number or a text is out of the range that can be stored.", "Correct it.")


async def _cut(_request: Request, _error: Exception) -> Response:
    """Whoever asked is gone: the log says so in its line, and nobody reads the rest."""
    return problem(400, "cut", "The body ended before its length.", "Send it again.")


async def _unexpected(request: Request, error: Exception) -> Response:
    """Our own mistake: the framework logs it with its traceback; whoever asked is told what to do about it."""
    what = f"{request.method} {request.url.path} failed in the service ({type(error).__name__})."
    return problem(500, "error", what, "This is a fault of Groundspeed: its log has the details, please report them.")
