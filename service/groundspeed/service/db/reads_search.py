"""Look-ups by a few letters. Every word has to occur somewhere in what names the thing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, String, and_, cast, func, literal, or_, select
from sqlmodel import Session, col

from groundspeed.service.db import reads, reads_series
from groundspeed.service.db import tables as t
from groundspeed.service.db.forge_tables import ForgeRepository, PullRequest


def _all_words(words: Sequence[str], *columns: Any) -> Any:
    heap: Any = func.lower(columns[0])
    for column in columns[1:]:
        heap = heap + " " + func.lower(func.coalesce(column, ""))
    return and_(*(heap.contains(word, autoescape=True) for word in words))


def _numbered(column: Any) -> Any:
    """#42, as people write it."""
    return literal("#").concat(cast(column, String))


def projects(session: Session, words: Sequence[str], limit: int) -> Sequence[t.Project]:
    query = select(t.Project).where(_all_words(words, col(t.Project.name), col(t.Project.slug)))
    return session.execute(query.order_by(col(t.Project.name)).limit(limit)).scalars().all()


def revisions(session: Session, whole: str, words: Sequence[str], limit: int) -> list[tuple[t.Revision, str]]:
    """Newest first: by the beginning of the hash, or by title and author."""
    by_title = _all_words(words, col(t.Revision.title), col(t.Revision.author))
    by_hash = col(t.Revision.sha).startswith(whole, autoescape=True)
    wanted = or_(by_hash, by_title) if len(whole) >= 4 else by_title
    query = select(t.Revision, col(t.Project.slug)).join(t.Project, col(t.Project.id) == col(t.Revision.project_id))
    rows = session.execute(query.where(wanted).order_by(col(t.Revision.committed_at).desc()).limit(limit))
    return [(row[0], row[1]) for row in rows]


def series(session: Session, words: Sequence[str], limit: int) -> list[tuple[Row[Any], str]]:
    heap = _all_words(
        words,
        col(t.Benchmark.suite),
        col(t.Benchmark.plugin),
        col(t.Benchmark.target),
        col(t.Series.metric),
        cast(col(t.Series.params), String),
        col(t.Hardware.label),
    )
    query = reads_series.series_select().where(heap).order_by(col(t.Series.id)).limit(limit)
    rows = session.execute(query).all()
    slugs = {p.id: p.slug for p in reads.projects(session)}
    return [(row, slugs[row.project_id]) for row in rows]


def pulls(session: Session, words: Sequence[str], limit: int) -> list[tuple[PullRequest, str]]:
    """Pull requests whose number, title or author have all the words, newest first, with the slug of their project."""
    r, p = ForgeRepository, t.Project
    query = (
        select(PullRequest, col(p.slug))
        .join(r, col(r.id) == col(PullRequest.repository_id))
        .join(p, col(p.id) == col(r.project_id))
        .where(_all_words(words, col(PullRequest.title), col(PullRequest.author), _numbered(col(PullRequest.number))))
    )
    return [(row[0], row[1]) for row in session.execute(query.order_by(col(PullRequest.id).desc()).limit(limit))]


def nodes(session: Session, words: Sequence[str], limit: int) -> Sequence[t.Node]:
    query = select(t.Node).where(_all_words(words, col(t.Node.name))).order_by(col(t.Node.name))
    return session.execute(query.limit(limit)).scalars().all()


def regressions(session: Session, words: Sequence[str], limit: int) -> list[tuple[t.Regression, str]]:
    query = select(t.Regression, col(t.Project.slug)).join(t.Project, col(t.Project.id) == col(t.Regression.project_id))
    wanted = _all_words(words, col(t.Regression.title), col(t.Regression.assignee), col(t.Regression.note))
    rows = session.execute(query.where(wanted).order_by(col(t.Regression.id).desc()).limit(limit))
    return [(row[0], row[1]) for row in rows]
