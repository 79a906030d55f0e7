"""Campaigns as they are shown; everything was judged before and is read here."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlmodel import Session, col

from groundspeed.service.db.campaign_tables import Campaign, CampaignNode
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Node, Project, Revision
from groundspeed.service.domain.campaigns.machine import FINAL, TROUBLE, phase_name
from groundspeed.service.usecases.campaigns import commands
from groundspeed.service.usecases.views import refs
from groundspeed.service.wire import campaigns as w

_ALIKE = {
    "always": "before and after alike",
    "before": "before the change only",
    "after": "after the change only",
    "change": "in its change",
}
_NEWEST = 200


def campaigns(database: Database, slug: str | None = None) -> w.CampaignList:
    """The newest campaigns, of all projects or of one."""
    with database.read() as session:
        query = select(Campaign, Project).join(Project, col(Project.id) == col(Campaign.project_id))
        if slug is not None:
            query = query.where(col(Project.slug) == slug)
        found = session.execute(query.order_by(col(Campaign.id).desc()).limit(_NEWEST)).tuples().all()
        counts = _counts(session, [campaign.id or 0 for campaign, _ in found])
        return w.CampaignList(rows=tuple(_row(c, p, counts.get(c.id or 0, Counter())) for c, p in found))


def _counts(session: Session, ids: list[int]) -> dict[int, Counter[str]]:
    query = (
        select(col(CampaignNode.campaign_id), col(CampaignNode.state), func.count())
        .where(col(CampaignNode.campaign_id).in_(ids))
        .group_by(col(CampaignNode.campaign_id), col(CampaignNode.state))
    )
    out: dict[int, Counter[str]] = {}
    for id_, state, count in session.execute(query).tuples():
        out.setdefault(id_, Counter())[state] = count
    return out


def _row(campaign: Campaign, project: Project, counts: Counter[str]) -> w.CampaignRow:
    return w.CampaignRow(
        name=campaign.name,
        project=refs.project_ref(project),
        wanted=campaign.wanted,
        state=campaign.state,
        phase=phase_name(campaign.phase),
        answer=str(campaign.report.get("answer", "")),
        reason=campaign.reason,
        nodes=counts.total(),
        done=sum(n for state, n in counts.items() if state in FINAL),
        created_at=campaign.created_at,
        finished_at=campaign.finished_at,
    )


def campaign(database: Database, name: str) -> w.CampaignPage:
    """One campaign with its report; raises :class:`NotFound`."""
    with database.read() as session:
        row = commands.by_name(session, name)
        project, revision = session.get_one(Project, row.project_id), session.get_one(Revision, row.revision_id)
        query = (
            select(CampaignNode, col(Node.name))
            .join(Node, col(Node.id) == col(CampaignNode.node_id))
            .where(col(CampaignNode.campaign_id) == row.id)
            .order_by(col(CampaignNode.wave), col(Node.name))
        )
        parts = session.execute(query).tuples().all()
    report: dict[str, Any] = row.report
    going_on = row.state in {"running", "held"}
    nodes = [_node(part, node, report, going_on=going_on) for part, node in parts]
    return w.CampaignPage(
        name=row.name,
        project=refs.project_ref(project),
        revision=refs.revision_ref(revision),
        wanted=row.wanted,
        note=str(row.plan.get("note", "")),
        actor=row.actor,
        state=row.state,
        phase=phase_name(row.phase),
        reasons=tuple(filter(None, row.reason.split("\n"))),
        created_at=row.created_at,
        updated_at=row.updated_at,
        finished_at=row.finished_at,
        rules=_rules(row.plan),
        answer=str(report.get("answer", "")),
        answer_reason=str(report.get("reason", "")),
        basis=_basis(report),
        judged_at=datetime.fromisoformat(report["judged_at"]) if report else None,
        findings=tuple(_findings(nodes, report)),
        common=tuple(report.get("common", ())),
        confirmation=str(report.get("confirmation", "")),
        metrics=tuple(_metric(one) for one in report.get("metrics", ())),
        odd=tuple(w.OddDevice(**{k: one[k] for k in w.OddDevice.model_fields}) for one in report.get("odd", ())),
        costs=tuple(_cost(one) for one in report.get("costs", ())),
        counts=dict(Counter(node.state for node in nodes)),
        phases=tuple(_phases(nodes)),
        nodes=tuple(sorted(nodes, key=lambda node: (node.state not in TROUBLE, node.counts or not node.lost))),
    )


def _basis(report: dict[str, Any]) -> str:
    if not report:
        return "nothing has been compared yet"
    counted = len(report["counted"])
    parts = (
        (counted, "node that counts", "nodes that count"),
        (report["devices"], "device or group of them", "devices or groups of them"),
        (len(report["metrics"]), "metric", "metrics"),
        (report["processes"], "process", "processes"),
    )
    return ", ".join(f"{n} {one if n == 1 else many}" for n, one, many in parts)


def _rules(plan: dict[str, Any]) -> dict[str, str]:
    waves = ", ".join(f"{share:.0%}" for share in plan["waves"])
    found = {
        "canary": f"{plan['canary']} nodes",
        "waves": f"{waves} of the rest",
        "replicates": f"{plan['replicates']} processes a side",
        "margin": ", ".join([f"{plan['margin']:.2%}", *(f"{n} {m:.2%}" for n, m in plan["margins"].items())]),
        "hold points": "go on by themselves where nothing was found" if plan["hold"] == "auto" else "wait for a person",
        "nodes that may be lost": str(plan["max_lost"]),
        "a no-go": "ends the campaign" if plan["stop_on_no_go"] else "is reported",
        "a node may be away for": f"{plan['return_s'] / 60:g} min",
        "hook": plan["hook"] or "none: the service waits to see the change",
    }
    suites = {f"suite {suite['name']}": f"on each {suite['scope']}" for suite in plan["suites"]}
    return found | {name: text.replace("each fabric", "pairs and rings of devices") for name, text in suites.items()}


WAITS_FOR = {
    "waiting": "waits for the node to be alive and fit",
    "baseline": "waits for its results before the change",
    "ready": "waits for its wave",
    "draining": "waits for its running jobs to end",
    "upgrading": "waits for its environment to change: for your tooling, or the hook",
    "measuring": "waits for its results after the change",
    "reverting": "waits for the environment of before",
    "again": "waits for its results in the environment of before",
}
"""What a node that stands in a state waits for, as the table in docs/campaigns.md says."""


def _node(part: CampaignNode, name: str, report: dict[str, Any], *, going_on: bool) -> w.CampaignNodeRow:
    changes = report.get("changes", {}).get(name, [])
    names = [metric["metric"] for metric in report.get("metrics", ())]
    found = [(value, metric) for value, metric in zip(changes, names, strict=False) if value is not None]
    worst = max(found, default=None)
    return w.CampaignNodeRow(
        name=name,
        wave=part.wave,
        phase=phase_name(part.wave),
        state=part.state,
        since=part.state_at,
        note=part.note or (WAITS_FOR.get(part.state, "") if going_on else ""),
        lost=tuple(part.lost),
        other=tuple(part.other),
        reused=part.reused,
        counts=name in report.get("counted", ()),
        worst=worst[1] if worst else "",
        worsening=worst[0] if worst else None,
        jobs=tuple(job for jobs in part.jobs.values() for job in jobs),
    )


def _findings(nodes: list[w.CampaignNodeRow], report: dict[str, Any]) -> list[str]:
    """One sentence for each thing that somebody should know of a node or a device."""
    shifted = {one["node"]: one for one in report.get("shifted", ())}
    said = [f"{node.name}: {node.note}." for node in nodes if node.state in TROUBLE and node.note]
    said += [f"{node.name} was left out: {node.note}." for node in nodes if node.state == "unfit"]
    for name, why in report.get("left_out", {}).items():
        text = f"{name} does not count: {why}"
        if name in shifted:
            text += f". {shifted[name]['metric']} is {_worse(shifted[name]['worsening'])} there"
        said.append(f"{text}.")
    said += [
        f"{one['node']}{': ' if one.get('alone') else ' disagrees with the fleet: '}"
        f"{one['metric']} is {_worse(one['worsening'])} after the change, with its settings as they were (margin "
        f"{one['margin']:.2%}){'; no other node has been measured yet' if one.get('alone') else ''}."
        for one in report.get("disagreements", ())
    ]
    said += [
        f"{one['node']} {one['device'] or 'as a whole'} is {one['worse_by']:.1%} worse than its peers in "
        f"{one['metric']} ({one['area']}), {_ALIKE[one['where']]}."
        for one in report.get("odd", ())
    ]
    return said


def _worse(worsening: float) -> str:
    return f"{abs(worsening):.1%} {'worse' if worsening >= 0 else 'better'}"


def _metric(one: dict[str, Any]) -> w.CampaignMetric:
    return w.CampaignMetric(**{name: one[name] for name in w.CampaignMetric.model_fields})


def _cost(one: dict[str, Any]) -> w.CostChange:
    return w.CostChange(
        metric=one["metric"],
        unit=one["unit"],
        currency=one["currency"],
        money_before=one["before"]["money"],
        money_after=one["after"]["money"],
        money_change=one["money_change"],
        energy_before_kwh=one["before"]["energy_kwh"],
        energy_after_kwh=one["after"]["energy_kwh"],
        energy_change=one["energy_change"],
    )


def _phases(nodes: list[w.CampaignNodeRow]) -> list[tuple[str, int, int]]:
    found = [("baseline", len(nodes), sum(node.state not in {"waiting", "baseline"} for node in nodes))]
    for wave in sorted({node.wave for node in nodes}):
        mine = [node for node in nodes if node.wave == wave]
        found.append((phase_name(wave), len(mine), sum(node.state in FINAL for node in mine)))
    return found
