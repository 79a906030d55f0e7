"""How the raw samples of a result are kept: zlib over float64 values, then one state byte each."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence
from sys import byteorder

STATES = ("valid", "degraded", "rejected")
"""A sample's state is kept as its index in this tuple."""

_LEVEL = 1
_BYTES = 9


def pack(values: Sequence[float], states: Sequence[str] = ()) -> bytes:
    """Compress ``values`` (any unit) and their ``states``; no states: all valid.

    Raises ``ValueError`` for a state that is none, or when the lengths differ.
    """
    if states and len(states) != len(values):
        raise ValueError(f"{len(values)} values and {len(states)} states")
    numbers = array("d", values)
    if byteorder == "big":
        numbers.byteswap()
    codes = bytes(STATES.index(state) for state in states) if states else bytes(len(values))
    return zlib.compress(numbers.tobytes() + codes, _LEVEL)


def unpack(blob: bytes) -> tuple[list[float], list[str]]:
    """The values and states that ``pack`` was given. Raises ``ValueError`` for bytes that it did not make."""
    try:
        raw = zlib.decompress(blob)
    except zlib.error as error:
        raise ValueError(f"not packed samples: {error}") from error
    count, rest = divmod(len(raw), _BYTES)
    if rest or any(code >= len(STATES) for code in raw[8 * count :]):
        raise ValueError("not packed samples: a length or a state that cannot be")
    numbers = array("d")
    numbers.frombytes(raw[: 8 * count])
    if byteorder == "big":
        numbers.byteswap()
    return numbers.tolist(), [STATES[code] for code in raw[8 * count :]]
