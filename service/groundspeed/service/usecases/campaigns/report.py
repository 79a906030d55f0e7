"""Judge a campaign from what is there so far; what was found is kept: pages and exports read it, none analyses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Device
from groundspeed.service.domain.campaigns.conclude import Conclusion, NodeFacts, conclude
from groundspeed.service.domain.campaigns.cost import Side, change, per_million
from groundspeed.service.domain.campaigns.evidence import AFTER, BEFORE
from groundspeed.service.domain.campaigns.machine import Findings
from groundspeed.service.domain.fleet.cells import Floats, cells
from groundspeed.service.domain.fleet.effects import node_changes
from groundspeed.service.domain.fleet.verdict import FleetConfig
from groundspeed.service.usecases.campaigns.load import Line, Measurements, measurements
from groundspeed.service.usecases.campaigns.state import Loaded, load

VERSION = 1
_MOST = 2000
"""Lines of a kind that a report keeps."""


@dataclass(frozen=True, slots=True)
class Judged:
    """``report``: as it is stored; ``findings``: what a hold point looks at."""

    report: dict[str, Any]
    findings: Findings


def judge(database: Database, campaign_id: int, now: datetime) -> Judged | None:
    """Analyse the campaign's results; None: there is no such campaign. Nothing is held while it reads and computes."""
    with database.read() as session:
        loaded = load(session, campaign_id)
        if loaded is None:
            return None
        found = measurements(session, loaded)
        names = _device_names(session, loaded)
    facts = [
        NodeFacts(
            loaded.node(part).name, part.state, str(loaded.node(part).hardware_id or ""), tuple(part.lost),
            tuple(part.other),
        )
        for part in loaded.parts
    ]  # fmt: skip
    concluded = conclude(found.evidence, facts, FleetConfig(alpha=float(loaded.campaign.plan.get("alpha", 0.05))))
    shifted = {one.node: f" ({one.metric} {one.worsening:+.1%} worse)" for one in concluded.shifted}
    findings = Findings(
        concluded.answer,
        concluded.reason,
        _in_words(concluded),
        {node: why + shifted.get(node, "") for node, why in concluded.left_out.items()},
    )
    return Judged(as_json(loaded, found, names, concluded, now), findings)


def _in_words(concluded: Conclusion) -> dict[str, str]:
    """By node: what became individually worse there, of the node or of one of its devices."""
    words: dict[str, list[str]] = {}
    for one in concluded.disagreements:
        text = f"{one.metric} is {one.worsening:.1%} worse after the change, the margin is {one.margin:.1%}"
        words.setdefault(one.node, []).append(text)
    for odd in concluded.odd:
        if odd.where == "change":
            text = f"{odd.metric} is {odd.worse_by:.1%} worse than its peers in its change"
            words.setdefault(odd.node, []).append(text)
    return {node: "; ".join(texts) for node, texts in words.items()}


def as_json(
    loaded: Loaded, found: Measurements, names: Mapping[str, str], concluded: Conclusion, now: datetime
) -> dict[str, Any]:
    """The report as it is stored; numbers that are none become null. ``names``: of devices, by UUID."""
    odd = [{**asdict(one), "device": names.get(one.device, one.device)} for one in concluded.odd]
    return {
        "version": VERSION,
        "judged_at": now.isoformat(),
        "answer": concluded.answer,
        "reason": concluded.reason,
        "metrics": [_metric(line, m) for line, m in zip(found.lines, map(asdict, concluded.metrics), strict=True)],
        "counted": list(concluded.counted),
        "left_out": dict(concluded.left_out),
        "disagreements": [asdict(one) for one in concluded.disagreements][:_MOST],
        "odd": odd[:_MOST],
        "shifted": [asdict(one) for one in concluded.shifted],
        "common": list(concluded.common),
        "confirmation": concluded.confirmation,
        "costs": costs(loaded, found),
        "changes": _changes(found),
        "processes": found.processes,
        "devices": len(found.evidence.devices),
        "settings": asdict(concluded.config),
    }


def _metric(line: Line, verdict: dict[str, Any]) -> dict[str, Any]:
    """With bounds that are no numbers (nothing to compare yet) as null."""
    plain = {k: (v if not isinstance(v, float) or math.isfinite(v) else None) for k, v in verdict.items()}
    return {**plain, "unit": line.unit, "direction": line.metric.direction, "kind": line.kind}


def _device_names(session: Session, loaded: Loaded) -> dict[str, str]:
    """gpu3 (GPU-1234…) by UUID; several joined by +."""
    ids = [part.node_id for part in loaded.parts]
    query = select(col(Device.uuid), col(Device.index)).where(col(Device.node_id).in_(ids))
    return {uuid: f"gpu{index} ({uuid})" for uuid, index in session.execute(query).tuples()}


def _changes(found: Measurements) -> dict[str, list[float | None]]:
    """Each node's own worsening by metric (relative), in the order of ``metrics``."""
    table, _, _ = node_changes(cells(found.evidence.data), found.evidence.data.node)
    return {
        name: [round(math.expm1(v), 6) if math.isfinite(v) else None for v in table[i]]
        for i, name in enumerate(found.evidence.nodes[: table.shape[0]])
        if np.isfinite(table[i]).any()
    }


def costs(loaded: Loaded, found: Measurements) -> list[dict[str, Any]]:
    """Money and energy of a million units of every rate, before and after, as far as price and power are known."""
    out = []
    for m, line in enumerate(found.lines):
        unit = line.unit.removesuffix("/s")
        if line.kind != "rate" or unit == line.unit or unit in {"B", "FLOP", "bit"}:
            continue
        sides = [_side_cost(loaded, found, m, side) for side in (BEFORE, AFTER)]
        if None in sides:
            continue
        before, after = sides
        assert before is not None
        assert after is not None
        money, energy = change(per_million(before), per_million(after))
        if money is None and energy is None:
            continue
        out.append(
            {
                "metric": line.metric.name, "unit": f"million {unit}", "currency": loaded.campaign.plan["currency"],
                "before": asdict(per_million(before)), "after": asdict(per_million(after)),
                "money_change": money, "energy_change": energy,
            }
        )  # fmt: skip
    return out


def _side_cost(loaded: Loaded, found: Measurements, m: int, side: int) -> Side | None:
    """The median over nodes that were measured on both sides: of rate, power and price of one device."""
    data = found.evidence.data
    values = data.before if side == BEFORE else data.after
    both = np.isfinite(data.before[:, m]).any(axis=1) & np.isfinite(data.after[:, m]).any(axis=1)
    if not both.any():
        return None
    rate = float(np.median(_middle(values[both, m])))
    nodes = sorted(set(data.node[both].tolist()))
    watts = [found.power[n, side] for n in nodes if (n, side) in found.power]
    prices = [p for n in nodes if (p := _price(loaded, n, int(np.count_nonzero(data.node[both] == n)))) is not None]
    return Side(rate, float(np.median(watts)) if watts else None, float(np.median(prices)) if prices else None)


def _middle(rows: Floats) -> Floats:
    middle: Floats = np.nanmedian(rows, axis=1)
    return middle


def _price(loaded: Loaded, node: int, devices: int) -> float | None:
    """Per hour and device: what the campaign says, else the node's label ``price_per_hour``."""
    price = loaded.campaign.plan.get("price")
    if price is None:
        text = loaded.node(loaded.parts[node]).labels.get("price_per_hour", "")
        try:
            price = float(text)
        except ValueError:
            return None
    return float(price) / max(devices, 1)
