"""What people type to name a series or a commit, and what it stands for.

A series is its number, or ``suite/metric``, or ``suite/metric/name=value,…`` where that names more than one. A commit
is four or more characters of its hash, a tag, or ``tip``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import String, cast, select
from sqlmodel import Session, col

from groundspeed.service.db import reads, reads_series
from groundspeed.service.db.tables import Benchmark, Hardware, Project, Revision, Series
from groundspeed.service.errors import Conflict, Invalid, NotFound

TIP = ("tip", "HEAD", "head")
_NAMED = 8
_LARGEST = 2**31


@dataclass(frozen=True, slots=True)
class Named:
    """A series with what a person calls it."""

    id: int
    project_id: int
    project: str
    suite: str
    metric: str
    params: Mapping[str, Any]
    hardware: str

    @property
    def label(self) -> str:
        params = ",".join(f"{name}={value}" for name, value in sorted(self.params.items()))
        return "/".join(part for part in (self.suite, self.metric, params) if part)


def split(text: str) -> tuple[str, str]:
    """``SERIES@COMMIT`` in two. Raises ``Invalid`` when a part is missing."""
    series, _, commit = text.rpartition("@")
    if not series.strip() or not commit.strip():
        raise Invalid(
            f"{text!r} does not say which series and commit.",
            "Give SERIES@COMMIT, such as train/step_time@1f3c9aa or 12@v1.4.",
        )
    return series.strip(), commit.strip()


def find_series(session: Session, text: str, project: str | None = None) -> Named:
    """The one series that ``text`` names, within ``project`` when that is given.

    Raises ``NotFound``, and ``Conflict`` with the candidates when several fit.
    """
    columns = (
        col(Series.id), col(Series.project_id), col(Project.slug), col(Benchmark.suite), col(Series.metric),
        col(Series.params), col(Hardware.label),
    )  # fmt: skip
    every = (
        select(*columns)
        .join(Project, col(Project.id) == col(Series.project_id))
        .join(Benchmark, col(Benchmark.id) == col(Series.benchmark_id))
        .join(Hardware, col(Hardware.id) == col(Series.hardware_id))
        .order_by(col(Series.id))
    )
    query = every if project is None else every.where(col(Project.slug) == project)
    text = text.strip()
    if text.isascii() and text.isdigit():
        query = query.where(col(Series.id) == (int(text) if len(text) < 10 and int(text) < _LARGEST else -1))
        found = [Named(*row) for row in session.execute(query).tuples()]
    else:
        suite, metric, params = _parts(text)
        query = query.where(col(Benchmark.suite) == suite)
        if metric:
            query = query.where(col(Series.metric) == metric)
        fitting = (Named(*row) for row in session.execute(query).tuples())
        found = [one for one in fitting if all(str(one.params.get(k)) == v for k, v in params.items())]
    now = reads_series.followed(session, [one.id for one in found])
    if now != [one.id for one in found]:  # what was renamed is known by its former name too
        found = [Named(*row) for row in session.execute(every.where(col(Series.id).in_(now))).tuples()]
    if not found:
        where = f" in project {project!r}" if project is not None else ""
        raise NotFound(
            f"There is no series {text!r}{where}.",
            "Give its number, or suite/metric as its page and `groundspeed show tip` show them "
            "(suite/metric/name=value where several fit).",
        )
    if len(found) > 1:
        listed = "; ".join(f"{one.id}: {one.label} on {one.hardware} ({one.project})" for one in found[:_NAMED])
        more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise Conflict(f"{len(found)} series are called {text!r}.", f"Give the number of one: {listed}{more}.")
    return found[0]


def _parts(text: str) -> tuple[str, str, dict[str, str]]:
    suite, _, rest = text.partition("/")
    metric, slash, last = rest.rpartition("/")
    if slash and "=" in last:
        pairs = [part.partition("=") for part in last.split(",")]
        return suite, metric, {name.strip(): value.strip() for name, _, value in pairs if name.strip()}
    return suite, rest, {}


def find_commit(session: Session, project_id: int, text: str) -> Revision:
    """The commit that ``text`` names. Raises ``NotFound`` when none does, or several."""
    text = text.strip()
    if text in TIP:
        newest = reads.newest_revisions(session, project_id, 1)
        if newest:
            return newest[0]
    tagged = select(Revision).where(
        col(Revision.project_id) == project_id, cast(col(Revision.tags), String).contains(f'"{text}"', autoescape=True)
    )
    by_tag = [row for row in session.scalars(tagged.limit(10)) if text in row.tags]
    found = by_tag[0] if len(by_tag) == 1 else reads.revision_by_sha(session, project_id, text)
    if found is None:
        raise NotFound(
            f"There is no single commit {text!r}.", "Give four or more characters of its hash, a tag, or tip."
        )
    return found
