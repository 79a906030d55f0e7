"""How figures, changes and names are written. The scripts of the pages write them the same way (web/src/format.ts)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from groundspeed.service.usecases import written
from groundspeed.service.usecases.views.conditions import leaves
from groundspeed.service.wire import views as v

THIN = "\u202f"
MINUS = "\u2212"
_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BINARY = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
_DECIMAL = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_PREFIXED = frozenset({"B/s", "FLOP/s", "FLOPS", "flop/s", "Hz", "W", "J"})


def digits(value: float, figures: int = 4) -> str:
    """``value`` with so many significant figures, thin spaces between thousands, never in exponents below 1e15."""
    if value == 0:
        return "0"
    if abs(value) >= 1e15 or abs(value) < 1e-6:
        return f"{value:.{figures - 1}e}".replace("-", MINUS)
    places = max(0, figures - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}".replace(",", THIN).replace("-", MINUS)


def scale_of(value: float, unit: str) -> tuple[float, str]:
    """(factor, unit) in which a value of that size is best read."""
    size = abs(value)
    if unit == "s" and size > 0:
        return next(((f, u) for f, u in _TIME if size >= f), _TIME[-1])
    if unit in {"B", "bytes"} and size > 0:
        return next(((f, u) for f, u in _BINARY if size >= f), _BINARY[-1])
    if unit in _PREFIXED or (unit and size >= 1e6):
        return next(((f, p + unit) for f, p in _DECIMAL if size >= f), (1.0, unit))
    return 1.0, unit


def quantity(value: float | None, unit: str = "") -> str:
    """A value with its unit: 12.34 ms, 3.21 GiB, 412.0 samples/s; a dash when there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    factor, name = scale_of(value, unit)
    number = digits(value / factor)
    return f"{number}{THIN}{name}" if name and name != "1" else number


def percent(ratio: float | None, figures: int = 1) -> str:
    """A ratio as a signed change: 1.19 is +19.0 %; from threefold on as a factor."""
    if ratio is None or not math.isfinite(ratio):
        return "–"
    if ratio >= 3:
        return f"×{digits(ratio, 3)}"
    change = (ratio - 1) * 100
    places = figures if abs(change) < 99.95 else 0
    text = f"{abs(change):.{places}f}"
    sign = "" if float(text) == 0 else "+" if change > 0 else MINUS
    return f"{sign}{text}{THIN}%"


def share(value: float | None) -> str:
    """A relative spread: ±0.6 %."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"±{digits(value * 100, 2)}{THIN}%"


def interval(effect: v.Effect) -> str:
    """The confidence interval of a change, or nothing when there is none."""
    if effect.low is None or effect.high is None:
        return ""
    return f"{percent(effect.low)} … {percent(effect.high)}"


def verdict_class(effect: v.Effect | None, direction: int) -> str:
    """worse, better or moved: how a change is coloured for a metric of that direction."""
    if effect is None or effect.ratio is None or direction == 0 or effect.ratio == 1:
        return "moved"
    return "better" if (effect.ratio > 1) == (direction > 0) else "worse"


_NAMES = {
    "half width": "95 % interval of the median", "steady": "steady state was reached", "turn s": "turn in the lease",
    "overhead share": "not spent measuring", "preempted share": "samples that were preempted",
    "control cpu s": "control workload", "start": "started",
}  # fmt: skip
"""What the shortest names mean."""
_WORDS = {"mhz": "MHz", "w": "W", "c": "°C", "s": "s", "bytes": "B"}


def conditions(recorded: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a run recorded of its surroundings as (name, text); what could not be read says why."""
    return [(_bare(name), _condition(name, value)) for name, value in leaves(recorded) if value not in ({}, [], None)]


def _bare(name: str) -> str:
    """A name without the unit at its end, which stands with the value."""
    if name in _NAMES:
        return _NAMES[name]
    head, _, last = name.rpartition(" ")
    return head if head and last in _WORDS else name


def _condition(name: str, value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if name == "half width":
            return share(value)
        if name.endswith(" share") or " clock events " in name:  # of the samples, of the readings
            return f"{digits(value * 100, 2)}{THIN}%"
    unit = _WORDS.get(name.rpartition(" ")[2], "")
    if isinstance(value, Mapping) and "unavailable" in value:
        return f"not known: {value['unavailable']}"
    if isinstance(value, Mapping):
        ends = [figure(value[end], unit) for end in ("min", "max") if end in value]
        return figure(value.get("median"), unit) + (f" ({' to '.join(ends)})" if len(set(ends)) > 1 else "")
    if isinstance(value, (list, tuple)):
        return ", ".join(written.value(one) for one in value)
    return figure(value, unit)


def figure(value: Any, unit: str) -> str:
    """A number in its unit, or whatever else it is as text."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return quantity(float(value), unit) if unit else f"{value:.4g}"
    return "–" if value is None else written.value(value)


def short(sha: str) -> str:
    return sha[:10]


def stamp(moment: datetime | float | None) -> str:
    """Minutes are enough: 2026-03-20 12:00."""
    if moment is None:
        return "–"
    if isinstance(moment, (int, float)):
        moment = datetime.fromtimestamp(moment, UTC)
    return moment.strftime("%Y-%m-%d %H:%M")


def iso(moment: datetime | float) -> str:
    """For the datetime attribute of a time element."""
    if isinstance(moment, (int, float)):
        moment = datetime.fromtimestamp(moment, UTC)
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: float | None) -> str:
    """4.2 s, 3 min 20 s, 2 h 5 min."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 60:
        return quantity(seconds, "s") if seconds else f"0{THIN}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}{THIN}min {rest}{THIN}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}{THIN}h {minutes}{THIN}min"
