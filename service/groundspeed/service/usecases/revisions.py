"""A project's commits as rows: positions along the branch, re-counted when its history was rewritten."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select, update
from sqlmodel import Session, col

from groundspeed.service.db.tables import Project, Revision
from groundspeed.service.db.unique import ensure
from groundspeed.service.repo import Commit, Repository
from groundspeed.service.usecases.series import positions_changed

WINDOW = 1000
"""How many commits become rows when a branch is first seen; older ones come with the request that names them."""


def sync_branch(session: Session, project: Project, repo: Repository, tip: str) -> bool:
    """Bring rows and positions up to the branch's ``tip``; returns whether its history was rewritten.

    The project's row must be held. After a forced push every stored commit that left the branch loses its position,
    and those that stay are counted again: a position is its commit's distance from the root, so equal prefixes keep
    theirs.
    """
    old = project.tip_sha
    if old == tip:
        return False
    rewritten = old is not None and not repo.is_ancestor(old, tip)
    commits = repo.history(tip, WINDOW) if old is None or rewritten else repo.since(old, tip)
    tags = repo.tags()
    if rewritten:
        _forget_positions(session, project, commits)
    store(session, project, commits, tags)
    project.tip_sha = tip
    session.add(project)
    return rewritten


def store(
    session: Session, project: Project, commits: Sequence[Commit], tags: dict[str, list[str]] | None = None
) -> dict[str, int]:
    """Ids by sha; rows are made where missing, and a known position is written to rows that lack it."""
    names = tags or {}
    rows = [
        {
            "project_id": project.id,
            "sha": c.sha,
            "parents": list(c.parents),
            "position": c.position,
            "author": c.author[:200],
            "authored_at": c.authored_at,
            "committed_at": c.committed_at,
            "title": c.title[:500],
            "tags": names.get(c.sha, []),
        }
        for c in commits
    ]
    found: dict[str, int] = {}
    for start in range(0, len(rows), 500):
        part = ensure(session, Revision, rows[start : start + 500], key=("project_id", "sha"))
        found |= {sha: revision_id for (_, sha), revision_id in part.items()}
    _count_again(session, found, commits)
    return found


def _forget_positions(session: Session, project: Project, commits: Sequence[Commit]) -> None:
    """Rows from the oldest listed commit on lose their place; those before it are the common, untouched prefix."""
    oldest = min((c.position for c in commits if c.position is not None), default=0)
    gone = update(Revision).where(col(Revision.project_id) == project.id, col(Revision.position) >= oldest)
    moved = session.execute(gone.values(position=None).returning(col(Revision.id))).scalars().all()
    positions_changed(session, [one for one in moved if one is not None])


def _count_again(session: Session, found: dict[str, int], commits: Sequence[Commit]) -> None:
    """Write the positions that differ from the stored ones."""
    wanted = {found[c.sha]: c.position for c in commits if c.position is not None}
    keys = list(wanted)
    moved: list[int] = []
    for start in range(0, len(keys), 500):
        part = select(col(Revision.id), col(Revision.position)).where(col(Revision.id).in_(keys[start : start + 500]))
        for revision_id, position in session.execute(part).tuples().all():
            if revision_id is not None and position != wanted[revision_id]:
                moved.append(revision_id)
                session.execute(
                    update(Revision).where(col(Revision.id) == revision_id).values(position=wanted[revision_id])
                )
    positions_changed(session, moved)
