"""What to measure next: replicates on either side of a doubtful step, and the commits between that nobody measured."""

from dataclasses import dataclass
from typing import Literal

from groundspeed.service.domain.detect import Detection
from groundspeed.service.domain.findings import ChangePoint
from groundspeed.service.domain.replicates import ENOUGH_TO_REFUTE
from groundspeed.service.domain.series import Point, SeriesData

Why = Literal["replicate", "bisect"]


@dataclass(frozen=True, slots=True)
class Suspect:
    """Measure ``x`` in ``replicates`` further fresh processes; ``why`` says what for."""

    x: int
    replicates: int
    why: Why


def suspects(
    detection: Detection,
    series: SeriesData,
    replicates: int = 3,
    *,
    most: int = ENOUGH_TO_REFUTE,
    measurable: tuple[int, ...] | None = None,
) -> list[Suspect]:
    """What would settle the open findings, most useful first.

    A provisional step asks for processes on both sides until each has ``replicates``, and if that leaves it open until
    each has ``most``; once it is confirmed, and
    commits between lie unmeasured, the middle one is asked for (bisection). ``measurable`` limits what can be built.
    """
    points = {p.x: p for p in series.points}
    out: list[Suspect] = []
    for change in sorted(detection.change_points, key=lambda c: -c.strength):
        sides = []
        if change.provisional:
            sides = _missing(change, points, replicates) or _missing(change, points, most)
        out += sides
        if not sides and change.unmeasured:
            middle = _middle(change, points, measurable)
            if middle is not None:
                out.append(Suspect(middle, replicates, "bisect"))
    return _merged(out)


def _missing(change: ChangePoint, points: dict[int, Point], replicates: int) -> list[Suspect]:
    out = []
    for x in (change.x_after, change.x_before):
        have = len(points[x].finite()) if x in points else 0
        if have < replicates:
            out.append(Suspect(x, replicates - have, "replicate"))
    return out


def _middle(change: ChangePoint, points: dict[int, Point], measurable: tuple[int, ...] | None) -> int | None:
    """The unmeasured x nearest the middle; one that was tried and failed is not tried again."""
    choices = [x for x in change.unmeasured if x not in points and (measurable is None or x in measurable)]
    if not choices:
        return None
    centre = 0.5 * (change.x_before + change.x_after)
    return min(choices, key=lambda x: (abs(x - centre), x))


def _merged(wanted: list[Suspect]) -> list[Suspect]:
    best: dict[int, Suspect] = {}
    for s in wanted:
        if s.x not in best or best[s.x].replicates < s.replicates:
            best[s.x] = s
    return list(best.values())
