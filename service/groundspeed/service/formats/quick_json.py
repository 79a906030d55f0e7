"""JSON with Python's NaN in it, at the speed of a reader that knows none: a NaN outside texts is read as ``false``.

For files that are many and large; whoever reads one has to know where a number stands. What the quick reader does not
take (Infinity, a ``false`` of its own beside a NaN, text that is not UTF-8) is left to the usual one, which also says
what is wrong with a file.
"""

from __future__ import annotations

from typing import Any

import orjson


class NotQuick(Exception):
    """The usual reader has to read this."""


def loads(data: bytes) -> tuple[Any, bool]:
    """The document, and whether every ``False`` in it stands for a NaN. Raises :class:`NotQuick`."""
    marked = b"NaN" in data
    if marked:
        if b"false" in data:
            raise NotQuick
        data = b"".join(_marked(data))
    try:
        return orjson.loads(data), marked
    except orjson.JSONDecodeError as error:
        raise NotQuick from error


def _marked(data: bytes) -> list[bytes]:
    """The document in pieces, those that were NaN outside a text as ``false``."""
    plain = data.replace(b"\\\\", b"__") if b"\\" in data else data  # what escapes a quote now does so for sure
    pieces: list[bytes] = []
    at, inside = 0, False
    while (found := data.find(b"NaN", at)) >= 0:
        quotes = plain.count(b'"', at, found) - plain.count(b'\\"', at, found)
        inside ^= bool(quotes % 2)
        pieces += (data[at:found], b"NaN" if inside else b"false")
        at = found + 3
    pieces.append(data[at:])
    return pieces
