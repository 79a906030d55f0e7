"""Queries that pages ask, named by the question they answer. They only read, and none of them analyses anything.

What most pages ask is a statement that is made once: making it anew costs more than a small answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Integer, Row, String, and_, bindparam, cast, func, or_, select
from sqlmodel import Session, col

from groundspeed.service.db import tables as t
from groundspeed.service.db.sets import among, one_of

OPEN_STATES = ("new", "acknowledged", "in-progress")
"""Regressions that somebody still has to look at."""


def fetch(session: Session, query: Any, **values: Any) -> Sequence[Row[Any]]:
    """Rows of columns, without what the object mapper would do for each (a third of the time of a large read)."""
    return session.connection().execute(query, values).all()


def fetch_plain(session: Session, query: Any, **values: Any) -> Sequence[tuple[Any, ...]]:
    """Rows of numbers and words as the driver gives them: of thousands, making each a row of SQLAlchemy's costs as much
    as reading it.
    """
    result = session.connection().execute(query, values)
    rows: Sequence[tuple[Any, ...]] = result.cursor.fetchall()
    result.close()
    return rows


# --- projects -------------------------------------------------------------------------------------------------------


def projects(session: Session) -> Sequence[t.Project]:
    """All projects by name."""
    return session.execute(select(t.Project).order_by(col(t.Project.name))).scalars().all()


_PROJECT = select(t.Project).where(col(t.Project.slug) == bindparam("slug"))


def project_by_slug(session: Session, slug: str) -> t.Project | None:
    return session.execute(_PROJECT, {"slug": slug}).scalars().first()


def project_by_id(session: Session, id_: int) -> t.Project | None:
    return session.get(t.Project, id_)


def open_regressions_by_project(session: Session) -> dict[int, int]:
    """How many wait for somebody; none for a project that has none."""
    rows = session.execute(
        select(col(t.Regression.project_id), func.count())
        .where(col(t.Regression.state).in_(OPEN_STATES), col(t.Regression.kind) == "regression")
        .where(col(t.Regression.ignored_at).is_(None))
        .group_by(col(t.Regression.project_id))
    )
    return {row[0]: row[1] for row in rows}


def jobs_by_project(session: Session) -> dict[tuple[int, str], int]:
    """Number of jobs that wait or run, by (project, state)."""
    rows = session.execute(
        select(col(t.Job.project_id), col(t.Job.state), func.count())
        .where(col(t.Job.state).in_(("queued", "running")))
        .group_by(col(t.Job.project_id), col(t.Job.state))
    )
    return {(project, state): count for project, state, count in rows}


def series_by_project(session: Session, projects: Collection[int]) -> dict[int, tuple[int, datetime | None]]:
    """Number of series of these projects, and when the newest result of any came."""
    rows = session.execute(
        select(col(t.Series.project_id), func.count(), func.max(col(t.Series.last_result_at)))
        .where(col(t.Series.project_id).in_(projects))
        .group_by(col(t.Series.project_id))
    )
    return {project: (count, last) for project, count, last in rows}


# --- revisions ------------------------------------------------------------------------------------------------------


def revision_by_sha(session: Session, project_id: int, sha: str) -> t.Revision | None:
    """The commit that ``sha`` (at least four characters of it) names; None when none or several do."""
    if not 4 <= len(sha) <= 64 or not sha.isalnum():
        return None
    found = (
        session.execute(
            select(t.Revision)
            .where(col(t.Revision.project_id) == project_id, col(t.Revision.sha).startswith(sha.lower()))
            .limit(2)
        )
        .scalars()
        .all()
    )
    return found[0] if len(found) == 1 else None


_REVISIONS = select(t.Revision).where(one_of(col(t.Revision.id), among("ids")))


def revisions_by_id(session: Session, ids: Collection[int]) -> dict[int, t.Revision]:
    return {row.id or 0: row for row in session.execute(_REVISIONS, {"ids": list(ids)}).scalars()}


def newest_revisions(session: Session, project_id: int, limit: int, before: int | None = None) -> Sequence[t.Revision]:
    """Commits of the branch, newest first, below position ``before``."""
    query = select(t.Revision).where(col(t.Revision.project_id) == project_id, col(t.Revision.position).is_not(None))
    if before is not None:
        query = query.where(col(t.Revision.position) < before)
    return session.execute(query.order_by(col(t.Revision.position).desc()).limit(limit)).scalars().all()


def revisions_between(session: Session, project_id: int, low: int, high: int, limit: int) -> Sequence[t.Revision]:
    """Commits after position ``low`` up to ``high``, oldest first."""
    return (
        session.execute(
            select(t.Revision)
            .where(
                col(t.Revision.project_id) == project_id,
                col(t.Revision.position) > low,
                col(t.Revision.position) <= high,
            )
            .order_by(col(t.Revision.position))
            .limit(limit)
        )
        .scalars()
        .all()
    )


_HERE = col(t.Revision.project_id) == bindparam("project")
_BETWEEN = col(t.Revision.position).between(bindparam("low"), bindparam("high"))
_PLACES = select(col(t.Revision.id), col(t.Revision.position)).where(_HERE, _BETWEEN)


def places(session: Session, project_id: int, low: int, high: int) -> dict[int, int]:
    """Positions of the commits between two, by their id."""
    return dict(fetch_plain(session, _PLACES, project=project_id, low=low, high=high))


def revision_columns(session: Session, project_id: int, positions: Collection[int]) -> Sequence[tuple[Any, ...]]:
    """(id, sha, position, seconds of its commit, author, 120 characters of its title) of the commits at these
    positions, oldest first.
    """
    low, high = min(positions), max(positions)
    listed, ranged = _revision_columns(session.get_bind().dialect.name)
    if 5 * len(positions) < 4 * (high - low):
        return fetch_plain(session, listed, project=project_id, positions=sorted(positions))
    # Nearly all of a range are read in one go; of a list each would be looked up.
    found = fetch_plain(session, ranged, project=project_id, low=low, high=high)
    return [row for row in found if row[2] in positions]


@cache
def _revision_columns(dialect: str) -> tuple[Any, Any]:
    """The statement for a list of positions, and for those between two."""
    r = t.Revision
    at, title = epoch_seconds(dialect, col(r.committed_at)), func.substr(col(r.title), 1, 120)
    query = select(col(r.id), col(r.sha), col(r.position), at, col(r.author), title)
    query = query.where(_HERE).order_by(col(r.position))
    return query.where(one_of(col(r.position), among("positions"))), query.where(_BETWEEN)


def epoch_seconds(dialect: str, time: Any) -> Any:
    """Whole seconds since the epoch, made by the database: a date object for each of thousands of rows costs more."""
    if dialect == "sqlite":
        return cast(func.strftime("%s", time, type_=String), Integer)
    return cast(func.floor(func.extract("epoch", time)), Integer)


def revisions_at(session: Session, project_id: int, positions: Collection[int]) -> dict[int, t.Revision]:
    """Commits by their position on the branch."""
    rows = session.execute(
        select(t.Revision).where(col(t.Revision.project_id) == project_id, col(t.Revision.position).in_(positions))
    ).scalars()
    return {row.position: row for row in rows if row.position is not None}


_TIP = select(func.max(col(t.Revision.position))).where(_HERE)


def tip_position(session: Session, project_id: int) -> int:
    """Position of the newest commit; -1 when there is none."""
    ((found,),) = fetch_plain(session, _TIP, project=project_id)
    return -1 if found is None else int(found)


def outcomes_by_revision(session: Session, revision_ids: Collection[int]) -> dict[int, dict[str, int]]:
    """Number of runs by outcome for each commit."""
    out: dict[int, dict[str, int]] = {}
    rows = session.execute(
        select(col(t.Run.revision_id), col(t.Run.outcome), func.count())
        .where(col(t.Run.revision_id).in_(revision_ids))
        .group_by(col(t.Run.revision_id), col(t.Run.outcome))
    )
    for revision, outcome, count in rows:
        out.setdefault(revision, {})[outcome] = count
    return out


def jobs_by_revision(session: Session, revision_ids: Collection[int]) -> dict[int, dict[str, int]]:
    """Number of jobs by state for each commit."""
    out: dict[int, dict[str, int]] = {}
    rows = session.execute(
        select(col(t.JobSide.revision_id), col(t.Job.state), func.count())
        .join(t.Job, col(t.Job.id) == col(t.JobSide.job_id))
        .where(col(t.JobSide.revision_id).in_(revision_ids))
        .group_by(col(t.JobSide.revision_id), col(t.Job.state))
    )
    for revision, state, count in rows:
        out.setdefault(revision, {})[state] = count
    return out


def change_kinds_by_revision(session: Session, revision_ids: Collection[int]) -> dict[int, dict[str, int]]:
    """Number of regressions and improvements that begin at each commit."""
    out: dict[int, dict[str, int]] = {}
    rows = session.execute(
        select(col(t.Regression.after_revision_id), col(t.Regression.kind), func.count())
        .where(
            col(t.Regression.after_revision_id).in_(revision_ids),
            col(t.Regression.state).not_in(("false-alarm", "withdrawn", "merged")),
        )
        .group_by(col(t.Regression.after_revision_id), col(t.Regression.kind))
    )
    for revision, kind, count in rows:
        out.setdefault(revision, {})[kind] = count
    return out


# --- changes ---------------------------------------------------------------------------------------------------------


_CHANGES = select(t.ChangePoint).where(col(t.ChangePoint.state) != "withdrawn").order_by(col(t.ChangePoint.id))
_CHANGES_OF_SERIES = _CHANGES.where(one_of(col(t.ChangePoint.series_id), among("ids")))


def changes_of_series(session: Session, series_ids: Collection[int]) -> Sequence[t.ChangePoint]:
    """Change points that stand, oldest first."""
    return session.execute(_CHANGES_OF_SERIES, {"ids": list(series_ids)}).scalars().all()


def changes_of_regressions(session: Session, regression_ids: Collection[int]) -> Sequence[t.ChangePoint]:
    """Those that still stand, the strongest first."""
    return (
        session.execute(
            select(t.ChangePoint)
            .where(col(t.ChangePoint.regression_id).in_(regression_ids), col(t.ChangePoint.state) != "withdrawn")
            .order_by(col(t.ChangePoint.strength).desc(), col(t.ChangePoint.id))
        )
        .scalars()
        .all()
    )


def changes_at_revision(session: Session, revision_id: int) -> Sequence[t.ChangePoint]:
    """Those that still stand and are first seen in this commit, the strongest first."""
    return (
        session.execute(
            select(t.ChangePoint)
            .where(col(t.ChangePoint.after_revision_id) == revision_id, col(t.ChangePoint.state) != "withdrawn")
            .order_by(col(t.ChangePoint.strength).desc())
        )
        .scalars()
        .all()
    )


_c = t.ChangePoint
_LAST_CHANGES: Any = (
    select(
        col(_c.series_id), col(_c.ratio), col(_c.ratio_low).label("low"), col(_c.ratio_high).label("high"),
        col(_c.difference), col(_c.kind), col(_c.regression_id), col(_c.created_at),
    )
    .join(t.Revision, col(t.Revision.id) == col(_c.after_revision_id))
    .where(one_of(col(_c.series_id), among("ids")), col(_c.state) != "withdrawn")
    .order_by(col(t.Revision.position), col(_c.id))
)  # fmt: skip


def last_changes(session: Session, series_ids: Collection[int]) -> dict[int, Row[Any]]:
    """(series_id, ratio, low, high, difference, kind, regression_id, created_at) of each series' newest change."""
    return {row.series_id: row for row in fetch(session, _LAST_CHANGES, ids=list(series_ids))}


_CHANGE_POSITIONS = (
    select(col(t.ChangePoint.series_id), col(t.Revision.position), col(t.ChangePoint.kind))
    .join(t.Revision, col(t.Revision.id) == col(t.ChangePoint.after_revision_id))
    .where(one_of(col(t.ChangePoint.series_id), among("ids")), col(t.ChangePoint.state) != "withdrawn")
    .where(col(t.Revision.position).is_not(None))
)


def change_positions(session: Session, series_ids: Collection[int]) -> Sequence[Row[Any]]:
    """(series, position, kind) of the first commit after each change."""
    return fetch(session, _CHANGE_POSITIONS, ids=list(series_ids))


_ENVIRONMENTS = select(t.Environment).where(one_of(col(t.Environment.id), among("ids")))


def environments_by_id(session: Session, ids: Collection[int]) -> dict[int, t.Environment]:
    return {row.id or 0: row for row in session.execute(_ENVIRONMENTS, {"ids": list(ids)}).scalars()}


def annotations_at(session: Session, revision_id: int) -> Sequence[t.Event]:
    """What people wrote at a commit, oldest first."""
    query = select(t.Event).where(col(t.Event.revision_id) == revision_id, col(t.Event.kind) == "annotation")
    return session.execute(query.order_by(col(t.Event.id)).limit(100)).scalars().all()


_EVENTS = (
    select(t.Event)
    .order_by(col(t.Event.at))
    .limit(500)
    .where(
        or_(
            col(t.Event.project_id) == bindparam("project"),
            and_(col(t.Event.project_id).is_(None), col(t.Event.kind).in_(("environment", "node", "annotation"))),
        )
    )
)


def events_of_project(session: Session, project_id: int) -> Sequence[t.Event]:
    """Annotations of the project or of no project, and changes of environment on any node, oldest first."""
    return session.execute(_EVENTS, {"project": project_id}).scalars().all()


# --- regressions ----------------------------------------------------------------------------------------------------


def regressions(
    session: Session,
    project_id: int,
    *,
    kinds: Sequence[str] = (),
    states: Sequence[str] = (),
    ignored: bool | None = None,
    below: int | None = None,
    limit: int = 50,
) -> Sequence[t.Regression]:
    """Newest first, ids below ``below``; ``ignored``: only those that are left out of the queue, or only the others."""
    r = t.Regression
    query = select(r).where(col(r.project_id) == project_id)
    if kinds:
        query = query.where(col(r.kind).in_(kinds))
    if states:
        query = query.where(col(r.state).in_(states))
    if ignored is not None:
        query = query.where(col(r.ignored_at).is_not(None) if ignored else col(r.ignored_at).is_(None))
    if below is not None:
        query = query.where(col(r.id) < below)
    return session.execute(query.order_by(col(r.id).desc()).limit(limit)).scalars().all()


def regression_counts(session: Session, project_id: int, kind: str) -> dict[str, int]:
    """Number by state; those that are ignored for a time count as such whatever their state."""
    ignored = col(t.Regression.ignored_at).is_not(None)
    query = select(col(t.Regression.state), ignored, func.count()).where(col(t.Regression.project_id) == project_id)
    if kind:
        query = query.where(col(t.Regression.kind) == kind)
    counts: dict[str, int] = {}
    for state, away, count in session.execute(query.group_by(col(t.Regression.state), ignored)):
        counts["ignored" if away else state] = counts.get("ignored" if away else state, 0) + count
    return counts


def regression(session: Session, id_: int) -> t.Regression | None:
    return session.get(t.Regression, id_)


def audit_of(session: Session, subject_type: str, subject_id: str) -> Sequence[t.AuditEntry]:
    """Who did what to it, oldest first."""
    a = t.AuditEntry
    return (
        session.execute(
            select(a)
            .where(col(a.subject_id) == subject_id, col(a.subject_type) == subject_type)
            .order_by(col(a.at), col(a.id))
        )
        .scalars()
        .all()
    )


def in_parts(ids: Collection[int], size: int = 5000) -> list[list[int]]:
    """``ids`` in parts that a statement can carry (SQLite takes 32,766 parameters)."""
    every = list(dict.fromkeys(ids))
    return [every[at : at + size] for at in range(0, len(every), size)]
