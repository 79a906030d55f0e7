"""Columns that many tables have, so that each is declared the same way everywhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey
from sqlmodel import Field, SQLModel

from groundspeed.service.db.types import BigId, JsonDocument, UtcDateTime

SQLModel.metadata.naming_convention = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
"""Every constraint has a name, so that a migration can name it on either engine."""


def utc_now() -> datetime:
    """The default of created_at columns."""
    return datetime.now(UTC)


def json_column(default: Any = None) -> Any:
    factory = dict if default is None else default
    return Field(default_factory=factory, sa_column=Column(JsonDocument, nullable=False))


def time_column(*, index: bool = False) -> Any:
    return Field(default_factory=utc_now, sa_column=Column(UtcDateTime, nullable=False, index=index))


def time_or_none(*, index: bool = False) -> Any:
    return Field(default=None, sa_column=Column(UtcDateTime, nullable=True, index=index))


def big_id() -> Any:
    """The key of a table that may outgrow 32 bits."""
    return Field(default=None, sa_column=Column(BigId, primary_key=True))


def big_reference(target: str, *, nullable: bool = False, index: bool = False) -> Any:
    column = Column(BigId, ForeignKey(target), nullable=nullable, index=index)
    return Field(default=None, sa_column=column) if nullable else Field(sa_column=column)


def big_number(*, unique: bool = False, nullable: bool = False) -> Any:
    """A number of somebody else's that may outgrow 32 bits (a forge's ids do)."""
    column: Column[Any] = Column(BigInteger, nullable=nullable, unique=unique)
    return Field(default=None, sa_column=column) if nullable else Field(sa_column=column)
