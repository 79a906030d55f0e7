"""Plain words for any point of a series, and for any verdict: why it was flagged and another was not."""

import math
from bisect import bisect_left
from collections.abc import Mapping

from groundspeed.service.domain.compare import GateConfig, Verdict
from groundspeed.service.domain.detect import DetectConfig, Detection
from groundspeed.service.domain.findings import ChangePoint
from groundspeed.service.domain.noise import may_gate
from groundspeed.service.domain.series import Point, SeriesData, median_of

COMPANY = 3
"""So many points must follow before a step is looked for at a place."""

CLASS_WORDS = {
    "constant": "it hardly ever changes at all",
    "steady": "its noise is small, so it may gate",
    "noisy": "it is too noisy to gate and is only charted",
    "bimodal": "it jumps between modes by itself, so it is charted but does not gate",
    "launch-bound": "the device is idle most of the time, so the number measures the host; it does not gate",
    "unknown": "there is too little data to know its noise",
}


def explain_point(
    series: SeriesData,
    detection: Detection,
    x: int,
    config: DetectConfig | None = None,
    names: Mapping[int, str] | None = None,
) -> tuple[str, ...]:
    """Say why point ``x`` is, or is not, a change point; one sentence or two an entry.

    ``names`` says what to call points, "point 12" where it has nothing.
    """
    points = {p.x: p for p in series.points}
    called = dict(names or {})
    here = called.get(x, f"point {x}")
    words = [_measured(points.get(x), series, here[:1].upper() + here[1:])]
    change = next((c for c in detection.change_points if c.x_after == x), None)
    inside = next((c for c in detection.change_points if x in c.unmeasured), None)
    if change is not None:
        words += _flagged(change, detection, series)
    elif inside is not None:
        words.append(
            f"It lies between {_name(called, inside.x_before)} and {_name(called, inside.x_after)}, where the level "
            "changed by "
            f"{_size(inside, series)}: nobody measured it, so it is one of the suspects."
        )
    elif x in points and points[x].finite():
        words += _not_flagged(points[x], series, detection)
        words += _what_if(series, detection, x, config or DetectConfig())
    words += _surroundings(detection, x, called)
    words.append(f"The series is {detection.series_class}: {CLASS_WORDS[detection.series_class]}.")
    if not may_gate(detection.series_class):
        words.append("Nothing in it can fail a pull request.")
    return tuple(words)


def _name(names: Mapping[int, str], x: int) -> str:
    return names.get(x, f"point {x}")


def _measured(point: Point | None, series: SeriesData, here: str) -> str:
    if point is None:
        return f"{here} was not measured. That is not the same as no change."
    values = point.finite()
    if not values:
        return f"{here} has no number: {point.outcome}. That is not the same as no change."
    runs = "one process" if len(values) == 1 else f"the median of {len(values)} processes"
    middle = sorted(values)[len(values) // 2]
    return f"{here} reads {middle:.4g} {series.unit} ({runs})."


def _flagged(change: ChangePoint, detection: Detection, series: SeriesData) -> list[str]:
    levels = f"{change.level_after:.4g} {series.unit} where it was {change.level_before:.4g}"
    noise = f"Noise between points is {detection.noise.point:.2%}, so this is {change.strength:.1f} standard errors"
    kind = f"an {change.kind}" if change.kind == "improvement" else f"a {change.kind}"
    words = [
        f"It is {kind}: from here on the level is {levels}, a change of {_size(change, series)}.",
        f"{noise}; noise alone does as much in {_chance(change.p_value)} of series like this.",
    ]
    if change.replicated:
        words.append("Fresh processes on both sides bear it out.")
    if change.provisional:
        words.append(
            f"It is provisional: {change.points_before} points before and {change.points_after} after are too few to "
            "be sure. More points, or fresh processes on both sides, will confirm or withdraw it."
        )
    if change.unmeasured:
        count = len(change.unmeasured)
        words.append(f"{count} commits before it were not measured: the cause is one of them, or this one.")
    if change.cause == "both":
        words.append("Code and environment changed between the same two points: they can't be told apart.")
    if change.cause == "environment":
        words.append("The commit is the same on both sides: the environment did it.")
    return words


def _not_flagged(point: Point, series: SeriesData, detection: Detection) -> list[str]:
    """Compare the point with the level that it lies on."""
    level = _level(series, detection, point.x)
    noise = detection.noise
    if level is None or level == 0.0:
        return ["No step begins here."]
    values = sorted(point.finite())
    away = values[len(values) // 2] / level - 1.0
    scatter = abs(away) / noise.point if noise.point > 0.0 else math.inf if away else 0.0
    words = [f"No step begins here: it lies {away:+.2%} from its level of {level:.4g} {series.unit}."]
    if abs(away) < noise.floor:
        words.append(f"That is under {noise.floor:.2%}, the smallest change that is reported for it.")
    elif scatter < 3.0:
        words.append(f"That is {scatter:.1f} times the noise between its points, which is usual.")
    elif point.x == max(one.x for one in series.points):
        words.append("That is unusual; nothing follows it yet that would tell an outlier from a new level.")
    else:
        words.append("That is unusual, but the points around it did not follow: an outlier, not a new level.")
    if math.isfinite(noise.mde) and noise.mde > 0.0:
        words.append(f"A lasting step of {noise.mde:.2%} would have shown in {noise.mde_points} points on either side.")
    if detection.drift is not None:
        words.append(f"The series drifts by {detection.drift.total:+.2%} over its newest points, which is no step.")
    return words


def _what_if(series: SeriesData, detection: Detection, x: int, config: DetectConfig) -> list[str]:
    """What a step at x would be, and which of the conditions it does not meet."""
    cuts = [c.x_after for c in detection.change_points]
    low = max((c for c in cuts if c <= x), default=-math.inf)
    high = min((c for c in cuts if c > x), default=math.inf)
    near = [(p.x, median_of(p.finite())) for p in series.points if low <= p.x < high and p.finite()]
    before, after = [v for at, v in near if at < x], [v for at, v in near if at >= x]
    if not before or not after or min(before + after) <= 0.0 or detection.noise.wander <= 0.0:
        return []
    size = median_of(tuple(after)) / median_of(tuple(before)) - 1.0
    needed = config.threshold(len(series.points))
    error = detection.noise.wander * math.sqrt(1.0 / len(before) + 1.0 / len(after))
    strength = abs(math.log1p(size)) / error
    words = (
        f"Were there a step, it would be of {size:+.2%} ({len(before)} points before, {len(after)} after), some "
        f"{strength:.1f} standard errors where {needed:.1f} are asked for"
    )
    if len(after) < COMPANY:
        return [f"{words}; fewer than {COMPANY} points follow, so this may change with the next ones."]
    if abs(size) < detection.noise.floor:
        return [f"{words}, and under the smallest change that counts."]
    if strength < needed:
        return [f"{words}: noise does as much by itself."]
    return [f"{words}; the level changes gradually, or more abruptly elsewhere, so no step is put here."]


def _surroundings(detection: Detection, x: int, names: Mapping[int, str]) -> list[str]:
    """The nearest change point on either side, so that a reader knows where to look."""
    before = [c for c in detection.change_points if c.x_after < x and x not in c.unmeasured]
    after = [c for c in detection.change_points if c.x_after > x and x not in c.unmeasured]
    words = []
    if before:
        words.append(f"The last change point before it is at {_name(names, before[-1].x_after)}.")
    if after:
        words.append(f"The next one after it is at {_name(names, after[0].x_after)}.")
    return words


def _level(series: SeriesData, detection: Detection, x: int) -> float | None:
    """Level of the segment that holds x."""
    changes = detection.change_points
    if changes:
        k = bisect_left([c.x_after for c in changes], x + 1)
        return changes[k - 1].level_after if k else changes[0].level_before
    values = sorted(v for p in series.points for v in p.finite())
    return values[len(values) // 2] if values else None


def _size(change: ChangePoint, series: SeriesData) -> str:
    if math.isnan(change.ratio):
        return f"{change.difference:+.4g} {series.unit}".strip()
    return f"{change.ratio - 1.0:+.2%} (95 % interval {change.ratio_low - 1.0:+.2%} to {change.ratio_high - 1.0:+.2%})"


def _chance(p_value: float) -> str:
    if p_value >= 0.01:
        return f"{p_value:.0%}"
    return f"one in {1.0 / p_value:,.0f}" if p_value > 1e-9 else "less than one in a billion"


def explain_verdict(verdict: Verdict, config: GateConfig) -> str:
    """Say what a comparison found and what it could have seen."""
    if verdict.answer == "never-compared":
        return f"Never compared: {verdict.reason}"
    if math.isnan(verdict.effect):
        return f"Inconclusive: {verdict.reason}"
    span = f"{verdict.low:+.2%} to {verdict.high:+.2%}"
    seen = f"head over base is {verdict.effect:+.2%} (interval {span}, {verdict.method})"
    limit = f"The smallest change that {verdict.pairs} pairs like these show is {verdict.mde:.2%}."
    answer = {
        "regressed": f"Regressed: {seen}.",
        "improved": f"Improved: {seen}.",
        "changed": f"Changed: {seen}.",
        "unchanged": f"Unchanged within {config.threshold:.2%}: {seen}.",
        "inconclusive": f"Inconclusive: {seen}.",
    }[verdict.answer]
    return " ".join(w for w in (answer, verdict.reason, limit) if w)
