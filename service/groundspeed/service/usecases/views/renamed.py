"""What looks renamed at a commit: series that begin there with the numbers of others that end before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlmodel import Session

from groundspeed.service.db import reads, reads_series, reads_work
from groundspeed.service.domain.renames import Line, renames
from groundspeed.service.usecases.views import refs
from groundspeed.service.wire import views as v

LOOK_BACK = 5
"""Commits before, of which the nearest that was measured counts."""
MOST = 200
MOST_SHOWN = 10


def hints(session: Session, project_id: int, found: Any, results: Sequence[v.RevisionResult]) -> tuple[v.Renamed, ...]:
    """Only what has no value before ``found`` is looked at, so that most commits cost nothing."""
    begun = [one for one in results if one.previous is None][:MOST]
    if not begun or not found.position:
        return ()
    values = _values_before(session, project_id, found.position)
    ended = [one for one in values if one not in {result.series.id for result in results}][:MOST]
    last = reads_series.last_position(session, ended)
    ended = [one for one in ended if last.get(one, found.position) < found.position]
    if not ended:
        return ()
    rows = {row.id: row for row in reads_series.series_rows(session, [*ended, *(one.series.id for one in begun)])}
    gone = [_line(rows[id_], values[id_]) for id_ in ended]
    come = [_line(rows[one.series.id], [one.value]) for one in begun]
    return tuple(
        v.Renamed(
            before=one.old,
            after=one.new,
            series_before=refs.series_ref(rows[one.pairs[0][0]]),
            series_after=refs.series_ref(rows[one.pairs[0][1]]),
            ratio=one.pairs[0][2],
        )
        for one in renames(gone, come)[:MOST_SHOWN]
    )


def _values_before(session: Session, project_id: int, position: int) -> dict[int, list[float]]:
    """Values by series of the nearest measured commit before."""
    at = reads.revisions_at(session, project_id, range(max(0, position - LOOK_BACK), position))
    for place in sorted(at, reverse=True):
        values: dict[int, list[float]] = {}
        for row in reads_work.results_of_revisions(session, project_id, [at[place].id or 0]):
            values.setdefault(row.series_id, []).append(row.value)
        if values:
            return values
    return {}


def _line(row: Any, values: list[float]) -> Line:
    return Line(row.id, row.suite, row.metric, row.unit, row.direction, row.hardware_id, row.params, values)
