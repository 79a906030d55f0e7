"""Column types that mean the same on SQLite and PostgreSQL, and JSON that both can hold."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json
from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Integer
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator, TypeEngine


class UtcDateTime(TypeDecorator[datetime]):
    """Aware in, aware UTC out: SQLite keeps no offset, so it is put back. A naive time is a mistake and raises."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - the base class's signature
        if value is None:
            return None
        if value.utcoffset() is None:
            raise ValueError("a time without time zone cannot be stored: use datetime.now(UTC)")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - the base class's signature
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class BigId(TypeDecorator[int]):
    """64 bits on both: SQLite's INTEGER already is, and only a column of exactly that type numbers itself."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Integer() if dialect.name == "sqlite" else BigInteger())


_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode
JsonDocument = JSON().with_variant(JSONB(), "postgresql")
"""JSONB on PostgreSQL (comparable, so that DISTINCT and GROUP BY work), text on SQLite."""


def dump_json(value: Any) -> str:
    """Strict JSON: what strangers' programs put into evidence and facts (NaN, NUL, half characters) is made storable.

    PostgreSQL refuses NaN and the NUL character, and UTF-8 has no lone surrogates; numbers that are none become null.
    """
    if not value and isinstance(value, dict):
        return "{}"
    try:
        text = _encode(value)
    except ValueError:
        text = _encode(_storable(value))
    if "\\u0000" in text or not text.isascii():
        text = _encode(_storable(value))
    return text


def load_json(text: str | bytes) -> Any:
    """What was stored: rows with JSON come by the thousand, and this takes a quarter of what json does."""
    try:
        return from_json(text)
    except ValueError:  # stricter than json about half characters, which an older store may hold
        return json.loads(text)


def clean_text(text: str) -> str:
    """``text`` without what a text column cannot hold."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {clean_text(str(key)): _storable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(item) for item in value]
    return value
