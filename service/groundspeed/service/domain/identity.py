"""Which newly computed change point is which stored one: a step that moved by a commit is the same step."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from groundspeed.service.domain.findings import ChangePoint

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Known(Generic[Key]):
    """A stored change point: its key, the measured positions around it, and the logarithm of its ratio."""

    key: Key
    x_before: int
    x_after: int
    ratio: float


@dataclass(frozen=True, slots=True)
class Matching(Generic[Key]):
    """``same`` pairs stored keys with indices of new points; ``gone`` were not found again; ``new`` are indices."""

    same: tuple[tuple[Key, int], ...]
    gone: tuple[Key, ...]
    new: tuple[int, ...]


def match(known: Sequence[Known[Key]], found: Sequence[ChangePoint], slack: int = 5) -> Matching[Key]:
    """Match stored change points to new ones of the same direction, nearest first.

    Two are the same when their suspect ranges overlap or lie within ``slack`` points and they go the same way.
    """
    costs = []
    for i, old in enumerate(known):
        for j, now in enumerate(found):
            gap = max(now.x_before - old.x_after, old.x_before - now.x_after, 0)
            if gap > slack or _opposite(old.ratio, now.ratio):
                continue
            size = abs(_log(old.ratio) - _log(now.ratio))
            costs.append((gap + abs(old.x_after - now.x_after), size, i, j))
    same: list[tuple[Key, int]] = []
    used_old: set[int] = set()
    used_new: set[int] = set()
    for _, _, i, j in sorted(costs):
        if i not in used_old and j not in used_new:
            used_old.add(i)
            used_new.add(j)
            same.append((known[i].key, j))
    gone = tuple(k.key for i, k in enumerate(known) if i not in used_old)
    return Matching(tuple(same), gone, tuple(j for j in range(len(found)) if j not in used_new))


def _log(ratio: float) -> float:
    return math.log(ratio) if ratio > 0 and math.isfinite(ratio) else 0.0


def _opposite(a: float, b: float) -> bool:
    return _log(a) * _log(b) < 0


@dataclass(frozen=True, slots=True)
class Accepted(Generic[Key]):
    """A gate verdict that somebody accepted, and the place ``x`` its head got on the main line when it was merged."""

    key: Key
    x: int
    ratio: float


def foretold(accepted: Sequence[Accepted[Key]], found: Sequence[ChangePoint]) -> dict[int, Key]:
    """Indices of change points that an accepted verdict has announced: they are not told again.

    The merge lies in the suspect range, the change goes the same way, and it is at most half as large again.
    """
    out: dict[int, Key] = {}
    for verdict in accepted:
        for j, change in enumerate(found):
            inside = change.x_before < verdict.x <= change.x_after
            told, seen = _log(verdict.ratio), _log(change.ratio)
            if inside and j not in out and told * seen > 0 and abs(seen) <= 1.5 * abs(told):
                out[j] = verdict.key
    return out
