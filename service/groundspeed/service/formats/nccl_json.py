"""nccl-tests JSON (``-J``), versions 1 and 2 of its format, and per-iteration times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from groundspeed.service.formats.nccl import ALGBW, AVERAGE, BUSBW, TIME
from groundspeed.service.formats.records import (
    Fact,
    Item,
    Machine,
    Origin,
    Outcome,
    Record,
    Scalar,
    Skipped,
    Where,
    finite,
    number_of,
    spread_of,
)
from groundspeed.service.formats.source import Document, dict_of, list_of, text_of
from groundspeed.service.formats.times import parse_time

NAME = "nccl-tests-json"
NEWEST_VERSION = 2
_TRACKED_VARIABLES = ("NCCL_", "RCCL_", "CUDA_", "HIP_", "UCX_", "FI_", "OMPI_MCA_")
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


def sniff(head: str) -> bool:
    return '"nccl_version"' in head and ('"args"' in head or '"results"' in head)


def parse(document: Document) -> Iterator[Item]:
    doc = document.json()
    if not isinstance(doc, dict):
        document.refuse("is no nccl-tests JSON.", 1)
    version = doc.get("version", 1)
    if isinstance(version, int) and version > NEWEST_VERSION:
        document.refuse(f"is of nccl-tests JSON version {version}; {NEWEST_VERSION} is the newest that is known.", 1)
    origin = _origin(doc)
    common: dict[str, Scalar] = {}
    if origin.machine.gpu_count:
        hosts = {text_of(dict_of(d).get("hostname")) for d in list_of(dict_of(doc.get("config")).get("devices"))}
        common = {"ranks": origin.machine.gpu_count, "nodes": len(hosts)}
    program = text_of(next(iter(list_of(doc.get("args"))), "")).rpartition("/")[2].removesuffix("_perf")
    rows = list_of(doc.get("results"))
    for i, row in enumerate(rows):
        yield from _row(origin, program, common, dict_of(row), document.where(1, f"/results/{i}"))
    average = finite(dict_of(doc.get("average_bus_bandwidth")).get("bandwidth"))
    wrong = finite(dict_of(doc.get("out_of_bounds")).get("count"))
    where = document.where(1, "/average_bus_bandwidth")
    name = program or _experiment(rows)
    errors = [text_of(e) for e in list_of(doc.get("errors")) if e]
    if average is not None:
        outcome: Outcome = "wrong" if wrong else "ok"
        yield Record(
            origin,
            name,
            AVERAGE,
            where,
            average * 1e9,
            common,
            outcome=outcome,
            reason=f"{wrong:g} values out of bounds" if wrong else "",
        )
    elif doc.get("results") is not None or doc.get("config") is not None:
        reason = "; ".join(errors) or "the output ends before the average"
        yield Record(origin, name, AVERAGE, where, params=common, outcome="crashed", reason=reason)
    else:
        document.refuse("holds no results.", 1)


def _experiment(rows: list[Any]) -> str:
    return next(
        (text_of(n).removesuffix("_perf") for r in rows if (n := dict_of(r).get("experiment_name"))), "nccl-tests"
    )


def _row(
    origin: Origin, program: str, common: dict[str, Scalar], row: Mapping[str, Any], where: Where
) -> Iterator[Item]:
    params = dict(common)
    for key in ("size", "type", "redop", "root"):
        value = row.get(key)
        number = (
            number_of(value)
            if isinstance(value, str) and value.isascii() and value.strip().lstrip("-").isdigit()
            else finite(value)
        )
        if number is not None and abs(number) < 2**53:
            params[key] = int(number)
        elif text_of(value) not in {"", "none"}:
            params[key] = text_of(value)
    name = text_of(row.get("experiment_name")).removesuffix("_perf") or program or "nccl-tests"
    empty = True
    for side in ("out_of_place", "in_place"):
        cells = row.get(side)
        if isinstance(cells, dict):
            empty = False
            place: dict[str, Scalar] = {**params, "place": side.replace("_", "-")}
            yield from _side(origin, name, place, cells, dict_of(row.get(f"{side}_per_iter")), where)
    if empty:
        yield Skipped("has neither out-of-place nor in-place figures", where)


def _side(
    origin: Origin,
    name: str,
    params: dict[str, Scalar],
    cells: Mapping[str, Any],
    each: Mapping[str, Any],
    where: Where,
) -> Iterator[Item]:
    time = finite(cells.get("time", cells.get("cpu_time")))
    wrong = finite(cells.get("nwrong"))
    if time is None:
        yield Skipped("has no time", where)
        return
    samples = tuple(v * 1e-6 for v in map(finite, list_of(each.get("times_us"))) if v is not None)
    outcome: Outcome = "wrong" if wrong else "ok"
    reason = f"{wrong:g} wrong elements" if wrong else ""
    yield Record(
        origin,
        name,
        TIME,
        where,
        time * 1e-6,
        params,
        samples,
        spread_of(samples),
        len(samples) or 1,
        outcome=outcome,
        reason=reason,
    )
    for metric, key in ((ALGBW, "alg_bw"), (BUSBW, "bus_bw")):
        value = finite(cells.get(key))
        if value is not None:
            yield Record(origin, name, metric, where, value * 1e9, params, outcome=outcome, reason=reason)


def _origin(doc: Mapping[str, Any]) -> Origin:
    devices = [dict_of(d) for d in list_of(dict_of(doc.get("config")).get("devices"))]
    hosts = sorted({text_of(d.get("hostname")) for d in devices})
    models = sorted({text_of(d.get("device_info")) for d in devices} - {""})
    facts = [Fact("stack", "nccl", text_of(doc.get("nccl_version")))] if doc.get("nccl_version") else []
    for entry in sorted(map(text_of, list_of(doc.get("env")))):
        key, equals, value = entry.partition("=")
        # The file holds the whole process environment; what is not about communication stays out, secrets most of all.
        if equals and key.startswith(_TRACKED_VARIABLES) and not any(word in key.upper() for word in _SECRET):
            facts.append(Fact("stack", f"variable {key}", value))
    return Origin(
        tool="nccl-tests",
        measured_at=parse_time(doc.get("start_time")),
        machine=Machine(
            name=hosts[0] if len(hosts) == 1 else "",
            gpu_model=" + ".join(models[:3]),
            gpu_count=len(devices),
            topology=f"{len(hosts)} nodes x {len(devices) // max(len(hosts), 1)}" if devices else "",
        ),
        environment=tuple(facts),
    )
