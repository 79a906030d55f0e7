"""Names by content: the same things have the same fingerprint on every machine and in every year.

A fingerprint is the SHA-256 of canonical JSON (sorted keys, no blanks). What goes in is fixed for ever: a change here
would start every series anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from groundspeed.service.wire.v1 import Facet, HardwareSpec

ENVIRONMENT_LAYERS = ("node", "stack")


def of(content: Any) -> str:
    """SHA-256 in hexadecimal of ``content`` as canonical JSON. Raises ``ValueError`` for NaN and infinities."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def hardware(spec: HardwareSpec) -> str:
    """The class of machine. Memory is rounded to GiB: firmware reserves differing amounts on equal machines."""
    facts = spec.model_dump()
    facts["memory_bytes"] = round(spec.memory_bytes / 2**30)
    return of(facts)


def environment_facets(facets: Iterable[Facet]) -> list[dict[str, Any]]:
    """The facets that make an environment: tracked, of node or stack, in a fixed order."""
    kept = [f for f in facets if f.tracked and f.layer in ENVIRONMENT_LAYERS]
    return [f.model_dump() for f in sorted(kept, key=_place)]


def environment(facets: Iterable[Facet]) -> str:
    """Fingerprint of node and stack. Why a value could not be read is not part of it."""
    return of([[f["layer"], f["name"], f["value"]] for f in environment_facets(facets)])


def build(facets: Iterable[Facet]) -> str:
    """Fingerprint of what a revision resolved."""
    return of(sorted([f.layer, f.name, f.value or ""] for f in facets))


def series(benchmark_id: int, params: Mapping[str, Any], metric: str, hardware_fingerprint: str) -> str:
    """One line of history. 8 and 8.0 are the same parameter value, 1 and true are not."""
    return of([benchmark_id, {name: _plain(value) for name, value in params.items()}, metric, hardware_fingerprint])


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _place(facet: Facet) -> tuple[str, str]:
    return facet.layer, facet.name
