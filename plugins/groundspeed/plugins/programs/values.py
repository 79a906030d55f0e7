"""What a parser finds: values of the command plugin's metrics. And the units that programs print."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from groundspeed.plugins.spi import ParamValue


@dataclass(frozen=True, slots=True)
class Value:
    """One number in the metric's own unit. ``params`` extend the key of its series."""

    metric: str
    value: float
    params: Mapping[str, ParamValue] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """What one run's output said. ``wrong``: why its result must not count; ``failed``: why there is none."""

    values: list[Value] = field(default_factory=list)
    wrong: str = ""
    failed: str = ""

    def add(self, metric: str, value: float | None, **params: ParamValue) -> None:
        """Numbers that are none are left out."""
        if value is not None and math.isfinite(value):
            self.values.append(Value(metric, value, params))


_TIME = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0, "min": 60.0}
_PREFIX = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
           "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}  # fmt: skip
_BYTES = re.compile(r"^(Ki|Mi|Gi|Ti|[kKMGT])?B(/s|ps)?$")
_RATE = re.compile(r"^(.*)/(?:s|sec|second)$")
_RATE_WORDS = {"qps", "fps", "rps", "tps", "Hz"}


def family(unit: str, direction: str) -> tuple[str, float]:
    """(metric, factor): where a value of a stated unit is kept, and what it is multiplied with."""
    if unit in _TIME:
        return "reported_time", _TIME[unit]
    if match := _BYTES.match(unit):
        return ("reported_bandwidth" if match[2] else "reported_bytes"), _PREFIX[match[1] or ""]
    if unit in _RATE_WORDS or _RATE.match(unit):
        return "reported_rate", 1.0
    return ("reported_lower" if direction == "lower" else "reported_higher"), 1.0


def number(text: str | None) -> float | None:
    """The finite number that a text is; None for anything else."""
    try:
        value = float((text or "").strip().replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
