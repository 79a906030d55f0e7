"""What NVBench prints for people, its Markdown on the console, and its CSV: read as its JSON is, as far as they go."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from groundspeed.service.formats.nvbench import METRICS, NAME, NORMAL_MAD
from groundspeed.service.formats.records import Item, Machine, Metric, Origin, Record, Scalar, Skipped, Where, number_of
from groundspeed.service.formats.source import Document

_CSV_HEAD = "Benchmark,Device,Device Name,"
_RESULTS = "# Benchmark Results"
_DEVICES = re.compile(r"^# Devices[ \t]*\n+## \[\d+\] `", re.MULTILINE)
_DEVICE = re.compile(r"### \[(\d+)\] (.+)")
_COLUMNS: dict[str, Metric] = {
    "GPU Time": METRICS["nv/cold/time/gpu/mean"],
    "CPU Time": METRICS["nv/cold/time/cpu/mean"],
    "Batch GPU": METRICS["nv/batch/time/gpu/mean"],
    "Elem/s": METRICS["nv/cold/bw/item_rate"],
    "GlobalMem BW": METRICS["nv/cold/bw/global/bytes_per_second"],
    "BWUtil": METRICS["nv/cold/bw/global/utilization"],
}
_OF_DISTRIBUTION = re.compile(r"Noise|Samples|Walltime|Skipped|(?:Rel )?I[QR]+|(?:Min|Max|Median|Q1|Q3) [CG]PU Time")
"""Columns that say how a time was distributed and taken, not what was measured."""
_FIXED = {"Benchmark", "Device", "Device Name", "Batch", "GlobalMem BWUtil"}
_POWER = re.compile(r"2\^\d+ = (\d+)")
_BYTES = re.compile(r"[\d.]+ [KMG]?i?B")
_AMOUNT = re.compile(r"(-?[\d.]+(?:e[-+]?\d+)?)\s?([a-zA-Z/%]*)")
_SCALES = {
    "": 1.0, "x": 1.0, "%": 0.01, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "P": 1e15, "Hz": 1.0, "KHz": 1e3, "MHz": 1e6, "GHz": 1e9, "B": 1.0,
    "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3,
    **{f"{prefix}B/s": 10.0 ** (3 * i) for i, prefix in enumerate(("", "K", "M", "G", "T", "P"))},
}  # fmt: skip


def is_csv(head: str) -> bool:
    return head.lstrip("\ufeff").startswith(_CSV_HEAD)


def is_markdown(head: str) -> bool:
    return _DEVICES.search(head) is not None or f"\n{_RESULTS}\n" in f"\n{head}\n"


def parse_csv(document: Document) -> Iterator[Item]:
    names: list[str] = []
    found = False
    for number, line in document.lines():
        try:
            cells = next(csv.reader([line.lstrip("\ufeff")]), [])
        except csv.Error:
            cells = []
        if not names:
            names = cells if is_csv(line) else []
        elif cells:
            found = True
            yield from _row(
                dict(zip(names, cells, strict=False)), list(zip(names, cells, strict=False)), document.where(number)
            )
    if not found:
        document.refuse("has no rows below its header.", 1)


def _row(row: Mapping[str, str], cells: Sequence[tuple[str, str]], where: Where) -> Iterator[Item]:
    name = row.get("Benchmark", "")
    if not name:
        yield Skipped("has no name", where)
        return
    origin = _origin(row.get("Device", ""), row.get("Device Name", ""))
    params = {
        key: _scalar(text)
        for key, text in row.items()
        if key and text and "(" not in key and key not in _FIXED | _COLUMNS.keys() and not _OF_DISTRIBUTION.match(key)
    }
    if row.get("Skipped", "No") not in {"No", ""}:
        metric = _COLUMNS["GPU Time"]
        yield Record(origin, name, metric, where, params=params, outcome="skipped", reason=row["Skipped"][:300])
        return
    plain = [(key.partition(" (")[0], f"{text}%" if key.endswith("(%)") else text) for key, text in cells]
    yield from _measured(
        origin, name, params, [c for c in plain if c[0] in _COLUMNS or _OF_DISTRIBUTION.match(c[0])], where
    )


def parse_markdown(document: Document) -> Iterator[Item]:
    """The tables under "# Benchmark Results", and what the log before them says of what was skipped or failed."""
    began, found = False, False
    name, origin, names = "", _origin("", ""), list[str]()
    for number, line in document.lines():
        where = document.where(number)
        if line.startswith("#"):
            began = began or line.strip() == _RESULTS
            names = []
            if began and line.startswith("## "):
                name, origin = line[3:].strip(), _origin("", "")
            elif began and (device := _DEVICE.match(line)):
                origin = _origin(device[1], device[2].strip())
        elif line.startswith(("Skip: ", "Fail: ")):
            found = True
            yield Skipped(f"was not measured: {line[6:].strip()[:200]}", where)
        elif began and line.startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not names:
                names = cells
            elif not all(re.fullmatch(":?-+:?", cell) for cell in cells):
                found = True
                yield from _line(origin, name, names, cells, where)
    if not found:
        document.refuse("has no table of results.", 1, "Is the file complete?")


def _line(origin: Origin, name: str, names: Sequence[str], cells: Sequence[str], where: Where) -> Iterator[Item]:
    if not name or len(cells) != len(names):
        yield Skipped("is a row that does not fit its table", where)
        return
    pairs = list(zip(names, cells, strict=True))
    at = next((i for i, key in enumerate(names) if key in _COLUMNS or _OF_DISTRIBUTION.match(key)), len(names))
    params = {key: _scalar(text) for key, text in pairs[:at] if key and text and not _BYTES.fullmatch(text)}
    yield from _measured(origin, name, params, pairs[at:], where)


def _measured(
    origin: Origin, name: str, params: Mapping[str, Scalar], cells: Sequence[tuple[str, str]], where: Where
) -> Iterator[Item]:
    """What stands in one row; the noise of a time stands behind it, the number of samples before."""
    count, found = 1, False
    on_gpu = any(key == "GPU Time" and text for key, text in cells)
    for i, (key, text) in enumerate(cells):
        if key == "Samples":
            samples = _amount(text)
            count = int(samples) if samples and 1 <= samples < 1e15 else 1
        if (key not in _COLUMNS and _OF_DISTRIBUTION.match(key)) or (value := _amount(text)) is None:
            continue
        found = True
        metric = _COLUMNS.get(key) or Metric(key[:200] or "unnamed", "1", 0, "counter", gate=False)
        metric = metric if on_gpu or key != "CPU Time" else replace(metric, gate=True)
        noise = (
            _amount(cells[i + 1][1])
            if metric.kind == "time" and i + 1 < len(cells) and cells[i + 1][0].startswith("Noise")
            else None
        )
        yield Record(
            origin, name, metric, where, value, params, count=count,
            spread=NORMAL_MAD * max(noise or 0.0, 0.0) * abs(value),
            summary={} if noise is None else {"relative_stdev": noise},
        )  # fmt: skip
    if not found:
        yield Skipped("has no time and no rate", where)


def _origin(device: str, name: str) -> Origin:
    return Origin(
        tool=NAME,
        machine=Machine(gpu_model=name[:200], gpu_count=1 if name else 0),
        label=f"device {device[:20]}" if name else "",
    )


def _scalar(text: str) -> Scalar:
    """An axis' value: a number where it is one; of "2^3 = 8" what stands behind."""
    power = _POWER.fullmatch(text)
    plain = power[1] if power else text
    if re.fullmatch(r"-?[0-9]{1,15}", plain):
        return int(plain)
    number = number_of(plain) if plain[-1:].isdigit() else None
    return plain if number is None else number


def _amount(text: str) -> float | None:
    """A number with the prefix or unit that NVBench gives it."""
    match = _AMOUNT.fullmatch(text)
    scale = _SCALES.get(match[2]) if match else None
    number = number_of(match[1]) if match else None
    return None if number is None or scale is None else number * scale
