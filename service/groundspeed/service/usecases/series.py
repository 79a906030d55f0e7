"""A stored series as detection sees it: points in the order of the branch, with what makes two of them comparable."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from sqlalchemy import bindparam, select
from sqlmodel import Session, col

from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import FAILED, Benchmark, Request, Result, Revision, Run, Series, SeriesMark
from groundspeed.service.domain.detect import DetectConfig
from groundspeed.service.domain.series import MIN_EFFECT, Direction, Kind, Point, SeriesData
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases import outbox
from groundspeed.service.usecases.import_tables import PLUGIN_PREFIX
from groundspeed.service.usecases.topics import ANALYSE

_SERIES = (
    select(Series, col(Benchmark.suite), col(Benchmark.plugin))
    .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
    .where(col(Series.id) == bindparam("series"))
)
_CONFIGS = (
    select(col(Request.config))
    .where(col(Request.project_id) == bindparam("project"))
    .where(col(Request.kind).not_in(("pull_request", "followup", "bisect")))
    .order_by(col(Request.id).desc())
    .limit(20)
)
_POINTS = (
    select(
        col(Revision.position), col(Result.revision_id), col(Result.environment_id), col(Result.value),
        col(Result.spread), col(Result.state), col(Run.node_id), col(Run.started_at),
    )
    .join(Revision, col(Revision.id) == col(Result.revision_id))
    .join(Run, col(Run.id) == col(Result.run_id))
    .where(col(Result.series_id) == bindparam("series"), col(Result.state) != "rejected")
    .where(col(Revision.position).is_not(None))
    .order_by(col(Revision.position), col(Result.run_id))
)  # fmt: skip
_POINTS_AT = _POINTS.where(one_of(col(Result.revision_id), among("commits")))
"""Made once: of one new result, making a statement costs more than its answer."""


@dataclass(frozen=True, slots=True)
class LoadedSeries:
    """``data`` is what ``domain.detect`` takes; ``revisions`` gives the id of the commit at each x.

    A point's ``environment`` is the text of its environment's id.
    """

    series: Series
    suite: str
    data: SeriesData
    revisions: Mapping[int, int]
    config: DetectConfig
    imported: bool = False
    """From another tool's files: nobody can measure it again."""


@dataclass(slots=True)
class _Cell:
    """All results of one revision in one environment."""

    first: int
    valid: list[tuple[float, float, int, datetime]] = field(default_factory=list)
    degraded: list[tuple[float, float, int, datetime]] = field(default_factory=list)

    def best(self) -> list[tuple[float, float, int, datetime]]:
        """Degraded results count only when nothing better is there."""
        return self.valid or self.degraded


def load_series(session: Session, series_id: int, revision_ids: Collection[int] | None = None) -> LoadedSeries:
    """Read a series with its points on the branch: all, or those of some commits. Raises ``NotFound``."""
    found = session.execute(_SERIES, {"series": series_id}).first()
    if found is None:
        raise NotFound(f"There is no series {series_id}.", "It may have been deleted with its project.")
    series, suite, plugin = found
    settings = latest_config(session, series.project_id)
    revisions: dict[int, int] = {}
    points = _points(session, series, revisions, revision_ids)
    imported = plugin.startswith(PLUGIN_PREFIX)
    return replace(series_data(series, suite, settings, points, revisions), imported=imported)


def series_data(
    series: Series, suite: str, settings: Mapping[str, Any], points: tuple[Point, ...], revisions: Mapping[int, int]
) -> LoadedSeries:
    """A series with its points, under the project's configuration."""
    data = SeriesData(
        unit=series.unit,
        direction=cast("Direction", series.direction),
        kind=kind_of(series.kind),
        points=points,
        name=series.metric,
        min_effect=threshold(settings, suite, series.metric, series.kind),
    )
    return LoadedSeries(series, suite, data, revisions, DetectConfig())


def kind_of(kind: str) -> Kind:
    """As detection knows kinds: one that it does not is a ratio."""
    return kind if kind in MIN_EFFECT else "ratio"


def positions_changed(session: Session, revision_ids: Collection[int]) -> list[int]:
    """Commits have moved on the branch (a forced push, a fast-forward merge): the series measured on them are marked,
    and their analysis from scratch is asked for. Returns their ids.
    """
    ids: set[int] = set()
    wanted = list(revision_ids)
    for start in range(0, len(wanted), 500):
        some = col(Run.revision_id).in_(wanted[start : start + 500])
        ids |= set(
            session.scalars(select(col(Result.series_id)).join(Run, col(Run.id) == col(Result.run_id)).where(some))
        )
    series_ids = sorted(ids)
    if series_ids:
        session.add_all(SeriesMark(series_id=one) for one in series_ids)
        outbox.enqueue(session, ANALYSE, {"series_ids": series_ids})
    return series_ids


def latest_config(session: Session, project_id: int) -> Mapping[str, Any]:
    """The configuration that the branch was last planned with; a pull request's does not count."""
    newest = session.scalars(_CONFIGS, {"project": project_id})
    return next((config for config in newest if config), {})


def threshold(config: Mapping[str, Any], suite: str, metric: str, kind: str) -> float | None:
    """Smallest relative change worth an alert as configured: the suite's before the file's, the metric's before its
    kind's; None: the default of the kind.
    """
    own: Mapping[str, Any] = next((one for one in config.get("suite", ()) if one.get("name") == suite), {})
    for table in (own.get("thresholds") or {}, config.get("thresholds") or {}):
        for name in (metric, kind):
            if name in table:
                return float(table[name])
    return None


def _points(
    session: Session, series: Series, revisions: dict[int, int], only: Collection[int] | None
) -> tuple[Point, ...]:
    query, values = (_POINTS, {}) if only is None else (_POINTS_AT, {"commits": list(only)})
    rows: Any = session.connection().execute(query, {"series": series.id, **values})
    cells: dict[int, dict[int, _Cell]] = {}
    for order, (x, revision, environment, value, spread, state, node, started) in enumerate(rows):
        revisions[x] = revision
        cell = cells.setdefault(x, {}).setdefault(environment, _Cell(order))
        (cell.valid if state == "valid" else cell.degraded).append((value, spread, node, started))
    failures = _failures(session, series, revisions) if only is None else {}
    points: list[Point] = []
    for x in sorted(cells.keys() | failures.keys()):
        if x not in cells:
            points.append(Point(x, outcome=failures[x]))
            continue
        # Environments of one commit in the order in which it was first measured in them.
        arrived = sorted(cells[x].items(), key=lambda item: item[1].first)
        points += [_point(x, environment, cell.best()) for environment, cell in arrived]
    return tuple(points)


def _point(x: int, environment: int, results: Sequence[tuple[float, float, int, datetime]]) -> Point:
    return Point(
        x,
        values=tuple(value for value, _, _, _ in results),
        environment=str(environment),
        within=tuple(spread / abs(value) if value else 0.0 for value, spread, _, _ in results),
        nodes=tuple(str(node) for _, _, node, _ in results),
        days=tuple(started.toordinal() for _, _, _, started in results),
    )


def _failures(session: Session, series: Series, revisions: dict[int, int]) -> dict[int, str]:
    """Outcome by position where this series' benchmark ran and gave nothing: such a commit is not tried again."""
    rows = session.execute(
        select(col(Revision.position), col(Run.revision_id), col(Run.outcome), col(Run.params))
        .join(Revision, col(Revision.id) == col(Run.revision_id))
        .where(
            col(Run.benchmark_id) == series.benchmark_id,
            col(Run.hardware_id) == series.hardware_id,
            FAILED,
            col(Revision.position).is_not(None),
        )
    )
    found: dict[int, str] = {}
    for x, revision, outcome, params in rows:
        if all(series.params.get(name, value) == value for name, value in params.items()):
            found[x] = outcome
            revisions.setdefault(x, revision)
    return found
