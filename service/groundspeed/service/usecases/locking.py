"""Rows held for change. The order is always node, job, attempt, request, and series, project, change point, regression,
so that no two wait for one another.
"""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import Select, bindparam, select
from sqlmodel import Session

from groundspeed.service.db.identities import core
from groundspeed.service.db.tables import Project

AnySelect = TypeVar("AnySelect", bound=Select[Any])


def held(query: AnySelect, *, skip: bool = False) -> AnySelect:
    """Hold what ``query`` finds until the transaction ends; ``skip``: leave out what another one holds.

    FOR NO KEY UPDATE on PostgreSQL, so that rows which merely refer to these can be written meanwhile; nothing on
    SQLite, where a transaction holds the whole database for writing from its start.
    """
    return query.with_for_update(key_share=True, skip_locked=skip)


_PROJECT = held(select(core(Project).c.id).where(core(Project).c.id == bindparam("id")))


def hold_project(session: Session, project_id: int) -> None:
    """Only its holder writes change points or gives them another regression. Nothing that waits is written before."""
    session.connection().execute(_PROJECT, {"id": project_id})
