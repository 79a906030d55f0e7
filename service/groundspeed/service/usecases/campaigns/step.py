"""One step of every campaign that is under way: what has happened is noted, what is due begins."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.campaign_tables import Campaign, CampaignNode
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Event, Node
from groundspeed.service.domain.campaigns import machine
from groundspeed.service.domain.campaigns.machine import Findings, Move, NodeView
from groundspeed.service.usecases import outbox
from groundspeed.service.usecases.campaigns import report, sides, state
from groundspeed.service.usecases.campaigns.state import MARK, Loaded
from groundspeed.service.usecases.locking import held

HOOK = "groundspeed.control.campaign_hook"
_UNDER_WAY = ("running", "held")
_ROLLBACK = frozenset({"reverting", "again"})


def tick(database: Database, now: datetime, silent_s: float) -> int:
    """Take every campaign under way one step on; returns how many rows moved."""
    with database.read() as session:
        query = select(col(Campaign.id)).where(col(Campaign.state).in_((*_UNDER_WAY, "done", "aborted")))
        rolled = select(col(CampaignNode.campaign_id)).where(col(CampaignNode.state).in_(_ROLLBACK))
        open_ = col(Campaign.state).in_(_UNDER_WAY) | col(Campaign.id).in_(rolled)
        ids = list(session.scalars(query.where(open_).order_by(col(Campaign.id))))
    return sum(step(database, one or 0, now, silent_s) for one in ids)


def step(database: Database, campaign_id: int, now: datetime, silent_s: float) -> int:
    """One campaign's step, in one transaction; nothing when nothing has happened."""
    with database.transaction() as session:
        loaded = state.load(session, campaign_id, hold=True)
        if loaded is None:
            return 0
        moved = _nodes(session, loaded, now, silent_s)
        if loaded.campaign.state == "running" and not moved:
            moved += _phase(session, loaded, now, silent_s)
        elif moved and loaded.campaign.state != "running":
            _look_again(session, loaded, now, silent_s)
        return moved


def _look_again(session: Session, loaded: Loaded, now: datetime, silent_s: float) -> None:
    """Something has changed while the campaign stood still: a lost node is back, settings are, one was rolled back."""
    campaign = loaded.campaign
    seen = state.views(session, loaded, now, silent_s)
    if campaign.phase == machine.BASELINE or not machine.phase_over(seen, campaign.phase):
        return
    findings = report.judge(session, loaded, now)
    if campaign.state == "held":
        decision = machine.decide(seen, _notes(loaded, seen), campaign.phase, findings, state.rules(campaign))
        gone = ("nothing of what it was held for is left: approve it to go on",)
        campaign.reason = "\n".join(gone if decision.kind == "next" else decision.reasons)
        session.add(campaign)


def _nodes(session: Session, loaded: Loaded, now: datetime, silent_s: float) -> int:
    campaign = loaded.campaign
    phase = campaign.phase if campaign.state == "running" else -1
    moves = 0
    for part, view in zip(loaded.parts, state.views(session, loaded, now, silent_s), strict=True):
        if campaign.state != "running" and view.state in {"waiting", "ready"}:
            continue
        move = machine.node_move(view, phase, state.rules(campaign))
        if move is not None:
            _apply(session, loaded, part, move, now)
            moves += 1
    if moves:
        campaign.updated_at = now
        session.add(campaign)
    return moves


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
    outbox.enqueue(session, HOOK, {"part_id": part.id})


def _phase(session: Session, loaded: Loaded, now: datetime, silent_s: float) -> int:
    campaign = loaded.campaign
    seen = state.views(session, loaded, now, silent_s)
    if not machine.phase_over(seen, campaign.phase):
        return 0
    findings = Findings()
    if campaign.phase != machine.BASELINE:
        findings = report.judge(session, loaded, now)
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
