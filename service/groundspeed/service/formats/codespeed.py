"""codespeed's JSON: what clients post to ``/result/add/json/`` and what its database gives when exported the same
way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from groundspeed.service.formats.records import Fact, Item, Machine, Origin, Record, Skipped, Where, finite, number_of
from groundspeed.service.formats.source import Document, Lines, dict_of, loads, text_of
from groundspeed.service.formats.times import parse_time
from groundspeed.service.formats.units import metric as metric_of
from groundspeed.service.formats.units import parse_unit

NAME = "codespeed"


def sniff(head: str) -> bool:
    return '"commitid"' in head and '"result_value"' in head


def parse(document: Document) -> Iterator[Item]:
    text = document.text()
    rows = [(i + 1, row) for i, row in enumerate(text.split("\n")) if row.strip()]
    if len(rows) > 1 and all(row.strip().startswith("{") and row.strip().endswith("}") for _, row in rows[:100]):
        for line, row in rows:
            yield _result(dict_of(loads(row, document, line)), document.where(line))
        return
    doc, lines = loads(text, document), Lines(text)
    for i, entry in enumerate(doc if isinstance(doc, list) else [doc]):
        one = dict_of(entry)
        yield _result(one, document.where(lines.find("commitid"), f"/{i}"))


def _result(entry: Mapping[str, Any], where: Where) -> Item:
    name, raw = text_of(entry.get("benchmark")), entry.get("result_value")
    value = number_of(raw) if isinstance(raw, str) else finite(raw)
    if not name or value is None:
        return Skipped("has no benchmark or no result_value that is a number", where)
    unit = parse_unit(text_of(entry.get("units")) or "seconds")
    lower = entry.get("lessisbetter", True)
    metric = metric_of("value", unit, direction=-1 if lower else 1)
    commit = text_of(entry.get("commitid"))
    deviation = entry.get("std_dev")
    spread = (number_of(deviation) if isinstance(deviation, str) else finite(deviation)) or 0.0
    origin = Origin(
        tool=NAME,
        commit=commit.lower() if re.fullmatch(r"[0-9a-fA-F]{7,64}", commit) else commit[:64],
        committed_at=parse_time(entry.get("revision_date")),
        measured_at=parse_time(entry.get("result_date")),
        branch=text_of(entry.get("branch")),
        project=text_of(entry.get("project")),
        machine=Machine(name=text_of(entry.get("environment")), identity=True),
        environment=(Fact("build", "executable", text_of(entry.get("executable"))),) if entry.get("executable") else (),
    )
    params = {"executable": text_of(entry["executable"])} if entry.get("executable") else {}
    summary = {k: v * unit.factor for k in ("min", "max") if (v := finite(entry.get(k))) is not None}
    return Record(
        origin, name, metric, where, value * unit.factor, params, spread=abs(spread) * unit.factor, summary=summary
    )
