"""What a campaign has shown: the fleet's verdict, and every node that is to be named, with why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from groundspeed.service.domain.campaigns.evidence import Evidence
from groundspeed.service.domain.fleet.cells import Bools, FleetData, Floats, cells
from groundspeed.service.domain.fleet.effects import node_changes
from groundspeed.service.domain.fleet.outliers import Outlier, outliers
from groundspeed.service.domain.fleet.verdict import FleetConfig, FleetVerdict, MetricVerdict, judge

Area = Literal["compute", "memory", "link", "thermals", "other"]
_AREAS: tuple[tuple[Area, tuple[str, ...]], ...] = (
    ("thermals", ("temperature", "thermal", "power", "throttle", "clock_mhz")),
    ("link", ("collective", "nccl", "p2p", "bus_bandwidth", "all_reduce", "all_gather", "distributed", "link")),
    ("memory", ("memory", "copy", "stream", "hbm", "bandwidth")),
    ("compute", ("gemm", "matmul", "flop", "training", "inference", "step", "throughput")),
)  # fmt: skip
MEASURED = frozenset({"measured", "reverting", "again", "confirmed"})


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """``lost``: settings that a reboot lost; ``other``: further differences in its environment; ``group``: its
    hardware class.
    """

    name: str
    state: str
    group: str = ""
    lost: tuple[str, ...] = ()
    other: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Odd:
    """A device that stands out. ``worse_by`` is relative to its peers' median (0.08: 8 % worse)."""

    node: str
    device: str
    metric: str
    area: Area
    where: str
    worse_by: float
    q: float


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A node that is individually worse than the margin after the change; ``worsening`` is relative. ``alone``: no
    other node has been measured so far, so that there is nobody to disagree with.
    """

    node: str
    metric: str
    worsening: float
    margin: float
    alone: bool = False


@dataclass(frozen=True, slots=True)
class NodeChange:
    """How a node that does not count changed, in its worst metric; None: it could not be compared."""

    node: str
    metric: str
    worsening: float


@dataclass(frozen=True, slots=True)
class Conclusion:
    answer: str
    reason: str
    metrics: tuple[MetricVerdict, ...]
    counted: tuple[str, ...]
    left_out: Mapping[str, str]
    """Nodes that were measured and do not count, with why."""
    disagreements: tuple[Disagreement, ...] = ()
    odd: tuple[Odd, ...] = ()
    shifted: tuple[NodeChange, ...] = ()
    """Of those left out: their own change in their worst metric."""
    common: tuple[str, ...] = ()
    """What else changed on every node together with what was wanted: it cannot be told apart."""
    confirmation: str = ""
    config: FleetConfig = field(default_factory=FleetConfig)


def area_of(metric: str) -> Area:
    """What a metric is about, by its name.

    >>> area_of("fabric: bus_bandwidth"), area_of("gemm: throughput")
    ('link', 'compute')
    """
    low = metric.lower()
    return next((area for area, words in _AREAS if any(word in low for word in words)), "other")


def conclude(evidence: Evidence, facts: Sequence[NodeFacts], config: FleetConfig | None = None) -> Conclusion:
    """Judge what is there so far. ``facts`` in the order of the evidence's nodes."""
    config = config or FleetConfig()
    common = _common(facts)
    left_out = {f.name: why for f in facts if (why := _why_not(f, common))}
    counted = np.array([f.state in MEASURED and f.name not in left_out for f in facts], bool)
    groups = {name: i for i, name in enumerate(dict.fromkeys(f.group for f in facts))}
    data = evidence.data
    group = np.array([groups[f.group] for f in facts], np.int64)[data.node] if data.node.size else data.node
    verdict = judge(data, config, counted=counted, group=group)
    names = [metric.name for metric in data.metrics]
    return Conclusion(
        answer=verdict.answer,
        reason=verdict.reason,
        metrics=verdict.metrics,
        counted=tuple(f.name for f, yes in zip(facts, counted, strict=True) if yes),
        left_out=left_out,
        disagreements=_disagreements(verdict, evidence, names, counted),
        odd=tuple(
            odd
            for one in verdict.outliers
            if _is_standing(one, verdict, data)
            and ((odd := _odd(one, evidence, names)).node not in left_out or one.where in {"always", "before"})
        ),
        shifted=_shifted(data, evidence.nodes, names, left_out),
        common=common,
        confirmation=_confirmation(evidence, facts, verdict),
        config=config,
    )


def stragglers(
    data: FleetData, nodes: Sequence[str], devices: Sequence[str], group: Sequence[int], fdr: float = 0.05
) -> tuple[Odd, ...]:
    """Devices that stand out among those of their model, without any change: ``data.before`` alone counts."""
    table = cells(FleetData(data.node, data.metrics, data.before, np.full_like(data.before, np.nan)))
    found = outliers(table, data.margins, group=np.asarray(group, np.int64), fdr=fdr)
    return tuple(
        Odd(
            nodes[int(data.node[one.device])], devices[one.device], data.metrics[one.metric].name,
            area_of(data.metrics[one.metric].name), "always", math.expm1(one.worse_by), one.q,
        )
        for one in found
    )  # fmt: skip


def _common(facts: Sequence[NodeFacts]) -> tuple[str, ...]:
    """Further differences that most measured nodes share."""
    measured = [f for f in facts if f.state in MEASURED]
    counts = Counter(change for f in measured for change in f.other)
    return tuple(sorted(change for change, n in counts.items() if 2 * n > len(measured)))


def _why_not(facts: NodeFacts, common: tuple[str, ...]) -> str:
    if facts.lost:
        return f"it came back with settings lost: {'; '.join(facts.lost)}"
    extra = [change for change in facts.other if change not in common]
    if extra and facts.state in MEASURED:
        return f"it came back with something else changed: {'; '.join(extra)}"
    return ""


def _disagreements(
    verdict: FleetVerdict, evidence: Evidence, names: Sequence[str], counted: Bools
) -> tuple[Disagreement, ...]:
    """Nodes that are worse by more than the margin, and by more than that worse than the middle of the others.

    Where all became worse alike no node disagrees: that is the fleet's own effect.
    """
    margins = evidence.data.margins
    change, _, _ = node_changes(cells(evidence.data), evidence.data.node, counted=counted.astype(float))
    found = []
    for node, metric, worse in sorted(verdict.bad_nodes, key=lambda bad: -bad[2]):
        others = np.delete(change[:, metric], node)
        others = others[np.isfinite(others)]
        if not others.size or worse - float(np.median(others)) > math.log1p(margins[metric]):
            name, margin = evidence.nodes[node], float(margins[metric])
            found.append(Disagreement(name, names[metric], math.expm1(worse), margin, not others.size))
    return tuple(found)


def _is_standing(one: Outlier, verdict: FleetVerdict, data: FleetData) -> bool:
    """A device of a node that is named as a whole is not named again for the same metric's change."""
    node = int(data.node[one.device])
    return one.where != "change" or (node, one.metric) not in {(n, m) for n, m, _ in verdict.bad_nodes}


def _odd(one: Outlier, evidence: Evidence, names: Sequence[str]) -> Odd:
    node = evidence.nodes[int(evidence.data.node[one.device])]
    name = names[one.metric]
    return Odd(node, evidence.devices[one.device], name, area_of(name), one.where, math.expm1(one.worse_by), one.q)


def _shifted(
    data: FleetData, nodes: Sequence[str], names: Sequence[str], left_out: Mapping[str, str]
) -> tuple[NodeChange, ...]:
    change, _, _ = node_changes(cells(data), data.node)
    out = []
    for index, name in enumerate(nodes[: change.shape[0]]):
        row = change[index]
        if name in left_out and np.isfinite(row).any():
            worst = int(np.nanargmax(row))
            out.append(NodeChange(name, names[worst], math.expm1(float(row[worst]))))
    return tuple(out)


def _confirmation(evidence: Evidence, facts: Sequence[NodeFacts], verdict: FleetVerdict) -> str:
    """A-B-A: what the effect did on the node that was rolled back, in the metric that moved most there."""
    back = [i for i, f in enumerate(facts) if f.state == "confirmed"]
    if not back or not verdict.metrics:
        return ""
    there = cells(evidence.data)
    forth, spread, _ = node_changes(there, evidence.data.node)
    reverted = cells(FleetData(evidence.data.node, evidence.data.metrics, evidence.data.before, evidence.again))
    rest, rest_spread, _ = node_changes(reverted, evidence.data.node)
    return "; ".join(_told(evidence, i, (forth[i], spread[i]), (rest[i], rest_spread[i])) for i in back)


def _told(evidence: Evidence, node: int, there: tuple[Floats, Floats], back: tuple[Floats, Floats]) -> str:
    (forth, spread), (rest, rest_spread) = there, back
    both = np.isfinite(forth) & np.isfinite(rest)
    name = evidence.nodes[node]
    if not both.any():
        return f"{name} was rolled back, and nothing could be compared"
    strength = np.where(both, np.abs(forth) / np.sqrt(spread + 1e-18), -1.0)
    m = int(np.argmax(strength))
    metric = evidence.data.metrics[m].name
    words = f"{name}, {metric}: {math.expm1(forth[m]):+.2%} worse with the change, "
    words += f"{math.expm1(rest[m]):+.2%} when rolled back"
    noise = 3 * math.sqrt(float(spread[m] + rest_spread[m]))
    if abs(forth[m]) <= noise:
        return f"{words}: there was no effect to confirm on this node"
    gone = abs(rest[m]) <= max(noise, 0.5 * abs(forth[m]))
    return f"{words}: the effect {'is gone, so it was the change' if gone else 'stays, so it was not the change'}"
