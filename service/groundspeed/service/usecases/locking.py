"""Rows held for change. The order is always node, job, attempt, request, so that no two wait for one another."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import Select

AnySelect = TypeVar("AnySelect", bound=Select[Any])


def held(query: AnySelect, *, skip: bool = False) -> AnySelect:
    """Hold what ``query`` finds until the transaction ends; ``skip``: leave out what another one holds.

    FOR NO KEY UPDATE on PostgreSQL, so that rows which merely refer to these can be written meanwhile; nothing on
    SQLite, where a transaction holds the whole database for writing from its start.
    """
    return query.with_for_update(key_share=True, skip_locked=skip)
