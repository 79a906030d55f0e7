"""Detection as a fold over points: a stretch is settled when it is full, and only the open end is ever analysed again.

From scratch and one point at a time give the same change points because from scratch *is* the fold. When the open
stretch reaches SPAN points it is analysed, its change points older than the newest GUARD points are settled for good,
and it is cut back to its last KEEP points (or to its last settled change point, if that is nearer). Whatever the
length of the series, a new point costs one analysis of at most SPAN points.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundspeed.service.domain.series import Columns, Floats, Ints

SPAN = 1536
KEEP = 320
GUARD = 192


class StaleStateError(ValueError):
    """A point lies before what the state has settled: detect again from all points."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The open end of a series: columns, and what is already decided about them.

    ``offset`` counts the measured points before it, ``lock`` its own leading points whose change points are settled,
    ``sealed`` the newest x that a settled decision has used (None: nothing settled yet), ``many`` the values of
    points that have several processes, by index into the columns.
    """

    x: Ints
    y: Floats
    count: Ints
    environment: Ints
    names: tuple[str, ...] = ()
    many: tuple[tuple[int, tuple[float, ...]], ...] = ()
    offset: int = 0
    lock: int = 0
    sealed: int | None = None

    @property
    def size(self) -> int:
        return self.x.size

    def boundaries(self) -> tuple[int, ...]:
        """Indices whose known environment differs from the known one before."""
        known = self.environment
        if len(self.names) < 2 or known.size == 0:
            return ()
        at = np.nonzero((known[1:] != known[:-1]) & (known[1:] >= 0) & (known[:-1] >= 0))[0] + 1
        return tuple(at.tolist())

    def head(self, n: int) -> "Stretch":
        """The first n points."""
        return replace(
            self,
            x=self.x[:n],
            y=self.y[:n],
            count=self.count[:n],
            environment=self.environment[:n],
            many=tuple(m for m in self.many if m[0] < n),
        )

    def cut(self, start: int, end: int) -> "Stretch":
        """What stays open after the first ``end`` points were settled and all before ``start`` forgotten."""
        return replace(
            self,
            x=self.x[start:],
            y=self.y[start:],
            count=self.count[start:],
            environment=self.environment[start:],
            many=tuple((i - start, v) for i, v in self.many if i >= start),
            offset=self.offset + start,
            lock=max(end - GUARD - start, 0),
            sealed=int(self.x[end - 1]),
        )

    def extended(self, new: Columns) -> "Stretch":
        """With new points at the end; points already here (same x and environment) are replaced.

        Raises ``StaleStateError`` when a new point lies at or before the newest sealed one.
        """
        if new.x.size == 0:
            return self
        if self.sealed is not None and int(new.x[0]) <= self.sealed:
            raise StaleStateError(
                f"point {int(new.x[0])} lies at or before {self.sealed}, up to which this series is settled: "
                "detect again from all points"
            )
        names = list(self.names)
        code = [names.index(n) if n in names else _added(names, n) for n in new.names]
        same = code == list(range(len(code)))
        environment = new.environment if same else np.array([*code, -1], np.int64)[new.environment]
        joined = self._appended(new, environment, tuple(names))
        if self.size and int(new.x[0]) <= int(self.x[-1]):
            joined = _ordered(joined, self.size)
        return joined

    def _appended(self, new: Columns, environment: Ints, names: tuple[str, ...]) -> "Stretch":
        columns: tuple[NDArray[Any], ...] = new.x, new.y, new.count, environment
        if self.size:
            mine = self.x, self.y, self.count, self.environment
            columns = tuple(np.concatenate(pair) for pair in zip(mine, columns, strict=True))
        many = self.many + tuple((self.size + i, v) for i, v in new.many)
        x, y, count, known = columns
        return Stretch(x, y, count, known, names, many, self.offset, self.lock, self.sealed)


def _added(names: list[str], name: str) -> int:
    names.append(name)
    return len(names) - 1


def _ordered(joined: Stretch, old: int) -> Stretch:
    """Sort by x (environments in order of arrival) and let a later point replace an earlier one of its place."""
    rows = list(zip(joined.x.tolist(), joined.environment.tolist(), strict=True))
    keys = {key: i for i, key in enumerate(rows)}
    first: dict[tuple[int, int], int] = {}
    for i, key in enumerate(rows):
        first.setdefault(key, i)
    order = sorted(keys, key=lambda k: (k[0], first[k]))
    pick = np.array([keys[k] for k in order], np.int64)
    if joined.sealed is not None:
        lead = int(np.searchsorted(joined.x[:old], joined.sealed, side="right"))
        if not np.array_equal(pick[:lead], np.arange(lead)):
            raise StaleStateError("a settled point would change: detect again from all points")
    place = {int(i): k for k, i in enumerate(pick)}
    return replace(
        joined,
        x=joined.x[pick],
        y=joined.y[pick],
        count=joined.count[pick],
        environment=joined.environment[pick],
        many=tuple(sorted((place[i], v) for i, v in joined.many if i in place)),
    )


EMPTY = Stretch(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))
