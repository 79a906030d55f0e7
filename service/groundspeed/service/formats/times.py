"""Times as tools write them. One without a zone is taken as UTC: a wrong zone shifts a history, it does not reorder
it.
"""

from __future__ import annotations

from datetime import UTC, datetime

_FORMATS = (
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y%m%d-%H%M%S", "%Y%m%dT%H%M%S", "%Y%m%dT%H%M%SZ",
    "%Y-%m-%dT%H-%M-%S", "%Y-%m-%d_T%H-%M-%S", "%Y-%m-%d_%H-%M-%S", "%Y/%m/%d %H:%M:%S", "%m/%d/%Y-%H:%M:%S",
    "%Y-%m-%d", "%a %b %d %H:%M:%S %Y",
)  # fmt: skip
EARLIEST_S = 0.0
LATEST_S = 4102444800.0
"""2100-01-01: what lies beyond is no time of a measurement."""
SCALES = (1.0, 1e3, 1e6, 1e9)
"""Units of a second in which tools count: the first that gives a time of a measurement is it."""


def parse_time(value: object) -> datetime | None:
    """The moment that a text or a number of seconds, milli-, micro- or nanoseconds since 1970 names; None: no time."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return _from_number(float(value)) if abs(value) < 1e20 else None
    if not isinstance(value, str):
        return None
    text = value.strip()
    if not text:
        return None
    try:
        return as_utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return _from_formats(text)


def _from_formats(text: str) -> datetime | None:
    for pattern in _FORMATS:
        try:
            return datetime.strptime(text, pattern).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def _from_number(number: float) -> datetime | None:
    for scale in SCALES:
        seconds = number / scale
        if EARLIEST_S < seconds < LATEST_S:
            return datetime.fromtimestamp(seconds, UTC)
    return None


def as_utc(moment: datetime) -> datetime:
    """The same moment in UTC; one without a zone is taken to be in UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
