"""What differs between two stored environments or builds, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from groundspeed.service.domain import environments as e

Rows = Sequence[Mapping[str, Any]]


def facets(rows: Rows) -> tuple[e.Facet, ...]:
    """Stored facets as the domain compares them."""
    return tuple(
        e.Facet(row["layer"], row["name"], row["value"], row.get("reason", ""), row.get("tracked", True))
        for row in rows
    )


def in_words(before: Rows, after: Rows) -> tuple[str, ...]:
    """One line a difference (``node gpu.driver: 535.161 → 570.86``), devices together.

    What could not be read on one side is not comparable, which is said; what could be read on neither is left out.
    """
    return e.collapse(news(e.difference(facets(before), facets(after))))


def news(changes: Iterable[e.FacetChange]) -> tuple[e.FacetChange, ...]:
    return tuple(one for one in changes if one.kind != "unknown" or (one.before is None) != (one.after is None))
