"""Go, no-go, or not enough evidence: the answer of a campaign, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from groundspeed.service.domain.fleet.cells import Bools, FleetData, Floats, Ints, cells
from groundspeed.service.domain.fleet.effects import Effect, effect_of, node_changes
from groundspeed.service.domain.fleet.outliers import Outlier, benjamini_hochberg, outliers

Answer = Literal["go", "no-go", "not-enough-evidence"]


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """``alpha``: chance of a wrong *go* per campaign at an effect of the margin, and of a wrong *no-go* over all
    metrics at no effect. ``bad_share``: share of nodes that may individually be worse by more than the margin; when
    the share is larger beyond chance (lower bound at alpha), the answer is *no-go* whatever the mean says.
    ``fdr``: false-discovery rate of named devices and nodes.
    """

    alpha: float = 0.05
    fdr: float = 0.05
    bad_share: float = 0.05


@dataclass(frozen=True, slots=True)
class MetricVerdict:
    """``worsening`` and its bounds are relative (0.02 = 2 % worse), one-sided at alpha each way."""

    metric: str
    answer: Answer
    worsening: float
    low: float
    high: float
    margin: float
    p_adjusted: float
    nodes: int
    spread: float
    reason: str


@dataclass(frozen=True, slots=True)
class FleetVerdict:
    """The campaign's answer. ``bad_nodes`` are node indices that are individually worse than the margin."""

    answer: Answer
    reason: str
    metrics: tuple[MetricVerdict, ...]
    outliers: tuple[Outlier, ...]
    bad_nodes: tuple[tuple[int, int, float], ...]
    """(node, metric, log worsening), at the stated false-discovery rate."""


def judge(
    data: FleetData, config: FleetConfig | None = None, *, counted: Bools | None = None, group: Ints | None = None
) -> FleetVerdict:
    """Judge a change from measurements before and after on the same devices.

    *go* needs every metric's upper bound below its margin (an intersection-union test: each at alpha, no correction
    needed; Berger 1982). *no-go* needs one metric whose worsening is real after Holm's correction over the metrics and
    at least its margin, or too many nodes that are individually worse. Everything else is *not enough evidence*.
    ``counted`` (N,): nodes that say something about the change. ``group`` (D,): hardware class of each device; a
    device's peers are those of its class.
    """
    config = config or FleetConfig()
    table = cells(data)
    weights = None if counted is None else counted.astype(float)
    change, variance, _ = node_changes(table, data.node, counted=weights)
    confidence = 1 - 2 * config.alpha
    effects = [effect_of(change[:, m], variance[:, m], confidence=confidence) for m in range(change.shape[1])]
    adjusted = holm([e.p_worse for e in effects])
    bad = _bad_nodes(change, variance, effects, data.margins, config.fdr)
    verdicts = tuple(_metric(data, m, effect, adjusted[m], bad, config) for m, effect in enumerate(effects))
    device_counted = None if counted is None else counted[data.node]
    odd = outliers(table, data.margins, group=group, fdr=config.fdr, counted=device_counted)
    answer, reason = _overall(verdicts)
    return FleetVerdict(answer, reason, verdicts, odd, bad)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the order given (Holm 1979)."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    out = [1.0] * len(p)
    largest = 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p) - rank) * p[i]))
        out[i] = largest
    return out


def _bad_nodes(
    change: Floats, variance: Floats, effects: Sequence[Effect], margins: Floats, fdr: float
) -> tuple[tuple[int, int, float], ...]:
    """Nodes whose own change exceeds the margin beyond replication noise and the fleet's ordinary spread."""
    limit = np.log1p(margins)[None, :]
    ordinary = np.array([e.spread if math.isfinite(e.spread) else 0.0 for e in effects])[None, :]
    if change.shape[0] < _FEW:
        ordinary = _spread_of_others(change, variance)
    with np.errstate(invalid="ignore"):
        z = (change - limit) / np.sqrt(variance + ordinary**2 + 1e-18)
    q = benjamini_hochberg(np.where(np.isfinite(z), special.stdtr(5, -z), np.nan))
    hits = np.argwhere(q <= fdr)
    return tuple((int(n), int(m), float(change[n, m])) for n, m in hits)


_FEW = 24
"""Of fewer nodes, one that is far off makes up much of the spread that it would be held against."""


def _spread_of_others(change: Floats, variance: Floats) -> Floats:
    """For each node and metric (N, M): the spread of the other nodes' changes beyond replication noise."""
    out = np.zeros(change.shape)
    for n, m in np.argwhere(np.isfinite(change)):
        others = np.isfinite(change[:, m])
        others[n] = False
        if np.count_nonzero(others) > 1:
            beyond = np.var(change[others, m], ddof=1) - np.mean(variance[others, m])
            out[n, m] = math.sqrt(max(0.0, float(beyond)))
    return out


def _metric(
    data: FleetData,
    m: int,
    effect: Effect,
    p_adjusted: float,
    bad: tuple[tuple[int, int, float], ...],
    config: FleetConfig,
) -> MetricVerdict:
    metric = data.metrics[m]
    worse, low, high = (math.expm1(v) if math.isfinite(v) else v for v in (effect.centre, effect.low, effect.high))
    count = len({n for n, k, _ in bad if k == m})
    answer, reason = _answer(effect, p_adjusted, worse, high, count, metric.margin, config)
    return MetricVerdict(
        metric.name, answer, worse, low, high, metric.margin, p_adjusted, effect.nodes, effect.spread, reason
    )


def _answer(
    effect: Effect, p: float, worse: float, high: float, bad: int, margin: float, config: FleetConfig
) -> tuple[Answer, str]:
    if effect.nodes < 3:
        there = "1 node was" if effect.nodes == 1 else f"{effect.nodes} nodes were"
        return "not-enough-evidence", f"{there} measured on both sides; at least 3 are needed"
    if p <= config.alpha and worse >= margin:
        return "no-go", f"worse by {worse:.2%} over {effect.nodes} nodes, at least the margin of {margin:.2%}"
    if _share_at_least(bad, effect.nodes, config.alpha) > config.bad_share:
        return "no-go", f"{bad} of {effect.nodes} nodes are individually worse by more than {margin:.2%}"
    if high < margin:
        real = " (real, but within the margin)" if p <= config.alpha else ""
        return "go", f"worse by at most {high:.2%}{real}, the margin is {margin:.2%}"
    return "not-enough-evidence", f"could be worse by up to {high:.2%}, the margin is {margin:.2%}: measure more"


def _share_at_least(bad: int, nodes: int, alpha: float) -> float:
    """One-sided lower bound of a share (Clopper & Pearson 1934): two broken nodes of 24 do not condemn a driver."""
    return float(special.betaincinv(bad, nodes - bad + 1, alpha)) if bad else 0.0


def _overall(verdicts: tuple[MetricVerdict, ...]) -> tuple[Answer, str]:
    if not verdicts:
        return "not-enough-evidence", "nothing was compared"
    for answer in ("no-go", "not-enough-evidence"):
        named = [v for v in verdicts if v.answer == answer]
        if named:
            return ("no-go" if answer == "no-go" else "not-enough-evidence"), "; ".join(
                f"{v.metric}: {v.reason}" for v in named[:5]
            )
    return "go", f"all {len(verdicts)} metrics are within their margins"
