"""The results of many series of a project as arrays, and what all of them stand on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, pairwise
from typing import Any

import numpy as np
from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.identities import core
from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import Benchmark, Result, Revision
from groundspeed.service.domain.series import Columns, Ints
from groundspeed.service.usecases.import_tables import PLUGIN_PREFIX
from groundspeed.service.usecases.series import latest_config

_result = core(Result).c
_RESULTS = select(
    _result.series_id, _result.revision_id, _result.environment_id, _result.value, _result.spread, _result.run_id
).where(one_of(_result.series_id, among("ids")), _result.state != "rejected")
_OF_ONE = """
SELECT revision_id, environment_id, value, spread, run_id FROM result WHERE series_id = ? AND state != 'rejected'
"""
Placed = tuple[Ints, Ints, bool]
"""Of a series' results on the branch: their places in order, where they lie, and whether a place comes again."""
Rows = tuple[Any, ...]
"""Of a series' results: commits, environments, values, spreads and runs, as arrays of one length."""
NONE: Rows = tuple(np.empty(0, kind) for kind in (np.int64, np.int64, np.float64, np.float64, np.int64))
_ROW = np.dtype([
    ("series", np.int64), ("revision", np.int64), ("environment", np.int64), ("value", np.float64),
    ("spread", np.float64), ("run", np.int64),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Frame:
    """What all series of a project stand on."""

    positions: Mapping[int, int]
    """Of the commits on the branch."""
    commits: Mapping[int, int]
    """The same the other way round."""
    places: Ints
    """Position by a commit's id; -1: not on the branch. The last is that of every commit that has come since."""
    order: bytes
    """A digest of these: the same while the commits stand as they do."""
    config: Mapping[str, Any]
    suites: Mapping[int, str]
    """By benchmark."""
    imported: frozenset[int]
    """Benchmarks from other tools' files: nobody can measure them again."""
    _latest: dict[bytes, Placed] = field(default_factory=dict, repr=False, compare=False)
    """Of the series before: most were measured at the same commits as the one before them."""

    @classmethod
    def of(cls, session: Session, project_id: int) -> Frame:
        where = col(Revision.project_id) == project_id
        rows = session.execute(select(col(Revision.id), col(Revision.position)).where(where)).tuples().all()
        positions = {id_: x for id_, x in rows if id_ is not None and x is not None}
        places = np.full(max((id_ or 0 for id_, _ in rows), default=0) + 2, -1, np.int64)
        places[list(positions)] = list(positions.values())
        benchmarks = select(col(Benchmark.id), col(Benchmark.suite), col(Benchmark.plugin))
        benchmarks = benchmarks.where(col(Benchmark.project_id) == project_id)
        known = [(id_ or 0, suite, plugin) for id_, suite, plugin in session.execute(benchmarks).tuples()]
        suites = {id_: suite for id_, suite, _ in known}
        imported = frozenset(id_ for id_, _, plugin in known if plugin.startswith(PLUGIN_PREFIX))
        commits = {x: id_ for id_, x in positions.items()}
        order = blake2b(places.tobytes(), digest_size=16).digest()
        return cls(positions, commits, places, order, latest_config(session, project_id), suites, imported)

    def placed(self, revision: Ints) -> Placed:
        """Results of these commits in the order of the branch."""
        key = revision.tobytes()
        known = self._latest.get(key)
        if known is None:
            # On PostgreSQL results may be of a commit that came after the frame: their mark waits for the next look.
            x = self.places[np.minimum(revision, self.places.size - 1)]
            order = x.argsort(kind="stable")
            x = x[order]
            away = int(np.searchsorted(x, 0))  # those that are not on the branch
            order, x = order[away:], x[away:]
            known = x, order, bool((x[1:] == x[:-1]).any())
            self._latest.clear()
            self._latest[key] = known
        return known


def rows_of(session: Session, ids: Sequence[int]) -> dict[int, Rows]:
    """The results of each series; absent: it has none."""
    if session.get_bind().dialect.name == "sqlite":
        return _rows_there(session, ids)
    result = session.connection().execute(_RESULTS, {"ids": list(ids)})
    cursor: Any = result.cursor
    rows = np.fromiter(cursor, _ROW)  # a million of them: as the driver gives them
    result.close()
    if not rows.size:
        return {}
    if (rows["series"][1:] < rows["series"][:-1]).any():  # the engine would sort them, and has them in order mostly
        rows = rows[np.argsort(rows["series"], kind="stable")]
    arrays = tuple(np.ascontiguousarray(rows[name]) for name in _ROW.names or ())
    of = arrays[0]
    starts = [0, *(np.flatnonzero(of[1:] != of[:-1]) + 1).tolist(), len(of)]
    return {int(of[a]): tuple(column[a:b] for column in arrays[1:]) for a, b in pairwise(starts)}


def _rows_there(session: Session, ids: Sequence[int]) -> dict[int, Rows]:
    """The same from SQLite, where a question costs little: series by series, without its number in each row."""
    cursor: Any = session.connection().connection.cursor()
    found = {}
    for one in ids:
        flat = np.fromiter(chain.from_iterable(cursor.execute(_OF_ONE, (one,))), np.float64)  # numbers of rows fit
        if flat.size:
            revision, environment, value, spread, run = np.ascontiguousarray(flat.reshape(-1, 5).T)
            found[one] = (*(c.astype(np.int64) for c in (revision, environment)), value, spread, run.astype(np.int64))
    cursor.close()
    return found


def columns_of(frame: Frame, rows: Rows) -> Columns | None:
    """The points of a series that was measured once at every commit in each environment; None for any other, whose
    points have to be put together one by one.
    """
    revision, environment, value, spread, run = rows
    x, order, repeated = frame.placed(revision)
    if not x.size:
        return Columns.of((), ())
    if repeated:
        order = order[np.lexsort((run[order], x))]
    y, spread = value.take(order), spread.take(order)
    names, env = _numbered(environment, order)
    size = np.abs(y)
    if not size.max() < np.inf or (repeated and _several(x, env)):
        return None
    within = spread / size if size.min() > 0.0 else np.divide(spread, size, out=np.zeros_like(y), where=size > 0.0)
    return Columns(x, y, np.ones(x.size, np.int64), env, (), names, (), within)


def _numbered(environment: Ints, order: Ints) -> tuple[tuple[str, ...], Ints]:
    """Names of the environments, and their numbers, which they have as they come in that order."""
    if (environment == environment[0]).all():
        return (str(int(environment[0])),), np.zeros(order.size, np.int64)
    known, first, codes = np.unique(environment[order], return_index=True, return_inverse=True)
    arrived = np.argsort(first)
    return tuple(map(str, known[arrived].tolist())), np.argsort(arrived)[codes]


def _several(x: Ints, env: Ints) -> bool:
    """Whether some commit was measured more than once in one environment."""
    return len(set(zip(x.tolist(), env.tolist(), strict=True))) < x.size
