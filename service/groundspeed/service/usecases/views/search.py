"""Find a benchmark, a commit, a node or a project by a few letters of it."""

from __future__ import annotations

from sqlmodel import Session

from groundspeed.service.db import reads_search
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import written
from groundspeed.service.wire import views as v

EACH = 8


def search(db: Database, query: str) -> v.SearchResults:
    """Hits of every kind, at most ``EACH`` a kind; nothing for fewer than two letters."""
    words = query.lower().split()[:6]
    if sum(map(len, words)) < 2:
        return v.SearchResults(query=query, hits=())
    with db.read() as session:
        hits = [
            *_projects(session, words),
            *_revisions(session, query.strip().lower(), words),
            *_series(session, words),
        ]
        hits += [*_pulls(session, words), *_nodes(session, words), *_regressions(session, words)]
    return v.SearchResults(query=query, hits=tuple(hits))


def _projects(session: Session, words: list[str]) -> list[v.Hit]:
    found = reads_search.projects(session, words, EACH)
    return [v.Hit(kind="project", title=p.name, detail=p.repo_url, url=f"/projects/{p.slug}") for p in found]


def _revisions(session: Session, whole: str, words: list[str]) -> list[v.Hit]:
    return [
        v.Hit(
            kind="revision",
            title=f"{r.sha[:10]} {r.title}",
            detail=f"{slug} · {r.author}",
            url=f"/projects/{slug}/commits/{r.sha}",
        )
        for r, slug in reads_search.revisions(session, whole, words, EACH)
    ]


def _series(session: Session, words: list[str]) -> list[v.Hit]:
    out = []
    for row, slug in reads_search.series(session, words, EACH):
        params = written.params(row.params)
        out.append(
            v.Hit(
                kind="series",
                title=f"{row.suite} · {row.metric}",
                detail=" · ".join(part for part in (slug, params, row.hardware) if part),
                url=f"/projects/{slug}/series/{row.id}",
            )
        )
    return out


def _pulls(session: Session, words: list[str]) -> list[v.Hit]:
    return [
        v.Hit(
            kind="pull request",
            title=f"#{pull.number} {pull.title}",
            detail=f"{slug} · {pull.author} · {pull.state}",
            url=f"/projects/{slug}/pulls/{pull.number}",
        )
        for pull, slug in reads_search.pulls(session, words, EACH)
    ]


def _nodes(session: Session, words: list[str]) -> list[v.Hit]:
    found = reads_search.nodes(session, words, EACH)
    return [v.Hit(kind="node", title=n.name, detail=n.state, url=f"/fleet/{n.name}") for n in found]


def _regressions(session: Session, words: list[str]) -> list[v.Hit]:
    return [
        v.Hit(
            kind="regression",
            title=f"#{r.id} {r.title}",
            detail=f"{slug} · {r.kind} · {r.state}",
            url=f"/projects/{slug}/regressions/{r.id}",
        )
        for r, slug in reads_search.regressions(session, words, EACH)
    ]
