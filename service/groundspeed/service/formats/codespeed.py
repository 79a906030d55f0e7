"""codespeed's JSON: what clients post to ``/result/add/json/``, and a database as ``dumpdata`` writes it."""

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


_ROW = re.compile(r'"model":\s*"(?:codespeed\.\w+|contenttypes\.contenttype|auth\.permission|admin\.logentry)"')
_NAMED = ("project", "branch", "revision", "executable", "benchmark", "environment")
"""The models that a result of a dump points to, itself or through another."""


def sniff(head: str) -> bool:
    return ('"commitid"' in head and '"result_value"' in head) or (
        '"pk"' in head and '"fields"' in head and _ROW.search(head) is not None
    )


def parse(document: Document) -> Iterator[Item]:
    text = document.text()
    rows = [(i + 1, row) for i, row in enumerate(text.split("\n")) if row.strip()]
    if len(rows) > 1 and all(row.strip().startswith("{") and row.strip().endswith("}") for _, row in rows[:100]):
        for line, row in rows:
            yield _result(dict_of(loads(row, document, line)), document.where(line))
        return
    doc, lines = loads(text, document), Lines(text)
    if isinstance(doc, list) and any("model" in one and "pk" in one for one in map(dict_of, doc[:1])):
        yield from _dump([dict_of(one) for one in doc], document, lines)
        return
    for i, entry in enumerate(doc if isinstance(doc, list) else [doc]):
        one = dict_of(entry)
        yield _result(one, document.where(lines.find("commitid"), f"/{i}"))


def _dump(rows: list[dict[str, Any]], document: Document, lines: Lines) -> Iterator[Item]:
    """The results among the rows of a dump, each in the form in which a client would have posted it."""
    tables: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in _NAMED}
    for row in rows:
        name = text_of(row.get("model")).removeprefix("codespeed.")
        name = "executable" if name == "interpreter" else name  # as it was called until March 2010
        if name in tables:
            tables[name][text_of(row.get("pk"))] = dict_of(row.get("fields"))
    found = False
    for i, row in enumerate(rows):
        if row.get("model") != "codespeed.result":
            continue
        found = True
        fields, where = dict_of(row.get("fields")), document.where(lines.find("codespeed.result"), f"/{i}")
        lines.step()
        fields = {"executable": fields.get("interpreter"), **fields}
        points = {name: tables[name].get(text_of(fields.get(name))) for name in _NAMED[2:]}
        lost = [name for name, target in points.items() if target is None]
        if lost:
            yield Skipped(f"points to a {' and a '.join(lost)} that the dump does not have", where)
            continue
        yield _result(_posted(fields, {k: dict_of(v) for k, v in points.items()}, tables), where)
    if not found:
        document.refuse("is a dump without results.", 1, "Dump codespeed's tables: manage.py dumpdata codespeed.")


_OF_RESULT = {
    "result_value": "value", "std_dev": "std_dev", "min": "val_min", "max": "val_max", "q_25": "q1", "q_75": "q3",
    "result_date": "date",
}  # fmt: skip


def _posted(
    fields: Mapping[str, Any], points: Mapping[str, dict[str, Any]], tables: Mapping[str, dict[str, dict[str, Any]]]
) -> dict[str, Any]:
    revision, benchmark, environment = points["revision"], points["benchmark"], points["environment"]
    branch = tables["branch"].get(text_of(revision.get("branch")), {})
    project = text_of(revision.get("project") or branch.get("project") or points["executable"].get("project"))
    return {
        "benchmark": benchmark.get("name"),
        "units": benchmark.get("units"),
        "lessisbetter": benchmark.get("lessisbetter", True),
        **{posted: fields.get(kept) for posted, kept in _OF_RESULT.items()},
        **{key: revision.get(key) for key in ("message", "author")},
        "commitid": revision.get("commitid", revision.get("number")),
        "revision_date": revision.get("date"),
        "branch": branch.get("name") or (revision.get("branch") if not tables["branch"] else None),
        "executable": points["executable"].get("name"),
        "coptions": points["executable"].get("coptions"),
        "environment": environment.get("name"),
        "facts": environment,
        "project": tables["project"].get(project, {}).get("name") or ("" if project.isdigit() else project),
    }


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
        title=text_of(entry.get("message")).partition("\n")[0],
        author=text_of(entry.get("author")),
        project=text_of(entry.get("project")),
        machine=Machine(
            name=text_of(entry.get("environment")),
            identity=True,
            cpu_model=text_of(dict_of(entry.get("facts")).get("cpu")),
        ),
        environment=tuple(_facts(entry)),
    )
    params = {key: text for key in ("executable", "coptions") if (text := text_of(entry.get(key)))}
    summary = {k: v * unit.factor for k in ("min", "max", "q_25", "q_75") if (v := finite(entry.get(k))) is not None}
    return Record(
        origin, name, metric, where, value * unit.factor, params, spread=abs(spread) * unit.factor, summary=summary
    )


def _facts(entry: Mapping[str, Any]) -> Iterator[Fact]:
    if executable := text_of(entry.get("executable")):
        yield Fact("build", "executable", executable)
    for name in ("memory", "os", "kernel"):
        if text := text_of(dict_of(entry.get("facts")).get(name)):
            yield Fact("node", name, text, tracked=False)
