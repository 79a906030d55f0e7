"""What an engine needs beyond SQLAlchemy's own where it reaches PostgreSQL."""

from __future__ import annotations

import math
import time
from typing import Any

import psycopg
from psycopg.types.string import StrBinaryDumper, StrDumper
from sqlalchemy import Engine, event
from sqlalchemy.exc import InvalidatePoolError

from groundspeed.service.db.types import clean_text

RESTED_S = 1.0
"""A pooled connection that was not used for so long is tried before it is used."""


def prepare(engine: Engine) -> None:
    """Have its connections take every text, and be tried when they have rested."""
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "checkout", _on_checkout)
    event.listen(engine, "checkin", _on_checkin)


class _TextDumper(StrDumper):
    """A column of text cannot hold NUL; output of strange programs can."""

    def dump(self, obj: str) -> bytes:
        return super().dump(obj if obj.isascii() and "\x00" not in obj else clean_text(obj))  # type: ignore[return-value]


class _TextBinaryDumper(StrBinaryDumper):
    """The same for parameters that are sent in binary form."""

    def dump(self, obj: str) -> bytes:
        return super().dump(obj if obj.isascii() and "\x00" not in obj else clean_text(obj))  # type: ignore[return-value]


def _on_connect(connection: Any, _record: Any) -> None:
    connection.adapters.register_dumper(str, _TextBinaryDumper)
    connection.adapters.register_dumper(str, _TextDumper)  # the later one is taken where the format does not matter


def _on_checkout(connection: Any, record: Any, _proxy: Any) -> None:
    """A connection that has rested is tried first, so that a server which was restarted meanwhile costs no error.

    One that was in use a moment ago is not: asking each time would cost a round trip a transaction.
    """
    if time.monotonic() - record.info.get("rested_since", math.inf) < RESTED_S:
        return
    try:
        connection.execute("")
    except psycopg.Error as error:
        raise InvalidatePoolError from error  # its neighbours are as dead
    finally:
        if not connection.closed:
            connection.rollback()


def _on_checkin(_connection: Any, record: Any) -> None:
    record.info["rested_since"] = time.monotonic()
