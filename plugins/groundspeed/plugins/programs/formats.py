"""Output of programs that is understood out of the box. Pure: text in, values out; what is not understood is said."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from groundspeed.plugins.programs import nccl
from groundspeed.plugins.programs.values import Reading, family, number
from groundspeed.plugins.spi import ParamValue

# --- trtexec ----------------------------------------------------------------------------------------------------------

_TRT_MARK = re.compile(r"TensorRT\.trtexec|\[I\] .*(?:GPU Compute|Host Latency|Throughput: )")
_TRT_PLACE = r"^.*?\[I\]\s+"
_TRT_ONE_LINE = re.compile(
    _TRT_PLACE + r"(?P<what>Latency|Enqueue Time|H2D Latency|GPU Compute Time|D2H Latency|Host Latency|End-to-End Host "
    r"Latency): (?P<rest>min = .*)$"
)  # fmt: skip
_TRT_HEADING = re.compile(
    _TRT_PLACE + r"(?P<what>Host Latency|Enqueue Time|GPU Compute(?: Time)?|H2D Latency|D2H Latency)\s*$"
)
_TRT_FIELD = re.compile(
    _TRT_PLACE + r"(?P<name>min|max|mean|median|percentile): (?P<value>[\d.]+) ms(?: at (?P<at>[\d.]+)%)?"
)
_TRT_PAIR = re.compile(r"(min|max|mean|median|percentile\(([\d.]+)%\)) = ([\d.]+) ms")
_TRT_RATE = re.compile(_TRT_PLACE + r"[Tt]hroughput: ([\d.]+) qps")
_TRT_METRIC = {
    "Latency": "end_to_end_latency", "Host Latency": "end_to_end_latency",
    "End-to-End Host Latency": "end_to_end_latency",
    "Enqueue Time": "enqueue_time", "GPU Compute Time": "device_time", "GPU Compute": "device_time",
    "H2D Latency": "transfer_time", "D2H Latency": "transfer_time",
}  # fmt: skip
_TRT_FAILED = re.compile(r"^&&&& FAILED.*$", re.MULTILINE)


def trtexec(text: str) -> Reading:
    """TensorRT's trtexec, of version 7 (a heading and a line each) to 10 (one line each). 0 qps is no measurement."""
    reading = Reading()
    failed = _TRT_FAILED.search(text)
    heading = ""
    for line in text.splitlines():
        if match := _TRT_ONE_LINE.match(line):
            for name, percent, value in _TRT_PAIR.findall(match["rest"]):
                _trt(reading, match["what"], "p" + percent if percent else name, value)
        elif match := _TRT_HEADING.match(line):
            heading = match["what"]
        elif (match := _TRT_FIELD.match(line)) and heading:
            _trt(reading, heading, f"p{match['at']}" if match["at"] else match["name"], match["value"])
        elif (match := _TRT_RATE.match(line)) and (rate := number(match[1])):
            reading.add("query_rate", rate)
    if failed:
        reading.failed = failed[0][:300]
    elif not reading.values:
        reading.failed = "no table of trtexec's times"
    return reading


def _trt(reading: Reading, what: str, statistic: str, value: str) -> None:
    more: dict[str, ParamValue] = {}
    if what in {"H2D Latency", "D2H Latency"}:
        more["direction"] = what[:3]
    elif what == "End-to-End Host Latency":
        more["overlapped"] = True  # with the queries before and after it
    seconds = number(value)
    reading.add(_TRT_METRIC[what], None if seconds is None else seconds * 1e-3, statistic=statistic, **more)


# --- serving benchmarks of language models ----------------------------------------------------------------------------

_TIMES = {
    "ttft": "time_to_first_token", "tpot": "time_per_output_token", "itl": "inter_token_latency",
    "e2el": "end_to_end_latency", "e2e_latency": "end_to_end_latency", "e2e": "end_to_end_latency",
}  # fmt: skip
_JSON_TIME = re.compile(r"^(mean|median|max|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el|e2e_latency)_ms$")
_JSON_RATE: Mapping[str, tuple[str, str]] = {
    "request_throughput": ("request_rate", "all"), "request_goodput": ("request_rate", "goodput"),
    "requests_per_second": ("request_rate", "all"), "output_throughput": ("token_rate", "output"),
    "input_throughput": ("token_rate", "input"), "total_token_throughput": ("token_rate", "total"),
    "total_throughput": ("token_rate", "total"), "overall_throughput": ("token_rate", "total"),
    "prefill_throughput": ("token_rate", "prefill"), "tokens_per_second": ("token_rate", "total"),
}  # fmt: skip
_JSON_SECONDS: Mapping[str, tuple[str, str]] = {
    "avg_latency": ("end_to_end_latency", "mean"), "prefill_latency": ("time_to_first_token", "only"),
    "median_decode_latency": ("time_per_output_token", "median"),
}  # fmt: skip
_JSON_KEYS = ("output_throughput", "total_token_throughput", "request_throughput", "requests_per_second",
              "avg_latency", "overall_throughput")  # fmt: skip
_TEXT_TIME = re.compile(
    r"^(?P<statistic>Mean|Median|Max|P\d+(?:\.\d+)?) (?P<what>TTFT|TPOT|ITL|E2EL|E2E Latency) \((?P<unit>ms|s)\):\s*"
    r"(?P<value>\S+)\s*$", re.MULTILINE | re.IGNORECASE,
)  # fmt: skip
_TEXT_RATE = re.compile(
    r"^(?P<what>Request|(?:Input|Output|Total)(?: token)?) throughput \((?:req|tok(?:en)?s?)/s\):\s*(?P<value>\S+)\s*$",
    re.MULTILINE | re.IGNORECASE,
)
_TEXT_COUNT = re.compile(r"^(?P<what>Successful|Failed) requests:\s*(?P<value>\d+)\s*$", re.MULTILINE)
_TEXT_OFFLINE = re.compile(
    r"Throughput: ([\d.]+) requests/s, ([\d.]+) (?:total )?tokens/s(?:, ([\d.]+) output tokens/s)?"
)
_TEXT_AVERAGE = re.compile(r"^Avg latency: ([\d.]+(?:e-?\d+)?) seconds", re.MULTILINE)
_TEXT_PERCENTILE = re.compile(r"^(\d+)% percentile latency: ([\d.]+(?:e-?\d+)?) seconds", re.MULTILINE)
_TEXT_ONE_BATCH = re.compile(
    r"^(?P<what>Prefill|Decode|Total)\. +(?:median )?latency: +(?P<seconds>[\d.]+) s, +(?:median )?throughput: +"
    r"(?P<rate>[\d.]+) token/s", re.MULTILINE,
)  # fmt: skip
_ONE_BATCH = {
    "Prefill": ("time_to_first_token", "only", "prefill"),
    "Decode": ("time_per_output_token", "median", "decode"),
    "Total": ("end_to_end_latency", "only", "total"),
}
_TEXT_MARK = re.compile(
    r"^Prefill\. latency: |Serving Benchmark Result|^Throughput: [\d.]+ requests/s|^Avg latency: ", re.MULTILINE
)


def serving(text: str) -> Reading:
    """Results of `vllm bench` and `sglang.bench_serving`: the JSON that they write, or the table that they print."""
    reading = Reading()
    for run in _json_objects(text):
        _from_json(reading, run)
    if not reading.values:
        _from_table(reading, text)
    if not reading.values and not reading.failed:
        reading.failed = "no throughput and no latency of vLLM's or SGLang's benchmarks"
    return reading


def _json_objects(text: str) -> Iterator[Mapping[str, Any]]:
    """One object, a list, or one object a line among other lines."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if whole is not None:
        yield from (one for one in (whole if isinstance(whole, list) else [whole]) if _is_result(one))
        return
    for line in text.splitlines():
        if line.startswith("{") and line.rstrip().endswith("}"):
            try:
                one = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if _is_result(one):
                yield one


def _is_result(value: Any) -> bool:
    return isinstance(value, dict) and any(key in value for key in _JSON_KEYS)


def _from_json(reading: Reading, run: Mapping[str, Any]) -> None:
    where = _load(run)
    for key, raw in run.items():
        value = _float(raw)
        if value is None:
            continue
        if match := _JSON_TIME.match(key):
            reading.add(_TIMES[match[2]], value * 1e-3, statistic=match[1], **where)
        elif key in _JSON_RATE:
            metric, what = _JSON_RATE[key]
            reading.add(metric, value, of=what, **where)
        elif key in _JSON_SECONDS:
            metric, statistic = _JSON_SECONDS[key]
            reading.add(metric, value, statistic=statistic, **where)
    percentiles = run.get("percentiles")
    for percent, raw in percentiles.items() if isinstance(percentiles, dict) else ():
        reading.add("end_to_end_latency", _float(raw), statistic=f"p{percent}"[:20], **where)
    completed, asked = _float(run.get("completed")), _float(run.get("num_prompts"))
    _completion(reading, completed, asked, **where)


def _load(run: Mapping[str, Any]) -> dict[str, ParamValue]:
    """What tells several runs in one file from each other."""
    found: dict[str, ParamValue] = {}
    for key in ("request_rate", "max_concurrency", "batch_size", "input_len", "output_len", "random_input_len",
                "random_output_len"):  # fmt: skip
        value = run.get(key)
        if isinstance(value, str):
            found[key] = value[:40]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[key] = value if 0 <= value < 1e9 else "unlimited"
    return found


def _float(raw: Any) -> float | None:
    return number(str(raw)) if isinstance(raw, int | float) and not isinstance(raw, bool) else None


def _completion(reading: Reading, completed: float | None, asked: float | None, **where: ParamValue) -> None:
    if completed is None or not asked:
        return
    reading.add("completed_share", completed / asked, **where)
    if completed == 0:
        reading.failed = f"none of {asked:g} requests completed"


def _from_table(reading: Reading, text: str) -> None:
    for match in _TEXT_TIME.finditer(text):
        value = number(match["value"])
        if value is not None:
            factor = 1e-3 if match["unit"].lower() == "ms" else 1.0
            what = _TIMES[match["what"].lower().replace(" ", "_")]
            reading.add(what, value * factor, statistic=match["statistic"].lower())
    for match in _TEXT_RATE.finditer(text):
        what = match["what"].lower().partition(" ")[0]
        metric = "request_rate" if what == "request" else "token_rate"
        reading.add(metric, number(match["value"]), of="all" if what == "request" else what)
    if offline := _TEXT_OFFLINE.search(text):
        reading.add("request_rate", number(offline[1]), of="all")
        reading.add("token_rate", number(offline[2]), of="total")
        reading.add("token_rate", number(offline[3]), of="output")
    if average := _TEXT_AVERAGE.search(text):
        reading.add("end_to_end_latency", number(average[1]), statistic="mean")
    for match in _TEXT_PERCENTILE.finditer(text):
        reading.add("end_to_end_latency", number(match[2]), statistic=f"p{match[1]}")
    for match in _TEXT_ONE_BATCH.finditer(text):
        if match["what"] == "Decode" and "median" not in match[0]:
            continue  # one of the steps that the median is of
        metric, statistic, of = _ONE_BATCH[match["what"]]
        reading.add(metric, number(match["seconds"]), statistic=statistic)
        reading.add("token_rate", number(match["rate"]), of=of)
    counts = {match["what"]: float(match["value"]) for match in _TEXT_COUNT.finditer(text)}
    if "Successful" in counts and "Failed" in counts:
        _completion(reading, counts["Successful"], counts["Successful"] + counts["Failed"])


# --- a declared pattern -----------------------------------------------------------------------------------------------


def pattern(text: str, expression: str, unit: str, direction: str, pick: str) -> Reading:
    """Matches of a regular expression line by line; group ``value`` or the first, ``name`` tells several apart."""
    reading = Reading()
    compiled = re.compile(expression)
    metric, factor = family(unit, direction)
    found: dict[str, list[float]] = {}
    for line in text.splitlines():
        for match in compiled.finditer(line[:10_000]):
            groups = match.groupdict()
            value = number(groups.get("value") if "value" in groups else match[1] if match.re.groups else match[0])
            if value is not None:
                found.setdefault((groups.get("name") or "").strip()[:200], []).append(value * factor)
    for name, values in found.items():
        params: dict[str, ParamValue] = {"name": name} if name else {}
        if metric in {"reported_lower", "reported_higher"} and unit:
            params["unit"] = unit[:40]
        chosen = values if pick == "all" else values[:1] if pick == "first" else values[-1:]
        for value in chosen:
            reading.add(metric, value, **params)
    if not reading.values:
        reading.failed = f"nothing in the output matches {expression!r} with a number"
    return reading


PARSERS: Mapping[str, Callable[[str], Reading]] = {
    "nccl-tests": nccl.parse, "trtexec": trtexec, "vllm": serving, "sglang": serving,
}  # fmt: skip


def guess(text: str) -> str:
    """The parser's name; "" when none knows the output."""
    if nccl.looks_like(text):
        return "nccl-tests"
    if _TRT_MARK.search(text):
        return "trtexec"
    if _TEXT_MARK.search(text) or any(f'"{key}"' in text for key in _JSON_KEYS):
        return "vllm"
    return ""
