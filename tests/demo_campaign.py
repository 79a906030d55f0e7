"""A campaign that is held at a hold point, written as rows: for tests and screenshots of its pages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select

from groundspeed.service.db import tables as t
from groundspeed.service.db.campaign_tables import Campaign, CampaignNode
from groundspeed.service.db.engine import Database

NOW = datetime(2026, 3, 20, 12, 0, tzinfo=UTC)
NAME = "driver-580"


def metric(name: str, answer: str, worsening: float | None, **more: Any) -> dict[str, Any]:
    return {
        "metric": name, "unit": "B/s", "direction": 1, "kind": "rate", "answer": answer, "worsening": worsening,
        "low": -0.001, "high": 0.004, "margin": 0.01, "p_adjusted": 0.4, "nodes": 2, "spread": 0.001,
        "reason": "worse by at most 0.40%, the margin is 1.00%", **more,
    }  # fmt: skip


def add(db: Database, slug: str = "tinygpt") -> str:
    """On the project's newest commit and all nodes that there are; its name."""
    with db.transaction() as session:
        project = session.scalars(select(t.Project).where(t.Project.slug == slug)).one()
        newest = select(t.Revision).where(t.Revision.project_id == project.id).order_by(t.Revision.id.desc())
        revision = session.scalars(newest.limit(1)).one()
        nodes = session.scalars(select(t.Node).order_by(t.Node.id)).all()
        campaign = Campaign(
            name=NAME, project_id=project.id, revision_id=revision.id, state="held", phase=1, actor="ada",
            reason="gpu-01: it came back with settings lost: node gpu0.persistence: True → False",
            wanted={"gpu.driver": "580"}, plan=plan(), created_at=NOW, updated_at=NOW,
        )  # fmt: skip
        campaign.report = report([node.name for node in nodes])
        session.add(campaign)
        session.flush()
        session.add_all(
            CampaignNode(
                campaign_id=campaign.id, node_id=node.id, wave=1 + (i > 0), state="measured" if i == 0 else "ready",
                state_at=NOW, lost=["node gpu0.persistence: True → False"] if i == 0 else [],
            )
            for i, node in enumerate(nodes)
        )  # fmt: skip
    return NAME


def plan() -> dict[str, Any]:
    return {
        "canary": 1, "waves": [0.5, 1.0], "replicates": 3, "margin": 0.01, "margins": {"bus_bandwidth": 0.02},
        "hold": "auto", "max_lost": 1, "stop_on_no_go": True, "return_s": 3600.0, "measure_s": 21600.0,
        "fresh_s": 86400.0, "hook": "", "price": 12.0, "currency": "EUR", "note": "Before the <move> to CUDA 13",
        "suites": [{"name": "fabric", "scope": "fabric"}], "sha": "", "config": {},
    }  # fmt: skip


def report(names: list[str]) -> dict[str, Any]:
    lost = names[0] if names else "gpu-01"
    return {
        "version": 1, "judged_at": NOW.isoformat(), "answer": "not-enough-evidence",
        "reason": "fabric: bus_bandwidth: 0 nodes were measured on both sides; at least 3 are needed",
        "metrics": [
            metric("fabric: bus_bandwidth", "go", 0.001),
            metric("fabric: latency", "not-enough-evidence", None, low=None, high=None, spread=None),
        ],
        "counted": [], "left_out": {lost: "it came back with settings lost: node gpu0.persistence: True → False"},
        "disagreements": [], "common": ["node kernel: 6.8 → 6.11"], "confirmation": "", "processes": 12, "devices": 3,
        "odd": [{"node": lost, "device": "gpu1 (GPU-1)", "metric": "gemm: throughput", "area": "compute",
                 "where": "always", "worse_by": 0.08, "q": 0.001}],
        "shifted": [{"node": lost, "metric": "fabric: bus_bandwidth", "worsening": 0.094}],
        "costs": [{"metric": "train: throughput", "unit": "million samples", "currency": "EUR",
                   "before": {"money": 1.0, "energy_kwh": 0.2}, "after": {"money": 1.1, "energy_kwh": 0.2},
                   "money_change": 0.1, "energy_change": 0.0}],
        "changes": {lost: [0.094, None]}, "settings": {},
    }  # fmt: skip
