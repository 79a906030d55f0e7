"""One alert for one cause: findings of the same suite family whose suspect ranges meet are told together."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from groundspeed.service.domain.findings import Cause, ChangeKind

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Finding(Generic[Key]):
    """A change point or verdict to be grouped. ``family`` is the suite (or module) that it belongs to."""

    key: Key
    family: str
    x_before: int
    x_after: int
    kind: ChangeKind
    cause: Cause
    ratio: float
    strength: float


@dataclass(frozen=True, slots=True)
class Group(Generic[Key]):
    """Findings with one likely cause. The range is what all members agree on; ``members`` are strongest first."""

    family: str
    x_before: int
    x_after: int
    kind: ChangeKind
    cause: Cause
    members: tuple[Finding[Key], ...]


def group(findings: Sequence[Finding[Key]]) -> list[Group[Key]]:
    """Group findings by family, kind and cause where a common suspect range remains.

    Narrow ranges first: a wide one (many unmeasured commits) joins the first narrow one that it contains rather than
    gluing two apart.
    """
    groups: list[list[Finding[Key]]] = []
    ranges: list[tuple[int, int]] = []
    for item in sorted(findings, key=lambda f: (f.x_after - f.x_before, f.x_after, -f.strength)):
        for i, members in enumerate(groups):
            low, high = max(ranges[i][0], item.x_before), min(ranges[i][1], item.x_after)
            if low < high and _alike(members[0], item):
                members.append(item)
                ranges[i] = low, high
                break
        else:
            groups.append([item])
            ranges.append((item.x_before, item.x_after))
    out = [_made(m, r) for m, r in zip(groups, ranges, strict=True)]
    return sorted(out, key=lambda g: (g.x_after, g.family, g.kind))


def _alike(a: Finding[Key], b: Finding[Key]) -> bool:
    return (a.family, a.kind, a.cause) == (b.family, b.kind, b.cause)


def _made(members: list[Finding[Key]], span: tuple[int, int]) -> Group[Key]:
    first = members[0]
    ordered = tuple(sorted(members, key=lambda f: -f.strength))
    return Group(first.family, span[0], span[1], first.kind, first.cause, ordered)
