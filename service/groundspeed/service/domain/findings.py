"""What detection says: change points, what an environment did, drift, and noise."""

from dataclasses import dataclass
from typing import Literal

from groundspeed.service.domain.series import Direction

ChangeKind = Literal["regression", "improvement", "change"]
Cause = Literal["code", "environment", "both"]
SeriesClass = Literal["constant", "steady", "noisy", "bimodal", "launch-bound", "unknown"]


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """The series changed after ``x_before`` and not later than ``x_after``, the first point that shows it.

    ``ratio`` is level after over level before with its 95 % interval ``ratio_low`` to ``ratio_high`` (NaN where
    values are not all positive: read ``difference``, in the series' unit). ``strength`` is the effect in standard
    errors, ``p_value`` the chance of as much from noise alone among all the places looked at. ``provisional``: too
    little data around it to be sure, replicates or more points will tell. ``cause``: *both* means that code and
    environment changed between the two points and can't be told apart. ``unmeasured`` are the x between the two.
    """

    x_before: int
    x_after: int
    ratio: float
    ratio_low: float
    ratio_high: float
    difference: float
    strength: float
    p_value: float
    provisional: bool
    kind: ChangeKind
    cause: Cause
    unmeasured: tuple[int, ...] = ()
    level_before: float = float("nan")
    level_after: float = float("nan")
    points_before: int = 0
    points_after: int = 0
    environment_before: str | None = None
    environment_after: str | None = None
    replicated: bool = False
    """Fresh processes on either side bear it out."""


@dataclass(frozen=True, slots=True)
class EnvironmentEffect:
    """What a change of environment did to the series, significant or not, with its 95 % interval.

    ``confounded``: the code changed between the same two points as well.
    """

    x_before: int
    x_after: int
    environment_before: str
    environment_after: str
    ratio: float
    ratio_low: float
    ratio_high: float
    confounded: bool


@dataclass(frozen=True, slots=True)
class Drift:
    """Slow change that is not a step: relative change over the points it was seen on."""

    total: float
    x_first: int
    x_last: int
    strength: float


@dataclass(frozen=True, slots=True)
class NoiseLedger:
    """Relative standard deviations by source (None: not measurable from this series), and what follows.

    ``point`` is the scatter from point to point, which detection uses; ``wander`` is what the noise of long means
    behaves as if it came from. ``mde`` is the smallest relative step that ``mde_points`` points on either side would
    show with 80 % probability; ``floor`` is the smallest that is reported.
    """

    point: float
    wander: float
    mde: float
    floor: float
    mde_points: int = 10
    within_process: float | None = None
    between_process: float | None = None
    between_day: float | None = None
    between_node: float | None = None
    outlier_share: float = 0.0
    mode_gap: float | None = None
    quantum: float | None = None


def change_kind(difference: float, direction: Direction) -> ChangeKind:
    """Name a change by the metric's direction."""
    if direction == 0 or difference == 0:
        return "change"
    return "improvement" if (difference > 0) == (direction > 0) else "regression"
