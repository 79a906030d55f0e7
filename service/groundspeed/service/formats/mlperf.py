"""MLPerf training logs: ``:::MLLOG`` (and old ``:::MLPv0.5.0``) lines among other text.

Time to train is run_stop − run_start; throughputs, evaluation results and epochs are kept beside it, not gated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from groundspeed.service.formats.records import (
    Fact,
    Item,
    Machine,
    Metric,
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
from groundspeed.service.formats.source import Document, dict_of, text_of
from groundspeed.service.formats.times import parse_time

NAME = "mlperf"
TIME_TO_TRAIN = Metric("time_to_train", "s", -1, "time", "wall")
_EVALUATION = Metric("eval_accuracy", "1", 0, "ratio", gate=False)
_THROUGHPUT = Metric("throughput", "samples/s", 1, "rate", "wall", gate=False)
_LINE = re.compile(r":::(MLLOG|SYSJSON)\s*(\{.*)$")
_OLD = re.compile(r":::MLP\S*\s+(\S+)\s+(\d+(?:\.\d+)?)\s+\(([^)]*)\)\s+(\w+)(?::\s*(.*))?$")
_PARAMS = ("global_batch_size", "gradient_accumulation_steps", "submission_division", "seed")
MAX_VALUES = 1_000_000


@dataclass(slots=True)
class _Log:
    start: float | None = None
    stop: float | None = None
    stop_line: int = 0
    status: str = ""
    lines: int = 0
    values: dict[str, Any] = field(default_factory=dict)
    evaluations: list[float] = field(default_factory=list)
    throughputs: list[float] = field(default_factory=list)
    system: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    """Of an inference run (LoadGen), which has no run_start."""


def sniff(head: str) -> bool:
    return (
        _SUMMARY in head
        or _ACCURACY.match(head) is not None
        or ":::MLLOG" in head
        or bool(re.search(r"^.{0,200}:::MLPv?\d", head, re.MULTILINE))
        or ":::SYSJSON" in head
    )


def parse(document: Document) -> Iterator[Item]:
    log, number = _Log(), 0
    head = document.head()
    if _SUMMARY in head:
        yield from _summary(document)
        return
    if _ACCURACY.match(head):
        yield Skipped(_NO_PERFORMANCE, document.where(1))
        return
    for number, line in document.lines():
        if match := _LINE.search(line):
            try:
                event, _ = json.JSONDecoder().raw_decode(match[2])
            except (ValueError, RecursionError) as error:
                yield Skipped(f"is no JSON after :::{match[1]} ({error})", document.where(number))
                continue
            if match[1] == "SYSJSON":
                log.system = dict_of(event)
            else:
                _event(log, dict_of(event), number)
        elif match := _OLD.search(line):
            _event(log, _old_event(match), number)
    if not log.lines:
        document.refuse("has no :::MLLOG lines.", 1)
    yield from _results(document, log, number)


_SUMMARY = "MLPerf Results Summary"
_ACCURACY = re.compile(r"\s*(?:No|\d+) warnings? encountered")
_NO_PERFORMANCE = "is of an accuracy run of LoadGen, which measures no performance"
_SUBMISSION = re.compile(
    r"(?:^|/)(?P<system>[^/]+)/(?P<model>[^/]+)/(?P<scenario>offline|server|interactive|singlestream|multistream)"
    r"/(?:(?:TEST\d+|performance|accuracy|run_\d+|ranging)/)*[^/]+$",
    re.IGNORECASE,
)
"""Where a submission keeps what LoadGen wrote: its files call every model PySUT, and Interactive Server."""


def _summary(document: Document) -> Iterator[Item]:
    """LoadGen's mlperf_log_summary.txt: what mlperf_log_detail.txt says, for people."""
    log, last = _Log(), 1
    for number, line in document.lines():
        key, _, text = (part.strip() for part in line.partition(":"))
        if not text or not key[:1].isalnum():
            if log.results and line.startswith("Test Parameters Used"):
                break
            continue
        last, name = number, re.sub(r"[\s/]+", "_", key.lower())
        if name == "sut_name":
            log.values["submission_benchmark"] = text
        elif name == "scenario":
            log.values["effective_scenario"] = text
        elif name == "result_is":
            log.results["validity"] = text
        elif (value := number_of(text)) is not None:
            log.results[re.sub(r"_\(ns\)$", "_ns", name)] = value
    if not log.results:
        document.refuse("is a summary of LoadGen without results.", last)
    yield from _inference(document, {}, log, document.where(last))


def _old_event(match: re.Match[str]) -> dict[str, Any]:
    try:
        value = json.loads(match[5]) if match[5] else None
    except (ValueError, RecursionError):
        value = match[5]
    return {"key": match[4], "value": value, "time_ms": float(match[2]) * 1e3, "metadata": {}, "benchmark": match[1]}


def _event(log: _Log, event: Mapping[str, Any], number: int) -> None:
    key, value = text_of(event.get("key")), event.get("value")
    moment = finite(event.get("time_ms"))
    log.lines += 1
    if event.get("benchmark"):
        log.values.setdefault("submission_benchmark", event["benchmark"])
    if key == "run_start" and moment is not None:
        log.start = moment if log.start is None else min(log.start, moment)
    elif key == "run_stop" and moment is not None:
        log.stop, log.stop_line = moment, number
        log.status = text_of(dict_of(event.get("metadata")).get("status") or dict_of(value).get("status")) or log.status
    elif key == "eval_accuracy" and (number_ := _evaluation(value)) is not None and len(log.evaluations) < MAX_VALUES:
        log.evaluations.append(number_)
    elif key == "tracked_stats" and (rate := finite(dict_of(value).get("throughput"))) is not None:
        if len(log.throughputs) < MAX_VALUES:
            log.throughputs.append(rate)
    elif key.startswith("result_") and len(log.results) < 1000:
        log.results[key.removeprefix("result_")] = value
    elif key == "status":
        log.status = text_of(value) or log.status
    elif key and len(log.values) < 10_000:
        log.values.setdefault(key, value)


def _evaluation(value: object) -> float | None:
    return finite(value) if not isinstance(value, dict) else finite(value.get("value"))


def _results(document: Document, log: _Log, last: int) -> Iterator[Item]:
    origin = _origin(log)
    name = text_of(log.values.get("submission_benchmark")) or document.path.name
    params: dict[str, Scalar] = {}
    for key in _PARAMS[:3]:
        value = log.values.get(key)
        if isinstance(value, str | int | float) and not isinstance(value, bool) and text_of(value):
            whole = int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
            params[key] = whole if isinstance(whole, str) or abs(whole) < 2**53 else text_of(whole)
    where = document.where(log.stop_line or last)
    if log.results:
        yield from _inference(document, params, log, where)
    elif text_of(log.values.get("effective_test_mode") or log.values.get("requested_test_mode")) == "AccuracyOnly":
        yield Skipped(_NO_PERFORMANCE, where)
    elif "loadgen_version" in log.values:
        yield Skipped("is of a run of LoadGen that did not come to its results", where)
    elif log.start is None or log.stop is None:
        missing = "run_start" if log.start is None else "run_stop"
        outcome: Outcome = "crashed" if log.start is not None else "failed"
        yield Record(
            origin, name, TIME_TO_TRAIN, where, params=params, outcome=outcome, reason=f"there is no {missing}"
        )
    elif log.stop < log.start:
        yield Skipped("run_stop lies before run_start", where)
    else:
        failed = log.status not in {"", "success"}
        yield Record(
            origin, name, TIME_TO_TRAIN, where, None if failed else (log.stop - log.start) * 1e-3, params,
            outcome="failed" if failed else "ok", reason=f'the run ended as "{log.status}"' if failed else "",
        )  # fmt: skip
    for metric, values in ((_EVALUATION, log.evaluations), (_THROUGHPUT, log.throughputs)):
        if values:
            value = values[-1] if metric is _EVALUATION else sorted(values)[len(values) // 2]
            # how accuracy rose is not a set of samples of one quantity: only the last one counts
            samples = () if metric is _EVALUATION else tuple(values)
            yield Record(origin, name, metric, where, value, params, samples, spread_of(samples), len(samples) or 1)


def _inference(document: Document, params: dict[str, Scalar], log: _Log, where: Where) -> Iterator[Item]:
    place = _SUBMISSION.search(document.name)
    scenario = text_of(log.values.get("effective_scenario") or log.values.get("requested_scenario"))
    origin = _origin(log)
    name = text_of(log.values.get("submission_benchmark") or log.values.get("sut_name")) or document.path.name
    if place:
        name, scenario = place["model"], "Interactive" if place["scenario"].lower() == "interactive" else scenario
        origin = replace(origin, machine=replace(origin.machine, name=place["system"], identity=True))
        if test := re.search(r"/(TEST\d+)/", document.name):  # of compliance: measured under other conditions
            params = params | {"test": test[1]}
    params = params | ({"scenario": scenario} if scenario else {})
    invalid = text_of(log.results.get("validity")).upper() == "INVALID"
    reason = text_of(log.results.get("invalid_reason")) or "LoadGen calls the run INVALID"
    for key, raw in log.results.items():
        value = finite(raw)
        if value is None or isinstance(raw, bool):
            continue
        if key.endswith("_ns"):
            metric, factor = (
                Metric(key.removesuffix("_ns"), "s", -1, "time", "wall", gate=key.startswith(("90", "99", "mean"))),
                1e-9,
            )
        elif "per_sec" in key or key.endswith("qps"):
            metric, factor = Metric(key, "1/s", 1, "rate", "wall"), 1.0
        else:
            metric, factor = Metric(key, "1", 0, "counter", gate=False), 1.0
        yield Record(
            origin, name, metric, where, value * factor, params,
            outcome="wrong" if invalid else "ok", reason=reason if invalid else "",
        )  # fmt: skip


def _origin(log: _Log) -> Origin:
    system, values = log.system, log.values
    per_node = _count(system.get("accelerators_per_node"))
    nodes = _count(system.get("number_of_nodes"))
    stack = dict_of(system.get("other_software_stack"))
    facts = [Fact("stack", k, text_of(stack[k])) for k in sorted(stack) if stack[k]]
    facts += [Fact("stack", k, text_of(system[k])) for k in ("framework", "framework_name") if system.get(k)]
    facts += (
        [Fact("node", "operating_system", text_of(system["operating_system"]))]
        if system.get("operating_system")
        else []
    )
    platform = text_of(values.get("submission_platform"))
    return Origin(
        tool=NAME,
        measured_at=parse_time(values.get("test_datetime") or (log.start if log.start is not None else log.stop)),
        machine=Machine(
            name="",
            cpu_model=text_of(system.get("host_processor_model_name")),
            gpu_model=text_of(system.get("accelerator_model_name")) or platform,
            gpu_count=per_node * max(nodes, 1),
            topology=f"{nodes} nodes" if nodes else platform,
            facts=(("platform", platform),) if platform else (),
        ),
        environment=tuple(facts),
        label=f"{text_of(values.get('submission_org'))} seed {text_of(values.get('seed'))}".strip(),
    )


def _count(value: object) -> int:
    text = text_of(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
