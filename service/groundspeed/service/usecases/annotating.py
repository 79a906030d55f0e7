"""Notes at commits that every graph of a project shows: a release, a new compiler, a change of the data."""

from __future__ import annotations

from datetime import datetime

from groundspeed.service.db import reads
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import AuditEntry, Event
from groundspeed.service.errors import Invalid, NotFound

MAX_TITLE = 120


def annotate(db: Database, slug: str, sha: str, title: str, now: datetime, *, actor: str) -> int:
    """Put a note at a commit; the same note again is the one that is there. Returns its id.

    Raises NotFound for an unknown project or commit, Invalid for an empty or a long title.
    """
    title = " ".join(title.split())
    if not title or len(title) > MAX_TITLE:
        raise Invalid("A note has 1 to 120 characters.", "Write what happened at this commit, in a few words.")
    with db.transaction() as session:
        project = reads.project_by_slug(session, slug)
        if project is None or project.id is None:
            raise NotFound(
                f"There is no project {slug!r}.", "The first page and `groundspeed project list` show those there are."
            )
        revision = reads.revision_by_sha(session, project.id, sha)
        if revision is None:
            raise NotFound(f"There is no single commit {sha!r} in {project.name}.", "Give more of its hash.")
        known = reads.annotations_at(session, revision.id or 0)
        same = next((event for event in known if event.title == title), None)
        if same is not None:
            return same.id or 0
        event = Event(
            kind="annotation", project_id=project.id, revision_id=revision.id, title=title, at=revision.committed_at
        )
        session.add(event)
        session.flush()
        session.add(
            AuditEntry(
                actor=actor,
                action="annotation.added",
                subject_type="event",
                subject_id=str(event.id),
                data={"commit": revision.sha, "title": title},
                at=now,
            )
        )
        return event.id or 0
