"""What people type for one side of a comparison, and what it stands for."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import or_, select
from sqlmodel import col

from groundspeed.service.db import reads
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Environment
from groundspeed.service.errors import Conflict, Invalid, NotFound
from groundspeed.service.usecases import naming
from groundspeed.service.usecases.views import refs

_SHORT_ID = 10


def only_project(db: Database, given: str | None) -> str:
    """The project that was named, or the only one there is. Raises ``NotFound``, ``Invalid`` when it must be named."""
    with db.read() as session:
        if given is not None:
            return str(refs.project_row(session, given).slug)
        slugs = [row.slug for row in reads.projects(session)]
    if len(slugs) == 1:
        return slugs[0]
    if not slugs:
        raise NotFound("There is no project here yet.", "`groundspeed project add` or `groundspeed import` makes one.")
    raise Invalid(f"There are {len(slugs)} projects here.", f"Name one with --project: {', '.join(slugs[:10])}.")


def side(db: Database, slug: str, by: Literal["revision", "environment", "node", "run"], text: str) -> str:
    """The key that a comparison takes: a full hash for a commit, tag or tip; an id for an environment's number, label
    or beginning of its fingerprint; the text itself for nodes and runs. Raises ``NotFound``, ``Conflict``.
    """
    with db.read() as session:
        project = refs.project_row(session, slug)
        if by == "revision":
            return naming.find_commit(session, project.id, text).sha
        if by != "environment" or (text.isascii() and text.isdigit() and len(text) < _SHORT_ID):
            return text
        named = select(Environment).where(
            or_(col(Environment.label) == text, col(Environment.fingerprint).startswith(text.lower(), autoescape=True))
        )
        found = session.scalars(named.order_by(col(Environment.id)).limit(10)).all()
    if not found:
        raise NotFound(
            f"There is no environment {text!r}.", "Give its number, its label, or how its fingerprint begins."
        )
    if len(found) > 1:
        listed = "; ".join(f"{one.id}: {one.label or one.fingerprint[:12]}" for one in found)
        raise Conflict(f"{len(found)} environments are called {text!r}.", f"Give the number of one: {listed}.")
    return str(found[0].id)
