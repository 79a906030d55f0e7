"""Scores: slowdowns found in histories with known steps, and the measures of the Turing change point data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

MARGIN = 2
THRESHOLD = 0.03

Found = Sequence[tuple[int, float]]
"""Positions of first points after, with ratios after over before."""


@dataclass
class Tally:
    """True, false and missed slowdowns, and false alarms of any size by noise shape."""

    true: int = 0
    false: int = 0
    missed: int = 0
    alarms: dict[str, int] = field(default_factory=dict)
    points: dict[str, int] = field(default_factory=dict)

    @property
    def precision(self) -> float:
        return self.true / (self.true + self.false) if self.true + self.false else 1.0

    @property
    def recall(self) -> float:
        return self.true / (self.true + self.missed) if self.true + self.missed else 1.0

    @property
    def f1(self) -> float:
        return 2 * self.precision * self.recall / (self.precision + self.recall) if self.true else 0.0

    def add(self, shape: str, x: Sequence[int], steps: Found, found: Found) -> None:
        """Count one series: slowdowns above THRESHOLD within MARGIN commits, each step and each finding once."""
        seen = [(next((v for v in x if v >= at), at), at, ratio) for at, ratio in steps]
        large = [s for s in seen if s[2] > 1 + THRESHOLD]
        small = [s for s in seen if 1 < s[2] <= 1 + THRESHOLD]
        for at, ratio in found:
            if ratio <= 1 + THRESHOLD:
                continue
            hit = min(large, key=lambda s: _away(at, s), default=None)
            if hit is not None and _away(at, hit) <= MARGIN:
                large.remove(hit)
                self.true += 1
            elif all(_away(at, s) > MARGIN for s in small):
                self.false += 1
        self.missed += len(large)
        self.points[shape] = self.points.get(shape, 0) + len(x)
        false = sum(all(_away(at, s) > 5 for s in seen) for at, _ in found)
        self.alarms[shape] = self.alarms.get(shape, 0) + false

    def alarms_per_1000(self, shapes: Iterable[str] | None = None) -> float:
        wanted = list(self.points if shapes is None else shapes)
        points = sum(self.points.get(s, 0) for s in wanted)
        return 1000 * sum(self.alarms.get(s, 0) for s in wanted) / points if points else float("nan")


def _away(at: int, step: tuple[int, int, float]) -> int:
    return min(abs(at - step[0]), abs(at - step[1]))


def _hits(truth: Iterable[int], found: Iterable[int], margin: int) -> int:
    free, hits = sorted(found), 0
    for t in sorted(truth):
        near = min(free, key=lambda v: (abs(v - t), v), default=None)
        if near is not None and abs(near - t) <= margin:
            free.remove(near)
            hits += 1
    return hits


def f1(annotations: Mapping[str, Sequence[int]], found: Iterable[int], margin: int = 5) -> float:
    """F1 of van den Burg & Williams (2020): precision against anybody's point, recall as the mean over annotators."""
    people = [{*a, 0} for a in annotations.values()]
    points = {*found, 0}
    precision = _hits(set().union(*people), points, margin) / len(points)
    recall = sum(_hits(p, points, margin) / len(p) for p in people) / len(people)
    return 2 * precision * recall / (precision + recall)


def cover(annotations: Mapping[str, Sequence[int]], found: Iterable[int], n: int) -> float:
    """Covering of the annotators' segmentations by the found one, as a mean over annotators."""
    ours = _segments(found, n)
    return sum(_cover(_segments(a, n), ours, n) for a in annotations.values()) / len(annotations)


def _segments(points: Iterable[int], n: int) -> list[tuple[int, int]]:
    marks = [0, *sorted({p for p in points if 0 < p < n}), n]
    return list(pairwise(marks))


def _cover(truth: list[tuple[int, int]], ours: list[tuple[int, int]], n: int) -> float:
    total = 0.0
    for a, b in truth:
        shared = [(min(b, d) - max(a, c), max(b, d) - min(a, c)) for c, d in ours]
        total += (b - a) * max((s / u for s, u in shared if s > 0), default=0.0)
    return total / n
