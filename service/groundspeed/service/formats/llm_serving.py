"""vLLM and SGLang benchmarks: JSON of serving, offline throughput and latency, and what serving prints for people."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from groundspeed.service.formats.records import (
    Item,
    Machine,
    Metric,
    Origin,
    Record,
    Scalar,
    Skipped,
    finite,
    number_of,
    spread_of,
)
from groundspeed.service.formats.source import Document, dict_of, list_of, loads, text_of
from groundspeed.service.formats.times import parse_time

NAME = "llm-serving"
_LATENCY = re.compile(r"^(mean|median|std|min|max|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el|e2e_latency|ttfs|ptt)_ms$")
_RATES = {
    "request_throughput": "requests/s", "output_throughput": "tokens/s", "input_throughput": "tokens/s",
    "total_token_throughput": "tokens/s", "total_throughput": "tokens/s", "request_goodput": "requests/s",
    "requests_per_second": "requests/s", "tokens_per_second": "tokens/s", "output_throughput_retokenized": "tokens/s",
    "total_throughput_retokenized": "tokens/s", "max_output_tokens_per_s": "tokens/s", "last_throughput": "tokens/s",
    "overall_throughput": "tokens/s", "prefill_throughput": "tokens/s", "last_gen_throughput": "tokens/s",
}  # fmt: skip
_GATED = {
    "request_throughput",
    "output_throughput",
    "total_token_throughput",
    "requests_per_second",
    "tokens_per_second",
}
_THROUGHPUT = Metric("request_throughput", "requests/s", 1, "rate", "wall")
_COUNTED = {"completed": "requests", "accept_length": "tokens", "accuracy": "1"}
_PERCENTILES = ("ttft", "tpot", "itl", "e2el")
_PERCENTILE = re.compile(r"\d{1,3}(?:\.\d{1,6})?")
_TIMES = {"avg_latency", "latency", "prefill_latency", "median_decode_latency", "total_latency", "elapsed_time"}
_PARAMS = (
    "backend", "endpoint_type", "label", "model_id", "model", "tokenizer_id", "dataset_name", "num_prompts",
    "request_rate",
    "burstiness", "max_concurrency", "sharegpt_output_len", "random_input_len", "random_output_len",
    "random_range_ratio",
    "tensor_parallel_size", "batch_size", "input_len", "output_len", "num_requests", "run_name", "task", "num_gpus",
)  # fmt: skip
_UNLIMITED = 1e9


def sniff(head: str) -> bool:
    keys = (
        '"request_throughput"',
        '"output_throughput"',
        '"total_token_throughput"',
        '"requests_per_second"',
        '"median_ttft_ms"',
    )
    latency = '"avg_latency"' in head and '"percentiles"' in head
    one_batch = '"overall_throughput"' in head and ('"prefill_latency"' in head or '"batch_size"' in head)
    task = '"task"' in head and '"num_requests"' in head and '"latency"' in head
    return latency or one_batch or task or _TITLE in head or any(key in head for key in keys)


def parse(document: Document) -> Iterator[Item]:
    text = document.text()
    if not text.lstrip().startswith(("{", "[")):
        yield from _printed(document) if _TITLE in text else _among_notes(document, text)
        return
    for line, entry in _objects(document, text):
        where = document.where(line)
        if not isinstance(entry, dict):
            yield Skipped("is no JSON object", where)
            continue
        yield from _run(document, entry, where)


_TITLE = "Serving Benchmark Result"
_PRINTED = re.compile(r"^(\w[\w .]*?)(?: \((?:s|ms|req/s|tok/s)\))?:\s+(\S+)\s*$")
_OPTION = re.compile(r"\b(\w+)=(?:'([^']*)'|([-\w.+]+))")
_PRINTED_KEYS = {
    "successful requests": "completed", "benchmark duration": "duration", "request throughput": "request_throughput",
    "request goodput": "request_goodput", "input token throughput": "input_throughput",
    "output token throughput": "output_throughput", "total token throughput": "total_token_throughput",
    "traffic request rate": "request_rate", "max request concurrency": "max_concurrency",
    "maximum request concurrency": "max_concurrency", "backend": "backend", "concurrency": "concurrency",
}  # fmt: skip


def _printed(document: Document) -> Iterator[Item]:
    """The block that benchmark_serving prints; options come from the line of its arguments, when that is there."""
    options: dict[str, Any] = {}
    block: dict[str, Any] | None = None
    start, found = 0, False
    for number, raw in document.lines():
        line = raw.lstrip("# ").strip()
        if "Namespace(" in line:
            told = {m[1]: m[2] if m[2] is not None else _plain(m[3]) for m in _OPTION.finditer(line)}
            options = {key: value for key, value in told.items() if key in _PARAMS}
        elif _TITLE in line:
            block, start = {}, number
        elif block is not None and line and not line.strip("="):
            found = True
            yield from _run(document, {**options, **block}, document.where(start))
            block = None
        elif match := _PRINTED.match(line):
            key = (
                _PRINTED_KEYS.get(match[1].lower())
                or match[1].lower().replace("e2e latency", "e2el").replace(" ", "_") + "_ms"
            )
            if block is not None and (value := number_of(match[2])) is not None:
                block[key] = value
            elif key in _PARAMS:
                options[key] = _plain(match[2])
    if block is not None:
        yield Skipped("is a block without an end", document.where(start))
    if not found:
        document.refuse("has no result of a serving benchmark.", start or 1)


def _among_notes(document: Document, text: str) -> Iterator[Item]:
    """Objects a line, as SGLang appends them, with lines between that people wrote."""
    found = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("{"):
            found = True
            yield from _run(document, dict_of(loads(line, document, number)), document.where(number))
        elif line.strip():
            yield Skipped("is a note between results", document.where(number))
    if not found:
        document.refuse("has no result of a serving benchmark.", 1)


def _plain(text: str) -> bool | int | float | str | None:
    if text in {"None", "True", "False"}:
        return {"None": None, "True": True, "False": False}[text]
    if re.fullmatch(r"\d{1,15}", text):
        return int(text)
    number = number_of(text)
    return math.inf if text == "inf" else text if number is None else number


def _objects(document: Document, text: str) -> Iterator[tuple[int, Any]]:
    """One object, a list, or one object a line (files are appended to)."""
    stripped = text.strip()
    rows = stripped.split("\n")
    if len(rows) > 1 and rows[0].strip().startswith("{") and rows[0].strip().endswith("}"):
        offset = text[: text.find(stripped[:1])].count("\n") if stripped else 0
        for i, row in enumerate(rows):
            if row.strip():
                yield i + 1 + offset, loads(row, document, i + 1 + offset)
        return
    doc = loads(text, document)
    for entry in doc if isinstance(doc, list) else [doc]:
        yield 1, entry


def _run(document: Document, entry: Mapping[str, Any], where: Any) -> Iterator[Item]:
    server = dict_of(entry.get("server_info"))  # of SGLang, which names neither model nor size elsewhere
    entry = {"tensor_parallel_size": server.get("tp_size"), **entry}
    # SGLang's tasks keep what tells their runs apart one level deeper
    beside = {f"other {k}"[:100]: v for k, v in dict_of(entry.get("other")).items() if isinstance(v, bool | int | str)}
    small = {
        k: v if isinstance(v, bool) or (isinstance(v, int) and abs(v) < 2**53) else text_of(v)
        for k, v in beside.items()
    }
    params = _params(entry) | small
    name = text_of(entry.get("model_id") or entry.get("model") or server.get("model_path")) or "llm serving"
    origin = Origin(
        tool="sglang" if "sglang" in text_of(entry.get("backend")) else "vllm",
        measured_at=parse_time(entry.get("date")),
        machine=Machine(gpu_model=text_of(entry.get("gpu_type") or entry.get("gpu"))),
        # settings of the server stand in the folder's name only
        label=str(document.path.parent) if str(document.path.parent) != "." else "",
    )
    completed, asked = finite(entry.get("completed")), finite(entry.get("num_prompts"))
    incomplete = completed is not None and asked is not None and completed < asked
    reason = f"{completed:g} of {asked:g} requests completed" if incomplete else ""
    if completed == 0:  # every figure is 0 then, and no measurement
        reason = f"none of {asked:g} requests completed" if asked else "no request completed"
        yield Record(origin, name, _THROUGHPUT, where, params=params, outcome="failed", reason=reason)
        return
    found = False
    for metric, value, samples in _metrics(entry):
        found = True
        yield Record(
            origin, name, metric, where, value, params, samples, spread_of(samples), len(samples) or 1, reason=reason,
            summary={k: v for k in ("completed", "num_prompts") if (v := finite(entry.get(k))) is not None},
        )  # fmt: skip
    if not found:
        yield Skipped("has no latency and no throughput", where)


def _metrics(entry: Mapping[str, Any]) -> Iterator[tuple[Metric, float, tuple[float, ...]]]:  # noqa: C901 - one branch for each line that the tool prints
    for key, raw in entry.items():
        value = finite(raw)
        if value is None:
            continue
        if match := _LATENCY.match(key):
            if match[1] != "std":
                gate = match[1] in {"mean", "median"}
                yield Metric(key.removesuffix("_ms"), "s", -1, "time", "wall", gate), value * 1e-3, ()
        elif key in _RATES:
            yield Metric(key, _RATES[key], 1, "rate", "wall", key in _GATED), value, ()
        elif key in _TIMES:
            samples = tuple(v for v in map(finite, list_of(entry.get("latencies"))) if v is not None)
            yield Metric(key, "s", -1, "time", "wall"), value, samples if key == "avg_latency" else ()
        elif key == "duration":
            yield Metric("duration", "s", -1, "time", "wall", gate=False), value, ()
        elif key in _COUNTED:
            yield Metric(key, _COUNTED[key], 1, "counter", gate=False), value, ()
    yield from _percentiles(entry)
    for percentile, raw in dict_of(entry.get("percentiles")).items():
        value = finite(raw)
        if value is not None:
            yield Metric(f"p{percentile}_latency"[:200], "s", -1, "time", "wall", gate=False), value, ()


def _percentiles(entry: Mapping[str, Any]) -> Iterator[tuple[Metric, float, tuple[float, ...]]]:
    """Lists of (percentile, value) pairs, or objects of them, beside or instead of keys like p99_ttft_ms."""
    for key in _PERCENTILES:
        told = entry.get(f"percentiles_{key}_ms")
        pairs = told.items() if isinstance(told, dict) else [p for p in list_of(told) if len(list_of(p)) == 2]
        for percentile, raw in pairs:
            name, value = text_of(percentile).removesuffix(".0"), finite(raw)
            if value is not None and _PERCENTILE.fullmatch(name) and f"p{name}_{key}_ms" not in entry:
                yield Metric(f"p{name}_{key}", "s", -1, "time", "wall", gate=False), value * 1e-3, ()


def _params(entry: Mapping[str, Any]) -> dict[str, Scalar]:
    params: dict[str, Scalar] = {}
    for key in _PARAMS:
        value = entry.get(key)
        if value is None or (key == "model" and entry.get("model_id")):
            continue
        if isinstance(value, int | float) and not isinstance(value, bool):
            number = finite(value)
            unlimited = (number is None and math.isinf(value) if isinstance(value, float) else False) or (
                number or 0
            ) >= _UNLIMITED
            if key in {"request_rate", "max_concurrency"} and unlimited:
                params[key] = "unlimited"
            elif number is not None:
                params[key] = value
        elif isinstance(value, bool | str):
            params[key] = value if isinstance(value, bool) else value[:200]
    return params
