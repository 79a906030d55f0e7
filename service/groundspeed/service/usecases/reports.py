"""What a report of a run may say, and what is kept of its samples. Pure: nothing here touches the database."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from groundspeed.service.db.samples import pack
from groundspeed.service.wire.v1 import RunReport, Samples

MOST_METRICS = 500
MOST_REPLICATES = 100_000
MOST_TEXT = 1_000_000
"""Characters of JSON in one of evidence, facts and phases; the trace among the conditions may be eight times longer."""
LARGEST = 1e100
LONGEST_S = 30 * 86_400.0
LAST_YEAR_S = 32_503_680_000.0
_SIGNED = frozenset({"ratio", "counter"})
"""Kinds of metric that may be below zero; times, rates and bytes never are."""


class Declared(NamedTuple):
    """A parameter of a plugin; ``series`` False: it does not make another series."""

    name: str
    default: bool | int | float | str | None
    series: bool


@dataclass(frozen=True, slots=True)
class Expected:
    """What the job asked for: its benchmarks by key with the plugin of each, and its sides."""

    plugins: Mapping[str, str]
    sides: frozenset[int]


@dataclass(frozen=True, slots=True)
class Summary:
    """``value`` is the median of the valid samples (of the degraded when none is valid, of all when none is either;
    ``state`` says which), ``spread`` their median absolute deviation, both in the metric's unit.
    """

    value: float
    spread: float
    count: int
    state: str
    packed: bytes


def refusal(run: RunReport, expected: Expected) -> str | None:
    """Why this report cannot be kept, in words for the worker's log; None: it can."""
    key = run.key
    plugin = expected.plugins.get(key.benchmark)
    if key.side not in expected.sides:
        return f"the job has no side {key.side}, only {', '.join(map(str, sorted(expected.sides)))}"
    if plugin is None:
        return "the job has no benchmark of this key"
    if plugin != run.plugin:
        return f"the job asked for plugin {plugin!r}, the report is of {run.plugin!r}"
    if not 0 <= key.replicate < MOST_REPLICATES:
        return f"replicate {key.replicate} is outside 0 to {MOST_REPLICATES - 1}"
    return _times(run) or _texts(run) or _metrics(run)


def _times(run: RunReport) -> str | None:
    if not 0 < run.started_at < LAST_YEAR_S:
        return f"started_at {run.started_at!r} is no time in seconds since 1970"
    if not 0 <= run.duration_s <= LONGEST_S:
        return f"duration_s {run.duration_s!r} is not between 0 and {LONGEST_S:.0f}"
    for name, value in run.phases_s.items():
        if not 0 <= value <= LONGEST_S:
            return f"phase {name!r} of {value!r} s is not between 0 and {LONGEST_S:.0f}"
    return None


def _texts(run: RunReport) -> str | None:
    for name, value, most in (
        ("evidence", run.evidence, MOST_TEXT),
        ("facts", run.facts, MOST_TEXT),
        ("phases_s", run.phases_s, MOST_TEXT),
        ("conditions", run.conditions, 8 * MOST_TEXT),
    ):
        if value and _longer(value, most) < 0:
            return f"{name} holds more than {most} characters"
    if run.device_uuid is not None and len(run.device_uuid) > 200:
        return "device_uuid is longer than 200 characters"
    return None


def _longer(value: Any, left: int) -> int:
    """What is left of ``left`` characters after ``value``; negative: too long. Stops early, and at 64 levels."""
    stack: list[tuple[Any, int]] = [(value, 0)]
    while stack and left >= 0:
        item, depth = stack.pop()
        if depth > 64:
            return -1
        if isinstance(item, str):
            left -= len(item)
        elif isinstance(item, dict):
            left -= sum(map(len, item))
            stack += [(inner, depth + 1) for inner in item.values()]
        elif isinstance(item, (list, tuple)):
            stack += [(inner, depth + 1) for inner in item]
        elif isinstance(item, int) and not isinstance(item, bool):
            left -= item.bit_length() // 3
        left -= 1
    return left


def _metrics(run: RunReport) -> str | None:
    if len(run.samples) > MOST_METRICS:
        return f"{len(run.samples)} metrics are more than {MOST_METRICS}"
    seen = set()
    for samples in run.samples:
        identity = samples.metric, tuple(sorted(samples.params.items(), key=lambda item: item[0]))
        if identity in seen:
            return f"metric {samples.metric!r} stands twice with the same parameters {dict(samples.params)}"
        seen.add(identity)
        why = _values(samples) or _params(samples)
        if why:
            return f"metric {samples.metric!r}: {why}"
    return _params(run)


def _params(holder: RunReport | Samples) -> str | None:
    for name, value in holder.params.items():
        if isinstance(value, float) and not math.isfinite(value):
            return f"parameter {name!r} is {value!r}"
        if isinstance(value, int) and abs(value) >= 2**63:
            return f"parameter {name!r} is a number of more than 63 bits"
        if len(name) > 200 or (isinstance(value, str) and len(value) > 1000):
            return f"parameter {name[:40]!r} is too long"
    return None


def _values(samples: Samples) -> str | None:
    values = samples.values
    if not values:
        return "no samples"
    if samples.states and len(samples.states) != len(values):
        return f"{len(values)} samples and {len(samples.states)} states"
    if not all(map(math.isfinite, values)):
        bad = next(i for i, value in enumerate(values) if not math.isfinite(value))
        return f"sample {bad} is {values[bad]!r}"
    low, high = min(values), max(values)
    if high > LARGEST or low < -LARGEST:
        return f"a sample of {high if high > LARGEST else low!r} {samples.unit} is beyond reason"
    if low < 0 and samples.kind not in _SIGNED:
        return f"a {samples.kind} of {low!r} {samples.unit} cannot be"
    return None


def summarise(samples: Samples, *, usable: bool = True) -> Summary:
    """What is kept of checked samples. ``usable`` False: the run did not end well, so its numbers don't count."""
    values, state = _best(samples)
    centre = median(values)
    return Summary(
        value=float(centre),
        spread=float(median([abs(value - centre) for value in values])),
        count=len(values),
        state=state if usable else "rejected",
        packed=pack(samples.values, samples.states),
    )


def _best(samples: Samples) -> tuple[list[float] | tuple[float, ...], str]:
    if not samples.states:
        return samples.values, "valid"
    for state in ("valid", "degraded"):
        chosen = [value for value, own in zip(samples.values, samples.states, strict=True) if own == state]
        if chosen:
            return chosen, state
    return samples.values, "rejected"


def series_params(params: Mapping[str, Any], own: Mapping[str, Any], declared: Sequence[Declared]) -> dict[str, Any]:
    """The parameters that make the series: the plugin's that count (defaults filled in), and the metric's ``own``."""
    skipped = {one.name for one in declared if not one.series}
    defaults = {one.name: one.default for one in declared if one.series and one.default is not None}
    chosen = {name: value for name, value in params.items() if name not in skipped}
    return {**defaults, **chosen, **own}
