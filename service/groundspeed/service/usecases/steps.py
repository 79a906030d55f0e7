"""Change points as plain values, for analyses that look at thousands of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from operator import itemgetter
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.bulk import insert_rows, update_rows
from groundspeed.service.db.identities import core, next_ids
from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import ChangePoint


@dataclass(slots=True)
class Step:
    """What grouping asks of a change point, under the names of its columns."""

    id: int | None
    series_id: int
    regression_id: int | None
    pinned: bool
    before_revision_id: int
    after_revision_id: int
    environment_to_id: int | None
    state: str
    kind: str
    cause: str
    ratio: float | None
    difference: float
    strength: float
    detail: Mapping[str, Any]
    created_at: datetime | None = None
    """None: it was read, and is none of those that were made just now."""


Member = ChangePoint | Step

_NAMES = tuple(field.name for field in fields(Step) if field.name != "created_at")
_table = core(ChangePoint).c
_asked = itemgetter(*_NAMES[4:], "created_at")
_MEMBERS = select(*(_table[name] for name in _NAMES)).where(one_of(_table.regression_id, among("ids")))


def members(session: Session, regression_ids: Sequence[int]) -> list[Step]:
    """The change points of regressions, withdrawn ones too."""
    if not regression_ids:
        return []
    return [Step(*row) for row in session.connection().execute(_MEMBERS, {"ids": list(regression_ids)}).all()]


def new(session: Session, rows: Sequence[Mapping[str, Any]]) -> list[Step]:
    """Rows that are still to be written, given by their columns, with their ids."""
    ids = next_ids(session, ChangePoint, len(rows))
    return [Step(id_, values["series_id"], None, False, *_asked(values)) for id_, values in zip(ids, rows, strict=True)]


def write(session: Session, steps: Sequence[Step], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write new rows, with the regressions that their steps have got."""
    if not rows:
        return
    names = tuple(name for name in rows[0] if name not in {"regression_id", "pinned"})
    given = itemgetter(*names)
    ready = [
        (step.id, step.regression_id, step.pinned, *given(values)) for step, values in zip(steps, rows, strict=True)
    ]
    insert_rows(session, ChangePoint, ("id", "regression_id", "pinned", *names), ready)


def set_regressions(session: Session, steps: Sequence[Step]) -> None:
    """The same of rows that are there."""
    update_rows(session, ChangePoint, ("regression_id",), [(step.id, step.regression_id) for step in steps])


def of_series(session: Session, ids: Sequence[int]) -> dict[int, list[ChangePoint]]:
    """All rows of these series, in the order in which they were made."""
    query = select(ChangePoint).where(one_of(col(ChangePoint.series_id), among("ids"))).order_by(col(ChangePoint.id))
    known: dict[int, list[ChangePoint]] = {}
    for row in session.scalars(query, {"ids": list(ids)}):
        known.setdefault(row.series_id, []).append(row)
    return known
