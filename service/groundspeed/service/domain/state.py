"""The detector's state between two points, and its bytes."""

import json
import struct
import zlib
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np

from groundspeed.service.domain.findings import ChangePoint, Drift, EnvironmentEffect, NoiseLedger
from groundspeed.service.domain.history import EMPTY, Stretch
from groundspeed.service.domain.series import Ints

DETECTOR_VERSION = "2"
_HEADER = struct.Struct("<4sI")
_MAGIC = b"GSD3"
_OLDER = b"GSD1"
"""Before, all was compressed together, also the values: that saved a quarter of these and took most of the time."""
SHORT_TEXT = 1000
"""A document of so many bytes is not worth compressing."""


@dataclass(frozen=True, slots=True)
class DetectorState:
    """What is settled, and the open stretch. Its size does not grow with the series but for its settled findings."""

    settled: tuple[ChangePoint, ...] = ()
    effects: tuple[EnvironmentEffect, ...] = ()
    stretch: Stretch = EMPTY
    noise: NoiseLedger | None = None

    def to_bytes(self) -> bytes:
        """A compact form for storing; ``from_bytes`` reads it."""
        s = self.stretch
        doc = {
            "version": DETECTOR_VERSION,
            "settled": [as_row(c) for c in self.settled],
            "effects": [as_row(e) for e in self.effects],
            "noise": None if self.noise is None else as_row(self.noise),
            "names": s.names,
            "many": s.many,
            "offset": s.offset,
            "lock": s.lock,
            "sealed": s.sealed,
            "size": s.size,
        }
        text = json.dumps(doc).encode()
        packed = zlib.compress(text, 0 if len(text) <= SHORT_TEXT else 1)
        arrays = zlib.compress(b"".join(a.tobytes() for a in (_gaps(s.x), s.count, s.environment)), 1)
        return b"".join((_HEADER.pack(_MAGIC, len(text)), packed, arrays, s.y.tobytes()))

    @classmethod
    def from_bytes(cls, data: bytes) -> "DetectorState | None":
        """None when the bytes are another detector version's, or no whole state: detect from all points again."""
        if len(data) < _HEADER.size or data[:4] not in {_MAGIC, _OLDER}:
            return None
        try:
            return cls._read(data)
        except (
            zlib.error,
            ValueError,
            KeyError,
            TypeError,
        ):  # cut off or overwritten, it fails anywhere
            return None

    @classmethod
    def _read(cls, data: bytes) -> "DetectorState | None":
        magic, length = _HEADER.unpack_from(data)
        packed = zlib.decompressobj()
        body = packed.decompress(data[_HEADER.size :])
        doc = json.loads(body[:length])
        if doc["version"] != DETECTOR_VERSION:
            return None
        n = doc["size"]
        if magic == _OLDER:
            x, count, environment = (np.frombuffer(body, np.int64, n, length + 8 * n * i) for i in (0, 2, 3))
            y = np.frombuffer(body, np.float64, n, length + 8 * n)
        else:
            arrays = zlib.decompressobj()
            gaps, count, environment = np.frombuffer(arrays.decompress(packed.unused_data), np.int64).reshape(3, n)
            x, y = gaps.cumsum(), np.frombuffer(arrays.unused_data, np.float64)
            if not arrays.eof or y.size != n:
                return None
        many = tuple((int(i), tuple(map(float, v))) for i, v in doc["many"])
        kept = doc["offset"], doc["lock"], doc["sealed"]
        stretch = Stretch(x, y, count, environment, tuple(doc["names"]), many, *kept)
        return cls(
            tuple(_change(c) for c in doc["settled"]),
            tuple(EnvironmentEffect(**e) for e in doc["effects"]),
            stretch,
            None if doc["noise"] is None else NoiseLedger(**doc["noise"]),
        )


def _gaps(x: Ints) -> Ints:
    """Of each to the one before, of the first to nought: they repeat, and so compress."""
    gaps = x.copy()
    gaps[1:] -= x[:-1]
    return gaps


def as_row(one: ChangePoint | EnvironmentEffect | NoiseLedger | Drift) -> dict[str, Any]:
    """What was found as a document; its fields are plain values, which are taken as they are."""
    kind: Any = type(one)
    return {name: getattr(one, name) for name in _names(kind)}


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _change(row: dict[str, object]) -> ChangePoint:
    row["unmeasured"] = tuple(row["unmeasured"])  # type: ignore[arg-type]
    return ChangePoint(**row)  # type: ignore[arg-type]
