"""What a run recorded of its surroundings, as a flat list of words and figures.

Reports nest (device, host, hygiene), summarise readings as ``{"median", "min", "max"}``, and say of what could not be
read ``{"unavailable": "why"}``. Here each of these is one entry.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

DEEPEST = 6


def leaves(conditions: Mapping[str, Any], before: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """(name with the names above it, value or summary) of everything that is recorded, in its order."""
    for key, value in conditions.items():
        name = f"{before} {key}".strip().replace("_", " ")
        nested = isinstance(value, Mapping) and not ("median" in value or "unavailable" in value)
        if nested and depth < DEEPEST:
            yield from leaves(value, name, depth + 1)
        else:
            yield name, value


def number(value: Any) -> float | None:
    """The figure that stands for a value: the median of a summary; None for what is no number."""
    found = value.get("median") if isinstance(value, Mapping) else value
    if not isinstance(found, (int, float)) or isinstance(found, bool) or not math.isfinite(found):
        return None
    return float(found)


def hygiene(conditions: Mapping[str, Any]) -> list[str]:
    """What made a run's surroundings doubtful, in words."""
    found = conditions.get("hygiene")
    if not isinstance(found, Mapping):
        return []
    return [str(text) for when in ("before", "during") for text in found.get(when) or () if isinstance(text, str)]
