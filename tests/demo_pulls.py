"""Pull requests for the tests of pages: one that waits for a maintainer, and one of a merge queue."""

from __future__ import annotations

from sqlalchemy import select

from groundspeed.service.db.engine import Database
from groundspeed.service.db.forge_tables import ForgeRepository, PullRequest
from groundspeed.service.db.tables import Project


def add(db: Database, slug: str = "tinygpt") -> None:
    with db.transaction() as session:
        project = session.scalars(select(Project).where(Project.slug == slug)).one()
        repository = ForgeRepository(project_id=project.id, forge_id=7, full_name="octo/tinygpt")
        session.add(repository)
        session.flush()
        about = {
            "repository_id": repository.id or 0,
            "base_sha": "b" * 40,
            "base_ref": "main",
            "compared_sha": "b" * 40,
        }
        for number, sha, kind, outcome in ((3, "a" * 40, "pull", "approval"), (-1, "c" * 40, "queue", "error")):
            session.add(
                PullRequest(number=number, kind=kind, title="Faster & <safer>", author="stranger", from_fork=number > 0,
                            head_sha=sha, outcome=outcome, outcome_sha=sha, note="No node can run it.", **about)
            )  # fmt: skip
