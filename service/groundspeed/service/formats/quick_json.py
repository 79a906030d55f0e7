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
    first, *others = data.split(b"NaN")
    pieces, inside = [first], _is_odd(first)
    for piece in others:
        pieces += (b"NaN" if inside else b"false", piece)
        inside ^= _is_odd(piece)
    return pieces


def _is_odd(piece: bytes) -> bool:
    """Whether a text begins or ends in it that does not end or begin there too."""
    if b"\\" not in piece:
        return bool(piece.count(b'"') % 2)
    plain = piece.replace(b"\\\\", b"__")  # what escapes a quote now does so for sure
    return bool((plain.count(b'"') - plain.count(b'\\"')) % 2)
