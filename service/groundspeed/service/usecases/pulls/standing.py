"""What an operator wants to know of the way to and from a forge: counts, links, and what did not work out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlmodel import col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.forge_tables import Delivery, ForgeAction, ForgeRepository
from groundspeed.service.db.tables import Project


@dataclass(frozen=True, slots=True)
class Linked:
    """A project and its repository on the forge."""

    project: str
    full_name: str
    state: str
    reconciled_at: datetime | None


@dataclass(frozen=True, slots=True)
class Standing:
    """``deliveries`` and ``actions`` count by state; ``ignored`` by what they were about; ``refused`` is in words."""

    linked: tuple[Linked, ...]
    deliveries: dict[str, int]
    ignored: dict[str, int]
    actions: dict[str, int]
    refused: tuple[str, ...]
    unread: tuple[str, ...] = ()
    """The newest deliveries that could not be used, with why."""


def standing(database: Database) -> Standing:
    with database.read() as session:
        links = session.execute(
            select(col(Project.slug), col(ForgeRepository.full_name), col(ForgeRepository.state),
                   col(ForgeRepository.reconciled_at))
            .join(Project, col(Project.id) == col(ForgeRepository.project_id))
            .order_by(col(Project.slug))
        ).tuples()  # fmt: skip
        linked = tuple(Linked(*row) for row in links)
        deliveries = select(col(Delivery.state), func.count()).group_by(col(Delivery.state))
        ignored = (
            select(col(Delivery.reason), func.count())
            .where(col(Delivery.state) == "ignored")
            .group_by(col(Delivery.reason))
        )
        actions = select(col(ForgeAction.state), func.count()).group_by(col(ForgeAction.state))
        refused = (
            select(col(ForgeAction.error))
            .where(col(ForgeAction.state) == "failed")
            .order_by(col(ForgeAction.id).desc())
            .limit(5)
        )
        unread = (
            select(col(Delivery.guid), col(Delivery.event), col(Delivery.reason))
            .where(col(Delivery.state).in_(("malformed", "failed")))
            .order_by(col(Delivery.id).desc())
            .limit(3)
        )
        return Standing(
            linked,
            dict(session.execute(deliveries).tuples().all()),
            dict(session.execute(ignored).tuples().all()),
            dict(session.execute(actions).tuples().all()),
            tuple(dict.fromkeys(session.scalars(refused))),
            tuple(f"delivery {guid} ({event}): {why}" for guid, event, why in session.execute(unread).tuples()),
        )
