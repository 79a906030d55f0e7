"""Leases: a node claims a job (``claims``), keeps it by signs of life (``signs``), and ends it (``ends``), for many at
once. The database is the truth, the broker a hint.

Everything may be asked twice with the same input and is answered the same: a worker repeats what it got no answer to.
"""

from __future__ import annotations

from sqlalchemy import bindparam, select
from sqlmodel import col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Attempt, Node
from groundspeed.service.errors import Forbidden, NotFound
from groundspeed.service.usecases.expiry import expire, release_silent
from groundspeed.service.usecases.policy import Policy

__all__ = [
    "Policy",
    "check_owner",
    "expire",
    "owner_known",
    "release_silent",
]

_OWNER = (
    select(col(Node.name))
    .join(Attempt, col(Attempt.node_id) == col(Node.id))
    .where(col(Attempt.id) == bindparam("attempt"))
)


def owner_known(database: Database, attempt_id: str) -> bool:
    """Whether :func:`check_owner` need not ask the database."""
    return database.recent.get(("owner", attempt_id)) is not None


def check_owner(database: Database, attempt_id: str, node: str | None) -> None:
    """Raises :class:`Forbidden` when a worker's token is for another node; None: any (an operator, this machine)."""
    if node is None:
        return
    name = database.recent.get(("owner", attempt_id))
    if name is None:
        with database.read() as session:
            name = session.execute(_OWNER, {"attempt": attempt_id}).scalar()
        if name is None:
            raise NotFound(f"There is no attempt {attempt_id}.", "The job must be claimed first.")
        database.recent.put(("owner", attempt_id), name)
    if name != node:
        raise Forbidden(f"The attempt is not one of {node}.", "A worker writes its own attempts only.")
