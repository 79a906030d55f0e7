"""What a foreign unit means: its factor to the unit we keep, the kind of metric and which way is better."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from groundspeed.service.formats.records import Clock, Direction, Kind, Metric


@dataclass(frozen=True, slots=True)
class Unit:
    """``value * factor`` is in ``unit``."""

    unit: str
    factor: float
    kind: Kind
    direction: Direction


_TIME = {
    "ns": 1e-9, "nsec": 1e-9, "nanosecond": 1e-9, "nanoseconds": 1e-9,
    "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "usec": 1e-6, "microsecond": 1e-6, "microseconds": 1e-6,
    "ms": 1e-3, "msec": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3,
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "minutes": 60.0, "h": 3600.0, "hr": 3600.0, "hours": 3600.0,
    "minute": 60.0, "hour": 3600.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip
_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_BINARY = {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40}
_BYTES = re.compile(r"^(ki|mi|gi|ti|k|m|g|t|p)?(b|byte|bytes)$", re.IGNORECASE)
_FLOPS = re.compile(r"^(k|m|g|t|p)?(flops?/s|flops|flop/s)$", re.IGNORECASE)
_PER_SECOND = re.compile(r"^(.*?)(?:/|\s+per\s+)(?:s|sec|second)$", re.IGNORECASE)
_PER_TIME = re.compile(r"^(.*?)(?:/|\s+per\s+)(ns|us|µs|μs|ms|min|minute|hr|hour|day)$", re.IGNORECASE)
_PER_OPERATION = {"op", "iter", "iteration", "call", "ops", "run"}
_SCALED = re.compile(r"^(k|m|g|t)(.+)$", re.IGNORECASE)
_RATES = {"hz": ("1/s", 1.0), "qps": ("1/s", 1.0), "tps": ("1/s", 1.0), "fps": ("1/s", 1.0), "rps": ("1/s", 1.0)}


def parse_unit(text: str) -> Unit:  # noqa: PLR0911 - one return for each family of units
    """The meaning of a unit as tools write it; one that is not known keeps its text, as a counter without direction."""
    raw = text.strip()
    low = raw.lower()
    simple = _time_or_bytes(raw)
    if simple:
        return simple
    if low in _RATES:
        name, factor = _RATES[low]
        return Unit(name, factor, "rate", 1)
    if match := _FLOPS.match(raw):
        return Unit("FLOP/s", _PREFIX[(match[1] or "").lower()], "rate", 1)
    if match := _PER_SECOND.match(raw):
        return _per_second(match[1])
    if match := _PER_TIME.match(raw):
        if match[1].lower() in _TIME:  # simulated time, as in ns/day
            return Unit(raw, 1.0, "rate", 1)
        rate = _per_second(match[1])
        return replace(rate, factor=rate.factor / _TIME[match[2].lower()])
    head, _, tail = raw.rpartition("/")
    if head and tail.lower() in _PER_OPERATION:
        return _time_or_bytes(head) or Unit(raw, 1.0, "counter", -1)
    if low in {"%", "percent", "percentage"}:
        return Unit("1", 0.01, "ratio", 0)
    if low in {"", "1", "x", "ratio", "speedup"}:
        return Unit("1", 1.0, "ratio", 1 if low in {"x", "speedup"} else 0)
    return Unit(raw[:40], 1.0, "counter", 0)


def _time_or_bytes(raw: str) -> Unit | None:
    factor = _TIME.get(raw.lower())
    if factor is not None:
        return Unit("s", factor, "time", -1)
    if match := _BYTES.match(raw):
        prefix = (match[1] or "").lower()
        return Unit("B", _BINARY.get(prefix) or _PREFIX[prefix], "bytes", -1)
    return None


def _per_second(what: str) -> Unit:
    word = what.strip()
    if match := _BYTES.match(word):
        prefix = (match[1] or "").lower()
        return Unit("B/s", _BINARY.get(prefix) or _PREFIX[prefix], "rate", 1)
    low = word.lower()
    if low in {"", "1", "op", "ops", "iter", "iters", "iterations", "i", "item", "items", "elem", "elements"}:
        return Unit("1/s", 1.0, "rate", 1)
    if (match := _SCALED.match(word)) and match[2].lower() in {"op", "ops", "elem", "elements", "item", "items"}:
        return Unit("1/s", _PREFIX[match[1].lower()], "rate", 1)
    return Unit(f"{word}/s"[:40], 1.0, "rate", 1)


def metric(
    name: str, unit: Unit, *, clock: Clock = "none", gate: bool = True, direction: Direction | None = None
) -> Metric:
    """A metric whose meaning follows from its unit, unless ``direction`` says better."""
    return Metric(name[:200], unit.unit, unit.direction if direction is None else direction, unit.kind, clock, gate)
