"""Text of the tools that SuperBench drives: nvbandwidth, gpu_copy, dist_inference, TensorRT's trtexec, InfiniBand
perftest and Megatron-DeepSpeed. Each is recognised by its own lines; a file may mix them with other text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from groundspeed.service.formats.records import (
    Fact,
    Item,
    Machine,
    Metric,
    Origin,
    Record,
    Scalar,
    number_of,
    spread_of,
)
from groundspeed.service.formats.source import BRIEF_CHARS, Document
from groundspeed.service.formats.times import parse_time

NAME = "gpu-tool-log"
MAX_VALUES = 1_000_000
_BANDWIDTH = Metric("bandwidth", "B/s", 1, "rate", "device")
_LATENCY = Metric("latency", "s", -1, "time", "device")
_WALL = Metric("latency", "s", -1, "time", "wall")
_NVB_RUN = re.compile(r"^Running (\w+)\.$")
_NVB_TITLE = re.compile(r"^.* (bandwidth|latency) \(?(GB/s|ns|us)\)?")
_NVB_COLUMNS = re.compile(r"^\s+\d+(?:\s+\d+)*\s*$")
_NVB_ROW = re.compile(r"^\s*(\d+)((?:\s+(?:\d+\.\d+|N/A))+)\s*$")
_NVB_SUM = re.compile(r"^SUM (\w+) ([-+\d.eE]+)$")
_NVB_DEVICE = re.compile(r"^Device \d+: (.+?)(?: \([0-9a-fA-F:.]+\))?$")
_NVB_DRIVER = re.compile(r"^Driver Version: (\S+)$")
_COPY = re.compile(r"^((?:c|g)pu\w*_(?:to|and)_\w+?_by_(?:sm|dma)\w*)\s+([-+\d.eE]+)$")
_STEP = re.compile(r"^Latency of step (\d+): ([-+\d.eE]+) (ns|us|ms|s)$")
_TRT_SECTION = re.compile(
    r"\[I\] (?:=== )?(Host Latency|Enqueue Time|GPU Compute(?: Time)?|Latency|H2D Latency|D2H Latency)(?: ===)?\s*$"
)
_TRT_VALUE = re.compile(
    r"\[I\] (min|max|mean|median|percentile): ([\d.]+) ms(?: at (\d+)%| \(end to end ([\d.]+) ms(?: at (\d+)%)?\))*"
)
_TRT_INLINE = re.compile(
    r"\[I\] (Latency|Enqueue Time|H2D Latency|GPU Compute Time|D2H Latency): min = ([\d.]+) ms"
    r".*?mean = ([\d.]+) ms, median = ([\d.]+) ms(?:, percentile\((\d+)%\) = ([\d.]+) ms)?"
)
_TRT_THROUGHPUT = re.compile(r"\[I\] [Tt]hroughput: ([\d.]+) qps")
_TRT_MODEL = re.compile(r"\[I\] Model: (\S+)")
_TRT_TIME = re.compile(r"^\[(\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d)\]")
_IB_TEST = re.compile(r"^\s+((?:RDMA_)?(?:Write|Read|Send|Atomic\w*)) (Bidirectional )?(BW|Latency) Test")
_IB_HEADER = re.compile(r"^\s*#bytes\s+#iterations\s+(.*)$")
_IB_ROW = re.compile(r"^\s*(\d+)\s+(\d+)((?:\s+[\d.]+)+)\s*$")
_MEGATRON = re.compile(r"iteration\s+(\d+)/\s*(\d+) \|.*?elapsed time per iteration \((ms|s)\): ([\d.]+)")
_MEGATRON_FIELDS = {
    "samples per second": Metric("throughput", "samples/s", 1, "rate", "wall"),
    "TFLOPs": Metric("flops", "FLOP/s", 1, "rate", "wall", gate=False),
    "lm loss": Metric("lm_loss", "1", 0, "ratio", gate=False),
}


@dataclass(slots=True)
class _State:
    document: Document
    origin: Origin
    test: str = ""
    unit: float = 1e9
    metric: Metric = _BANDWIDTH
    columns: list[str] = field(default_factory=list)
    section: str = ""
    model: str = ""
    seen: set[str] = field(default_factory=set)
    series: dict[str, tuple[Metric, list[float], int]] = field(default_factory=dict)


def sniff(head: str) -> bool:
    lines = [line[:BRIEF_CHARS] for line in head.splitlines()[:2000]]
    return any(p.search(line) for line in lines for p in (_NVB_SUM, _NVB_RUN, _COPY, _STEP, _IB_TEST)) or (
        (("TensorRT" in head or "=== Model Options ===" in head) and "[I]" in head) or "nvbandwidth Version" in head
        or "DeepSpeed" in head or "megatron" in head.lower() or bool(_MEGATRON.search(head))
    )  # fmt: skip


def parse(document: Document) -> Iterator[Item]:
    state, found = _State(document, Origin(tool=NAME)), False
    readers: tuple[Callable[[_State, str, int], Iterator[Item]], ...] = (
        _copy,
        _step,
        _nvbandwidth,
        _tensorrt,
        _infiniband,
        _megatron,
    )
    for number, line in document.brief_lines():
        for reader in readers:
            items = list(reader(state, line, number))
            found = found or bool(items)
            yield from items
    for item in _collected(state):
        found = True
        yield item
    if not found:
        document.refuse("has no results of a tool that is known.", 1)


def _add(state: _State, key: str, metric: Metric, value: float, number: int) -> None:
    """Samples of one quantity over many lines become one record at the end."""
    entry = state.series.setdefault(key, (metric, [], number))
    if len(entry[1]) < MAX_VALUES:
        entry[1].append(value)


def _collected(state: _State) -> Iterator[Item]:
    for key, (metric, values, number) in state.series.items():
        middle = sorted(values)[(len(values) - 1) // 2 : len(values) // 2 + 1]
        where = state.document.where(number)
        value = sum(middle) / len(middle)
        yield Record(
            state.origin,
            key.partition("\0")[0],
            metric,
            where,
            value,
            samples=tuple(values),
            spread=spread_of(values),
            count=len(values),
        )


def _copy(state: _State, line: str, number: int) -> Iterator[Item]:
    match = _COPY.match(line)
    if match and (value := number_of(match[2])) is not None:
        yield Record(state.origin, f"gpu_copy/{match[1]}", _BANDWIDTH, state.document.where(number), value * 1e9)


def _step(state: _State, line: str, number: int) -> Iterator[Item]:
    match = _STEP.match(line)
    if match and (value := number_of(match[2])) is not None:
        factor = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[match[3]]
        _add(state, "dist_inference", _WALL, value * factor, number)
    yield from ()


def _nvbandwidth(state: _State, line: str, number: int) -> Iterator[Item]:  # noqa: C901 - one branch for each line that the tool prints
    if match := _NVB_RUN.match(line):
        state.test, state.columns = match[1], []
    elif match := _NVB_DRIVER.match(line):
        state.origin = Origin(
            tool="nvbandwidth", machine=state.origin.machine, environment=(Fact("node", "driver", match[1]),)
        )
    elif match := _NVB_DEVICE.match(line):
        machine = Machine(gpu_model=match[1], gpu_count=state.origin.machine.gpu_count + 1)
        state.origin = Origin(tool="nvbandwidth", machine=machine, environment=state.origin.environment)
    elif (match := _NVB_TITLE.match(line)) and state.test:
        is_time = match[1] == "latency"
        state.metric, state.unit = (_LATENCY, 1e-9 if match[2] == "ns" else 1e-6) if is_time else (_BANDWIDTH, 1e9)
    elif state.test and _NVB_COLUMNS.match(line):
        state.columns = line.split()
    elif match := _NVB_SUM.match(line):
        value = number_of(match[2])
        if value is not None:
            metric = Metric("sum", state.metric.unit, state.metric.direction, state.metric.kind, "device")
            yield Record(state.origin, match[1], metric, state.document.where(number), value * state.unit)
        state.test = ""
    elif state.test and state.columns and (match := _NVB_ROW.match(line)):
        for column, text in zip(state.columns, match[2].split(), strict=False):
            value = number_of(text)
            if value is not None and column.isdecimal():
                params: dict[str, Scalar] = {"row": int(match[1][:6]), "column": int(column[:6])}
                yield Record(
                    state.origin, state.test, state.metric, state.document.where(number), value * state.unit, params
                )


def _tensorrt(state: _State, line: str, number: int) -> Iterator[Item]:  # noqa: C901 - one branch for each line that the tool prints
    if "[I]" not in line:
        return
    name = f"trtexec/{state.model or 'model'}"
    if (stamp := _TRT_TIME.match(line)) and state.origin.measured_at is None:
        state.origin = Origin(tool="trtexec", measured_at=parse_time(stamp[1]))
    if match := _TRT_MODEL.search(line):
        state.model = match[1].rpartition("/")[2]
    elif match := _TRT_SECTION.search(line):
        state.section = _slug(match[1])
    elif match := _TRT_THROUGHPUT.search(line):
        value = number_of(match[1])
        metric = Metric("throughput", "1/s", 1, "rate", "wall")
        if value:
            yield Record(state.origin, name, metric, state.document.where(number), value)
        else:
            yield Record(
                state.origin,
                name,
                metric,
                state.document.where(number),
                outcome="failed",
                reason="no queries were timed",
            )
    elif match := _TRT_INLINE.search(line):
        section = _slug(match[1])
        for statistic, text in (
            ("min", match[2]),
            ("mean", match[3]),
            ("median", match[4]),
            (f"p{match[5]}", match[6]),
        ):
            if text and (value := number_of(text)) is not None:
                yield Record(
                    state.origin, name, _trt_metric(section, statistic), state.document.where(number), value * 1e-3
                )
    elif state.section and (match := _TRT_VALUE.search(line)):
        value = number_of(match[2])
        statistic = f"p{match[3] or match[5] or ''}" if match[1] == "percentile" else match[1]
        if value is not None:
            yield Record(
                state.origin, name, _trt_metric(state.section, statistic), state.document.where(number), value * 1e-3
            )


def _slug(text: str) -> str:
    return text.lower().replace(" ", "_")


def _trt_metric(section: str, statistic: str) -> Metric:
    return Metric(
        f"{section}_{statistic}", "s", -1, "time", "device" if "gpu" in section else "wall", gate=statistic == "median"
    )


def _infiniband(state: _State, line: str, number: int) -> Iterator[Item]:
    if match := _IB_TEST.match(line):
        state.test = _slug(f"ib_{match[1]}_{(match[2] or '').strip()}_{match[3]}").replace("__", "_")
    elif match := _IB_HEADER.match(line):
        state.columns = re.findall(r"[#\w%. -]+?\[[^\]]+\]", match[1])
    elif state.columns and state.test.startswith("ib_") and (match := _IB_ROW.match(line)):
        key = " ".join(line.split())
        if key in state.seen:
            return  # both ends of a loop print the last row
        if len(state.seen) < MAX_VALUES:
            state.seen.add(key)
        params: dict[str, Scalar] = {"size": int(match[1][:18])}
        for column, text in zip(state.columns, match[3].split(), strict=False):
            value = number_of(text)
            metric, factor = _ib_metric(column.strip())
            if value is not None:
                yield Record(state.origin, state.test, metric, state.document.where(number), value * factor, params)


def _ib_metric(column: str) -> tuple[Metric, float]:
    label, _, unit = column.rstrip("]").partition("[")
    name = _slug(label.strip().lstrip("#"))
    gate = "average" in name or "typical" in name
    if unit in {"MB/sec", "MiB/sec"}:
        return Metric(name, "B/s", 1, "rate", "wall", gate), 2.0**20  # perftest's MB are 2^20 bytes
    if unit == "Gb/sec":
        return Metric(name, "B/s", 1, "rate", "wall", gate), 1e9 / 8
    if unit == "Mpps":
        return Metric(name, "1/s", 1, "rate", "wall", gate=False), 1e6
    if unit in {"usec", "us"}:
        return Metric(name, "s", -1, "time", "wall", gate), 1e-6
    return Metric(name, unit[:40] or "1", 0, "counter", gate=False), 1.0


def _megatron(state: _State, line: str, number: int) -> Iterator[Item]:
    match = _MEGATRON.search(line)
    if match and (value := number_of(match[4])) is not None:
        factor = 1e-3 if match[3] == "ms" else 1.0
        _add(state, "megatron\0time", Metric("time_per_iteration", "s", -1, "time", "wall"), value * factor, number)
        for part in line.split("|"):
            label, colon, text = part.strip().partition(":")
            metric = _MEGATRON_FIELDS.get(label.strip())
            if metric and colon and (number_ := number_of(text)) is not None:
                scale = 1e12 if label.strip() == "TFLOPs" else 1.0
                _add(state, f"megatron\0{metric.name}", metric, number_ * scale, number)
    yield from ()
