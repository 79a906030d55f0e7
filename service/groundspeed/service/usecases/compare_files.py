"""Two files (or folders) of results beside one another, whichever tools wrote them; nothing is stored."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import cast

from groundspeed.service.domain.compare import GateConfig, Verdict
from groundspeed.service.domain.compare import compare as judge
from groundspeed.service.errors import Invalid
from groundspeed.service.formats import asv, criterion, csv_table, detect
from groundspeed.service.formats.csv_table import ColumnMap
from groundspeed.service.formats.records import (
    STUMBLES,
    Grid,
    Item,
    Metric,
    Record,
    Refused,
    Scalar,
    Skipped,
    Where,
    sound,
    stumbled,
)
from groundspeed.service.formats.source import Document
from groundspeed.service.usecases import importing
from groundspeed.service.usecases.columns import columns
from groundspeed.service.usecases.import_sources import AsvTree, CriterionTree, Single, Sources, document_of
from groundspeed.service.usecases.import_tables import storable

THRESHOLDS = {"time": 0.03, "rate": 0.03, "bytes": 0.02, "ratio": 0.03, "counter": 0.01}
"""Smallest relative change that matters, by kind, unless the asker says."""
MIN_SAMPLES = 5
_REACH = 2.576 * 1.4826
"""A 99 % interval from median absolute deviations, were the noise normal."""

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Line:
    """One benchmark at one point of its parameters. ``base`` and ``head`` are medians; None: not measured there.

    ``basis`` says what the interval rests on: "processes", "samples" of one process, "spreads", or "" (none).
    """

    benchmark: str
    metric: str
    unit: str
    direction: int
    params: Mapping[str, Scalar]
    base: float | None
    head: float | None
    answer: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    basis: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    lines: tuple[Line, ...]
    skipped: tuple[str, ...]
    """What could not be used, with its place."""


@dataclass(slots=True)
class _Series:
    metric: Metric
    params: Mapping[str, Scalar]
    processes: list[tuple[float, ...]] = field(default_factory=list)
    spread: float = 0.0
    count: int = 1
    failed: str = ""


def compare(
    base: Path, head: Path, *, form: str = "", mapping: Sequence[str] = (), threshold: float | None = None
) -> Compared:
    """Everything in either; ``mapping`` says what the columns of tables are. Raises :class:`Invalid` when one of them
    holds no results at all, and for a format or a mapping that cannot be.
    """
    importing.check_format(form)
    how = _How(form, columns(mapping))
    skipped: list[str] = []
    left, right = (_read(path, how, skipped) for path in (base, head))
    for path, found in ((base, left), (head, right)):
        if not found:
            why = f" {skipped[0]}" if skipped else ""
            raise Invalid(f"There are no results in {path}.{why}", "Give a file or folder that `import` reads.")
    keys = list(dict.fromkeys([*left, *right]))
    return Compared(tuple(_line(key, left.get(key), right.get(key), threshold) for key in keys), tuple(skipped))


@dataclass(frozen=True, slots=True)
class _How:
    form: str
    mapping: ColumnMap | None

    def items(self, document: Document) -> Iterator[Item]:
        """What a file holds; raises :class:`Refused` when the first is asked for."""
        if detect.is_table(document, self.mapping, self.form):
            yield from csv_table.parse(document, self.mapping)
        else:
            yield from detect.parse(document, self.form)


def _read(path: Path, how: _How, skipped: list[str]) -> dict[Key, _Series]:
    found: dict[Key, _Series] = {}
    with Sources((path,)) as sources:
        for source in sources.find():
            for name, items in _parsed(source, how):
                try:
                    for item in sound(items):
                        if isinstance(item, Skipped):
                            skipped.append(f"{item.where}: {item.reason}")
                        for record in item.records() if isinstance(item, Grid) else _alone(item):
                            _add(found, record)
                except Refused as error:
                    skipped.append(str(error))
                except STUMBLES as error:
                    skipped.append(str(stumbled(error, Where(name))))
        skipped += map(str, sources.refused)
    return found


def _parsed(source: Single | AsvTree | CriterionTree, how: _How) -> Iterator[tuple[str, Iterator[Item]]]:
    if isinstance(source, CriterionTree):
        yield source.name, criterion.parse_tree(list(source.documents))
    elif isinstance(source, AsvTree):
        for path, name in source.files:
            yield name, asv.parse(document_of(path, name), source.tree)
    else:
        yield source.document.name, how.items(source.document)


def _alone(item: Record | Skipped) -> Iterator[Record]:
    if isinstance(item, Record):
        yield item


def _add(found: dict[Key, _Series], record: Record) -> None:
    key = (record.benchmark, json.dumps(storable(record.params), sort_keys=True), record.metric.name)
    series = found.setdefault(key, _Series(record.metric, record.params))
    if record.value is None or record.outcome != "ok":
        series.failed = record.reason or record.outcome
        return
    series.processes.append(record.samples or (record.value,))
    series.spread, series.count = record.spread, max(record.count, len(record.samples))


def _line(key: Key, base: _Series | None, head: _Series | None, threshold: float | None) -> Line:
    known = cast("_Series", base or head)
    metric = known.metric
    values = [median(map(median, s.processes)) if s is not None and s.processes else None for s in (base, head)]
    left, right = values
    if base is None or head is None or left is None or right is None:
        which = ("base", base) if left is None else ("head", head)
        why = f"failed: {which[1].failed}" if which[1] is not None and which[1].failed else "not measured"
        return Line(key[0], metric.name, metric.unit, metric.direction, known.params, left, right, "never-compared",
                    reason=f"{which[0]}: {why}")  # fmt: skip
    limit = threshold if threshold is not None else THRESHOLDS.get(metric.kind, 0.03)
    verdict, basis = _verdict(base, head, GateConfig(threshold=limit, direction=metric.direction, paired=False))
    return Line(
        key[0], metric.name, metric.unit, metric.direction, known.params, left, right, verdict.answer,
        ratio=right / left if left > 0 else None, low=_up(verdict.low), high=_up(verdict.high), basis=basis,
        reason=verdict.reason,
    )  # fmt: skip


def _verdict(base: _Series, head: _Series, config: GateConfig) -> tuple[Verdict, str]:
    if min(len(base.processes), len(head.processes)) >= 2:
        return judge(base.processes, head.processes, config), "processes"
    samples = [[(x,) for process in side.processes for x in process] for side in (base, head)]
    if min(map(len, samples)) >= MIN_SAMPLES:
        return judge(samples[0], samples[1], config), "samples"
    return _by_spread(base, head, config)


def _by_spread(base: _Series, head: _Series, config: GateConfig) -> tuple[Verdict, str]:
    """From the spreads that the tool kept, when it kept no samples: the way of ``asv compare``."""
    b, h = (median(side.processes[0]) for side in (base, head))
    nan = math.nan
    if not (base.spread and head.spread and b > 0 and h > 0):
        return Verdict("inconclusive", nan, nan, nan, nan, 1, 1.0, "none", "One value a side, without a spread."), ""
    relative = [s.spread / v / math.sqrt(s.count) for s, v in ((base, b), (head, h))]
    centre, half = math.log(h / b), _REACH * math.hypot(*relative)
    low, high, edge = centre - half, centre + half, math.log1p(config.threshold)
    answer = "inconclusive"
    if (low > 0 or high < 0) and abs(centre) >= edge:
        answer = (
            "changed" if not config.direction else "improved" if (centre > 0) == (config.direction > 0) else "regressed"
        )
    elif -edge <= low and high <= edge:
        answer = "unchanged"
    effect, low_, high_ = (math.expm1(x) for x in (centre, low, high))
    return Verdict(answer, effect, low_, high_, nan, 1, 1.0, "spread", ""), "spreads"  # type: ignore[arg-type]


def _up(effect: float) -> float | None:
    return 1 + effect if math.isfinite(effect) else None
