"""What people decide about a campaign: go on from a hold point, end it, take it up again, roll one node back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.campaign_tables import Campaign, CampaignNode
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import AuditEntry, Request
from groundspeed.service.domain.campaigns import machine
from groundspeed.service.errors import Conflict, Invalid, NotFound
from groundspeed.service.usecases import jobs
from groundspeed.service.usecases.campaigns import state, step
from groundspeed.service.usecases.campaigns.state import Loaded

_ANY_S = 1e9
_TOUCHED = frozenset({"draining", "upgrading"})


def approve(database: Database, name: str, now: datetime, *, actor: str, why: str = "") -> str:
    """Go on from a hold point; returns the name of the phase that begins."""
    with database.transaction() as session:
        loaded = _loaded(session, name)
        campaign = loaded.campaign
        if campaign.state != "held":
            raise Conflict(f"Campaign {name!r} is {campaign.state}, not held.", "Only a hold point can be approved.")
        campaign.phase += 1
        campaign.state, campaign.reason, campaign.updated_at = "running", "", now
        session.add(campaign)
        _audit(session, actor, "approve", name, why, now)
        return machine.phase_name(campaign.phase)


def abort(database: Database, name: str, now: datetime, *, actor: str, why: str = "") -> int:
    """End a campaign: no further node is touched, what waits to be measured is cancelled; returns how many jobs.

    Nodes that have been changed stay as they are; a node that is away just now is told in the report.
    """
    with database.transaction() as session:
        loaded = _loaded(session, name)
        campaign = loaded.campaign
        if campaign.state not in {"running", "held"}:
            raise Conflict(f"Campaign {name!r} is already {campaign.state}.", "There is nothing left to end.")
        count = sum(
            jobs.cancel_all(session, id_, now, f"campaign {name} was ended") for id_ in _requests(session, loaded)
        )
        for part in loaded.parts:
            if part.state in _TOUCHED:
                step.take_back(session, loaded.node(part), now)
            if part.state == "draining":
                part.state, part.state_at = "ready", now
                session.add(part)
        campaign.state, campaign.finished_at, campaign.updated_at = "aborted", now, now
        campaign.reason = f"ended by {actor}" + (f": {why}" if why else "")
        session.add(campaign)
        _audit(session, actor, "abort", name, why, now)
        return count


def resume(database: Database, name: str, now: datetime, *, actor: str, why: str = "") -> str:
    """Take an aborted campaign up again where it stood: its phase is judged anew once it is over."""
    with database.transaction() as session:
        loaded = _loaded(session, name)
        campaign = loaded.campaign
        if campaign.state != "aborted":
            raise Conflict(f"Campaign {name!r} is {campaign.state}, not aborted.", "Only an aborted one is resumed.")
        seen = state.views(session, loaded, now, _ANY_S)
        over = machine.phase_over(seen, campaign.phase)
        # At the end of a phase a person has looked at what stopped it: held, and approved as any other hold point.
        campaign.state = "held" if over else "running"
        campaign.reason = f"taken up again by {actor}" + (f": {why}" if why else "")
        campaign.finished_at, campaign.updated_at = None, now
        for part in loaded.parts:
            _measure_again(part, now)
            session.add(part)
        session.add(campaign)
        _audit(session, actor, "resume", name, why, now)
        return campaign.state


def confirm(database: Database, name: str, now: datetime, *, actor: str, node: str = "") -> str:
    """A-B-A: have one node rolled back and measured again, to see the effect go; returns which.

    ``node`` empty: the one whose change is the most usual among those that count.
    """
    with database.transaction() as session:
        loaded = _loaded(session, name)
        able = [part for part in loaded.parts if part.state == "measured"]
        if not able:
            raise Conflict(f"No node of campaign {name!r} has been measured after the change.", "Wait for the canary.")
        part = _chosen(loaded, able, node)
        part.state, part.state_at, part.note = "reverting", now, "it is rolled back to confirm the effect"
        step.ask_hook(session, loaded.campaign, part, "revert")
        session.add(part)
        found = loaded.node(part).name
        _audit(session, actor, "confirm", name, found, now)
        return found


def _chosen(loaded: Loaded, able: Sequence[CampaignNode], node: str) -> CampaignNode:
    by_name = {loaded.node(part).name: part for part in able}
    if node:
        if node not in by_name:
            raise Invalid(f"Node {node!r} cannot be rolled back.", f"These can: {', '.join(sorted(by_name)[:10])}.")
        return by_name[node]
    usual = [name for name in loaded.campaign.report.get("counted", ()) if name in by_name]
    return by_name[usual[0] if usual else min(by_name)]


def _measure_again(part: CampaignNode, now: datetime) -> None:
    """Jobs of the side under way were cancelled with the campaign: they are made anew."""
    again = {"baseline": "waiting", "measuring": "upgrading"}
    if part.state in again:
        part.state, part.state_at = again[part.state], now


def _requests(session: Session, loaded: Loaded) -> list[int]:
    query = select(col(Request.id)).where(
        col(Request.project_id) == loaded.campaign.project_id,
        col(Request.kind) == "campaign",
        col(Request.idempotency_key).startswith(f"campaign:{loaded.campaign.id}:", autoescape=True),
    )
    return [one or 0 for one in session.scalars(query.order_by(col(Request.id)))]


def by_name(session: Session, name: str) -> Campaign:
    """Raises :class:`NotFound` with the names there are."""
    found = session.scalars(select(Campaign).where(col(Campaign.name) == name)).one_or_none()
    if found is None:
        known = session.scalars(select(col(Campaign.name)).order_by(col(Campaign.id).desc()).limit(8)).all()
        hint = f"There are: {', '.join(known)}." if known else "Make one: groundspeed campaign create"
        raise NotFound(f"There is no campaign {name!r}.", hint)
    return found


def _loaded(session: Session, name: str) -> Loaded:
    loaded = state.load(session, by_name(session, name).id or 0, hold=True)
    if loaded is None:
        raise NotFound(f"There is no campaign {name!r}.", "It may have been deleted with its project.")
    return loaded


def _audit(session: Session, actor: str, action: str, name: str, why: str, now: datetime) -> None:
    entry = AuditEntry(actor=actor, action=f"campaign.{action}", subject_type="campaign", subject_id=name, at=now)
    entry.data = {"why": why} if why else {}
    session.add(entry)


def decide(
    database: Database, name: str, action: str, now: datetime, *, actor: str, why: str = "", node: str = ""
) -> str:
    """One of the decisions by its name; returns what follows, in words."""
    if action == "approve":
        return f"{name} goes on to {approve(database, name, now, actor=actor, why=why)}."
    if action == "abort":
        return f"{name} was aborted; {abort(database, name, now, actor=actor, why=why)} jobs were cancelled."
    if action == "resume":
        return f"{name} is {resume(database, name, now, actor=actor, why=why)} again."
    if action == "confirm":
        return f"{confirm(database, name, now, actor=actor, node=node)} is rolled back and measured again."
    raise Invalid(f"{action!r} is no decision about a campaign.", "Use approve, abort, resume or confirm.")
