"""A campaign's nodes as the state machine sees them, and what a node's environment says about the change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.campaign_tables import Campaign, CampaignNode
from groundspeed.service.db.tables import Attempt, Environment, Node
from groundspeed.service.domain import environments as e
from groundspeed.service.domain.campaigns.machine import Environment as Standing
from groundspeed.service.domain.campaigns.machine import Measured, NodeView, Rules
from groundspeed.service.usecases import differences
from groundspeed.service.usecases.campaigns import sides
from groundspeed.service.usecases.locking import held

_HYGIENE = "Hygiene: "
MARK = "Campaign "
"""How the reason begins with which a campaign takes a node out of use."""


@dataclass(slots=True)
class Loaded:
    """Rows of one campaign, its nodes by id, and the facets of the environments that they are or were in."""

    campaign: Campaign
    parts: list[CampaignNode]
    nodes: dict[int, Node]
    facets: dict[int, tuple[e.Facet, ...]]

    def node(self, part: CampaignNode) -> Node:
        return self.nodes[part.node_id]


def load(session: Session, campaign_id: int, *, hold: bool = False) -> Loaded | None:
    """``hold``: for a change; the campaign's row is then held until the transaction ends."""
    query = select(Campaign).where(col(Campaign.id) == campaign_id)
    campaign = session.scalars(held(query) if hold else query).one_or_none()
    if campaign is None:
        return None
    query_parts = select(CampaignNode).where(col(CampaignNode.campaign_id) == campaign_id)
    parts = list(session.scalars(query_parts.order_by(col(CampaignNode.wave), col(CampaignNode.id))))
    ids = [part.node_id for part in parts]
    nodes = {node.id or 0: node for node in session.scalars(select(Node).where(col(Node.id).in_(ids)))}
    wanted = {n.environment_id for n in nodes.values()}
    wanted |= {p.before_environment_id for p in parts} | {p.after_environment_id for p in parts}
    return Loaded(campaign, parts, nodes, facets_of(session, wanted))


def facets_of(session: Session, ids: Iterable[int | None]) -> dict[int, tuple[e.Facet, ...]]:
    query = select(Environment).where(col(Environment.id).in_({one for one in ids if one is not None}))
    return {row.id or 0: differences.facets(row.facets) for row in session.scalars(query)}


def rules(campaign: Campaign) -> Rules:
    """What was asked for when the campaign was made."""
    plan = campaign.plan
    return Rules(
        plan["hold"],
        int(plan["max_lost"]),
        bool(plan["stop_on_no_go"]),
        float(plan["return_s"]),
        float(plan["measure_s"]),
    )


def standing(before: Sequence[e.Facet], now: Sequence[e.Facet], wanted: Mapping[str, str]) -> Standing:
    """Where a node's environment stands: *wanted* when every facet that is to change has its value; *wrong* when one
    of them has changed into something else; lost settings and anything besides do not decide this.
    """
    old, new = _by_name(before), _by_name(now)
    if all(e.matches(new.get(name), value) for name, value in wanted.items()):
        return "wanted"
    moved = [name for name in wanted if name in new and new[name] is not None and new[name] != old.get(name)]
    off = [name for name in moved if not e.matches(new[name], wanted[name])]
    return "wrong" if off else "same"


def _by_name(found: Iterable[e.Facet]) -> dict[str, str | None]:
    return {facet.name: facet.value for facet in found}


def side_effects(
    before: Sequence[e.Facet], after: Sequence[e.Facet], wanted: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """In words: settings that were lost, and what else is different."""
    _, lost, other = e.explain_upgrade(before, after, wanted)
    gone = [change for change in lost if change.kind != "unknown"]
    # A setting that cannot be read may have been lost; anything else that is unknown on both sides is no news.
    unread = [change for change in lost if change.kind == "unknown"]
    rest = [change for change in other if change.kind != "unknown" or (change.before is None) != (change.after is None)]
    return e.collapse(gone), e.collapse([*rest, *unread])


def views(session: Session, loaded: Loaded, now: datetime, silent_s: float) -> list[NodeView]:
    """Each node as the rules see it; one is away after ``silent_s`` seconds without a sign of life."""
    busy = _busy(session, [part.node_id for part in loaded.parts])
    asked = {
        part.id or 0: part.jobs.get(sides.STAGE[part.state], []) for part in loaded.parts if part.state in sides.STAGE
    }
    measured = sides.measured(session, asked)
    return [
        _view(loaded, part, part.node_id in busy, measured.get(part.id or 0, ("no", "")), now, silent_s)
        for part in loaded.parts
    ]


def _view(
    loaded: Loaded, part: CampaignNode, busy: bool, how_far: tuple[Measured, str], now: datetime, silent_s: float
) -> NodeView:
    node = loaded.node(part)
    here = loaded.facets.get(node.environment_id or 0, ())
    before = loaded.facets.get(part.before_environment_id or 0, here)
    measured, why = how_far
    hygiene = node.state_reason if node.state_reason.startswith(_HYGIENE) and node.state == "quarantined" else ""
    out = node.state != "active" and not hygiene and not node.state_reason.startswith(MARK)
    return NodeView(
        name=node.name,
        wave=part.wave,
        state=part.state,  # type: ignore[arg-type]
        in_state_s=(now - part.state_at).total_seconds(),
        fresh=node.seen_at is not None and now - node.seen_at < timedelta(seconds=silent_s),
        busy=busy,
        hygiene=hygiene,
        refused=f"it is {node.state}: {node.state_reason}" if out else "",
        environment=standing(before, here, loaded.campaign.wanted),
        measured=measured,
        measured_why=why,
        hook=part.hook.get("state", ""),
        hook_why=part.hook.get("why", ""),
        repaired=bool(part.lost) and not side_effects(before, here, loaded.campaign.wanted)[0],
    )


def _busy(session: Session, ids: Sequence[int]) -> set[int]:
    query = select(col(Attempt.node_id)).where(col(Attempt.node_id).in_(ids), col(Attempt.state) == "running")
    return set(session.scalars(query))
