"""Regressions as plain values, for analyses that look at hundreds of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlmodel import Session

from groundspeed.service.db.bulk import insert_rows, update_rows
from groundspeed.service.db.identities import core
from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import Regression
from groundspeed.service.usecases.locking import held


@dataclass(slots=True)
class Case:
    """What grouping asks of a regression and changes in it, under the names of its columns."""

    id: int | None
    project_id: int
    kind: str
    created_at: datetime
    state: str
    title: str
    before_revision_id: int | None
    after_revision_id: int | None
    cause: str
    note: str
    updated_at: datetime
    notified_at: datetime | None

    def changing(self) -> tuple[Any, ...]:
        """The values of CHANGING, in its order."""
        return (
            self.state, self.title, self.before_revision_id, self.after_revision_id, self.cause, self.note,
            self.updated_at, self.notified_at,
        )  # fmt: skip


AnyCase = Regression | Case

CHANGING = ("state", "title", "before_revision_id", "after_revision_id", "cause", "note", "updated_at", "notified_at")
_KEPT = ("id", "project_id", "kind", "created_at")
_PLAIN = {"merged_into_id": None, "assignee": "", "link": "", "ignore_until": "", "ignored_at": None}
"""The other columns of one that nobody has touched."""
_table = core(Regression).c
_READ = held(
    select(*(_table[name] for name in (*_KEPT, *CHANGING))).where(one_of(_table.id, among("ids"))).order_by(_table.id)
)


def read(session: Session, ids: Sequence[int]) -> list[Case]:
    """Held, and as they are now."""
    return [Case(*row) for row in session.connection().execute(_READ, {"ids": list(ids)}).all()] if ids else []


def insert(session: Session, cases: Iterable[Case]) -> None:
    """Write new ones, which have their ids."""
    plain = tuple(_PLAIN.values())
    rows = [(one.id, one.project_id, one.kind, one.created_at, *one.changing(), *plain) for one in cases]
    insert_rows(session, Regression, (*_KEPT, *CHANGING, *_PLAIN), rows)


def update(session: Session, cases: Iterable[Case]) -> None:
    """Write what may change of those that are there."""
    update_rows(session, Regression, CHANGING, [(one.id, *one.changing()) for one in cases])
