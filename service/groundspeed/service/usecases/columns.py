"""What the columns of a table are, as whoever brings it says."""

from __future__ import annotations

from collections.abc import Sequence

from groundspeed.service.errors import Invalid
from groundspeed.service.formats.csv_table import ColumnMap, parse_mapping


def columns(entries: Sequence[str]) -> ColumnMap | None:
    """The mapping that ``role=column`` entries make, None without any. Raises :class:`Invalid` with what is allowed."""
    if not entries:
        return None
    try:
        return parse_mapping(entries)
    except ValueError as error:
        raise Invalid("The mapping of columns cannot be used.", str(error)) from None
