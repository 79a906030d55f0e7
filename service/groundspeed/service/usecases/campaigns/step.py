"""One step of every campaign that is under way: what has happened is noted, what is due begins."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.campaign_tables import Campaign, CampaignNode
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Event, Node
from groundspeed.service.domain.campaigns import machine
from groundspeed.service.domain.campaigns.machine import Findings, Move, NodeView
from groundspeed.service.usecases import outbox, topics
from groundspeed.service.usecases.campaigns import report, sides, state
from groundspeed.service.usecases.campaigns.state import MARK, Loaded
from groundspeed.service.usecases.locking import held

_UNDER_WAY = ("running", "held")
_ROLLBACK = frozenset({"reverting", "again"})
MOST_MOVES = 50
"""Nodes that go on in one transaction: so long others wait."""
Version = tuple[object, ...]


def tick(database: Database, now: datetime, silent_s: float) -> int:
    """Take every campaign under way one step on; returns how many rows moved."""
    with database.read() as session:
        query = select(col(Campaign.id)).where(col(Campaign.state).in_((*_UNDER_WAY, "done", "aborted")))
        rolled = select(col(CampaignNode.campaign_id)).where(col(CampaignNode.state).in_(_ROLLBACK))
        open_ = col(Campaign.state).in_(_UNDER_WAY) | col(Campaign.id).in_(rolled) | col(Campaign.due)
        ids = list(session.scalars(query.where(open_).order_by(col(Campaign.id))))
    return sum(step(database, one or 0, now, silent_s) for one in ids)


def step(database: Database, campaign_id: int, now: datetime, silent_s: float) -> int:
    """One campaign's step; nothing is written when nothing has happened.

    Moves are one transaction. Where results are to be judged, that is done with nothing held, and what follows is
    saved in a second one, unless the campaign is another meanwhile: then the next step judges again.
    """
    if not _something(database, campaign_id, now, silent_s):
        return 0
    moved = 0
    while True:
        more, version = _move(database, campaign_id, now, silent_s)
        moved += more
        if version or more < MOST_MOVES:
            break
    judged = report.judge(database, campaign_id, now) if version else None
    return moved if judged is None else moved + _save(database, campaign_id, judged, version, now, silent_s)


def _something(database: Database, campaign_id: int, now: datetime, silent_s: float) -> bool:
    """Whether there is anything to write: looked at without holding the database."""
    with database.read() as session:
        loaded = state.load(session, campaign_id)
        if loaded is None:
            return False
        seen = state.views(session, loaded, now, silent_s)
        return any(_moves(loaded, seen)) or _to_judge(loaded, seen, 0)


def _move(database: Database, campaign_id: int, now: datetime, silent_s: float) -> tuple[int, Version]:
    """How many rows moved, and the version that is to be judged; empty: there is nothing to judge."""
    with database.transaction() as session:
        loaded = state.load(session, campaign_id, hold=True)
        if loaded is None:
            return 0, ()
        seen = state.views(session, loaded, now, silent_s)
        moved = _nodes(session, loaded, seen, now)
        if moved:
            seen = state.views(session, loaded, now, silent_s)
        if not _to_judge(loaded, seen, moved):
            return moved, ()
        if loaded.campaign.phase == machine.BASELINE:
            return moved + _decide(session, loaded, seen, Findings(), now), ()
        if loaded.campaign.state != "running":
            loaded.campaign.due = True  # the moves are not seen again
            session.add(loaded.campaign)
        return moved, _version(loaded)


def _save(
    database: Database, campaign_id: int, judged: report.Judged, version: Version, now: datetime, silent_s: float
) -> int:
    """Keep the report and do what follows from it; nothing where the campaign is not the one that was judged."""
    with database.transaction() as session:
        loaded = state.load(session, campaign_id, hold=True)
        if loaded is None or _version(loaded) != version:
            return 0
        loaded.campaign.report, loaded.campaign.due = judged.report, False
        session.add(loaded.campaign)
        seen = state.views(session, loaded, now, silent_s)
        if loaded.campaign.state == "running":
            return _decide(session, loaded, seen, judged.findings, now)
        _look_again(session, loaded, seen, judged.findings)
        return 1


def _to_judge(loaded: Loaded, seen: list[NodeView], moved: int) -> bool:
    """Whether the phase is over, or something has changed while the campaign stood still: a lost node is back,
    settings are, one was rolled back.
    """
    campaign = loaded.campaign
    over = machine.phase_over(seen, campaign.phase)
    if campaign.state == "running":
        return not moved and over
    return campaign.due or (moved > 0 and campaign.phase != machine.BASELINE and over)


def _version(loaded: Loaded) -> Version:
    """What a judgement rests on, besides results: it is another one when anybody has decided or any node has moved."""
    campaign = loaded.campaign
    parts = [(part.id, part.state, part.state_at, part.lost, part.other, part.jobs) for part in loaded.parts]
    return (campaign.state, campaign.phase, campaign.due, campaign.updated_at, parts)


def _look_again(session: Session, loaded: Loaded, seen: list[NodeView], findings: Findings) -> None:
    """Say anew why a held campaign is held."""
    campaign = loaded.campaign
    if campaign.state == "held":
        decision = machine.decide(seen, _notes(loaded, seen), campaign.phase, findings, state.rules(campaign))
        gone = ("nothing of what it was held for is left: approve it to go on",)
        campaign.reason = "\n".join(gone if decision.kind == "next" else decision.reasons)
        session.add(campaign)


def _moves(loaded: Loaded, seen: list[NodeView]) -> Iterator[tuple[CampaignNode, Move]]:
    """Nodes that go on, with where to; those that have not begun stay so while the campaign does not run."""
    campaign = loaded.campaign
    running = campaign.state == "running"
    for part, view in zip(loaded.parts, seen, strict=True):
        if running or view.state not in {"waiting", "ready"}:
            move = machine.node_move(view, campaign.phase if running else -1, state.rules(campaign))
            if move is not None:
                yield part, move


def _nodes(session: Session, loaded: Loaded, seen: list[NodeView], now: datetime) -> int:
    moves = list(islice(_moves(loaded, seen), MOST_MOVES))
    for part, move in moves:
        _apply(session, loaded, part, move, now)
    if moves:
        loaded.campaign.updated_at = now
        session.add(loaded.campaign)
    return len(moves)


def _apply(session: Session, loaded: Loaded, part: CampaignNode, move: Move, now: datetime) -> None:
    campaign, node = loaded.campaign, loaded.node(part)
    part.state, part.state_at, part.note = move.to, now, move.note
    if move.to == "baseline":
        part.before_environment_id = node.environment_id
    if move.to in {"measuring", "wrong", "dirty"}:
        _compare(loaded, part, node)
        take_back(session, node, now)
    if move.to in sides.STAGE:
        sides.start(session, campaign, part, node, sides.STAGE[move.to], now)
    if move.to == "again":
        take_back(session, node, now)
    if move.to == "draining":
        _take_out(session, campaign, node, now)
    if move.to == "upgrading":
        ask_hook(session, campaign, part, "change")
    if move.to == "failed" and part.hook.get("state") == "failed":
        take_back(session, node, now)
    if move.to == "lost" and node.state_reason.startswith(MARK):
        _set(session, node, "draining", f"{MARK}{campaign.name}: {move.note}; look at it, then take it back.", now)
    session.add(part)


def _compare(loaded: Loaded, part: CampaignNode, node: Node) -> None:
    """What the node came back with, besides what was wanted."""
    part.after_environment_id = node.environment_id
    before = loaded.facets.get(part.before_environment_id or 0, ())
    after = loaded.facets.get(node.environment_id or 0, ())
    lost, other = state.side_effects(before, after, loaded.campaign.wanted)
    part.lost, part.other = list(lost), list(other)


def _take_out(session: Session, campaign: Campaign, node: Node, now: datetime) -> None:
    """No further job for the node while it is changed."""
    _set(session, node, "draining", f"{MARK}{campaign.name}: it is being changed.", now)


def take_back(session: Session, node: Node, now: datetime) -> None:
    """Back into use, when it was a campaign that took it out."""
    if node.state == "draining" and node.state_reason.startswith(MARK):
        _set(session, node, "active", "", now)


def _set(session: Session, node: Node, to: str, reason: str, now: datetime) -> None:
    locked = session.scalars(held(select(Node).where(col(Node.id) == node.id))).one()
    if locked.state != to:
        title = f"{node.name}: {locked.state} → {to}"
        session.add(Event(kind="node", node_id=node.id, title=title, body=reason, at=now))
    locked.state, locked.state_reason = to, reason
    session.add(locked)


def ask_hook(session: Session, campaign: Campaign, part: CampaignNode, action: str) -> None:
    """Have the operator's hook called for this node; without one the service only waits."""
    name = str(campaign.plan.get("hook") or "")
    if not name:
        part.hook = {"action": action, "state": ""}
        return
    part.hook = {"action": action, "state": "asked", "name": name}
    session.add(part)
    session.flush()
    outbox.enqueue(session, topics.CAMPAIGN_HOOK, {"part_id": part.id})


def _decide(session: Session, loaded: Loaded, seen: list[NodeView], findings: Findings, now: datetime) -> int:
    """What follows at the end of a phase."""
    campaign = loaded.campaign
    decision = machine.decide(seen, _notes(loaded, seen), campaign.phase, findings, state.rules(campaign))
    if decision.kind == "next":
        campaign.phase += 1
    elif decision.kind == "hold":
        campaign.state, campaign.reason = "held", "\n".join(decision.reasons)
    else:
        campaign.state = "done" if decision.kind == "finish" else "aborted"
        campaign.reason, campaign.finished_at = "\n".join(decision.reasons), now
    campaign.updated_at = now
    session.add(campaign)
    _tell(session, loaded, decision, now)
    return 1


def _notes(loaded: Loaded, seen: list[NodeView]) -> dict[str, str]:
    return {view.name: part.note for view, part in zip(seen, loaded.parts, strict=True) if part.note}


def _tell(session: Session, loaded: Loaded, decision: machine.Decision, now: datetime) -> None:
    """A line in the history of the project, so that graphs show it."""
    campaign = loaded.campaign
    words = {"next": f"goes on to {machine.phase_name(campaign.phase)}", "hold": "is held", "abort": "was aborted"}
    title = f"Campaign {campaign.name} {words.get(decision.kind, 'has ended')}"
    body = "\n".join(decision.reasons)
    session.add(Event(kind="annotation", project_id=campaign.project_id, title=title, body=body, at=now))
