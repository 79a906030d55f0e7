"""What detection is held to, worked out from the answers of the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import score

if TYPE_CHECKING:
    from run import Answers, Done, Series

Line = tuple[str, str, bool]
"""What is held to, what came out, whether it holds."""


def show(done: Sequence[Done], write: Callable[[str], None]) -> bool:
    """Print each target with its figures; returns whether all hold."""
    lines = [line for one in done for line in _of(one)] + list(_shapes(done))
    write("\nWhat must hold")
    write("| target | figures | |")
    write("|---|---|---|")
    for what, figures, holds in lines:
        write(f"| {what} | {figures} | {'holds' if holds else '**fails**'} |")
    return all(holds for _, _, holds in lines)


def tally(series: Sequence[Series], answers: Answers) -> score.Tally:
    out = score.Tally()
    for s in series:
        if s.name in answers.points:
            out.add(s.shape, s.x, s.steps, answers.points[s.name])
    return out


def _of(one: Done) -> Iterator[Line]:
    if one.kind == "labelled":
        yield from _labelled(one)
    if one.kind != "steps" or "ours" not in one.answers:
        return
    points = max(s.x[-1] for s in one.series if s.x) + 1
    scores = {d: tally(one.series, a).f1 for d, a in one.answers.items() if a.points}
    ours = scores["ours"]
    if points > 500:
        yield f"{one.title}: F1 at least 0.98", f"{ours:.3f}", ours >= 0.98
    else:
        best = max((f, d) for d, f in scores.items() if d != "ours")
        yield f"{one.title}: F1 no lower than the best peer", f"{ours:.3f}; {best[1]} {best[0]:.3f}", ours >= best[0]
    if points > 500 and "otava" in one.answers:
        mine, theirs = _ms(one.answers["ours"]), _ms(one.answers["otava"])
        yield f"{one.title}: a tenth of Otava's time", f"{mine:.2f} ms; {theirs:.2f} ms", mine <= 0.1 * theirs


def _labelled(one: Done) -> Iterator[Line]:
    for peer in ("asv",) if "performance" in one.title else ("zero",):
        if peer in one.answers and "ours" in one.answers:
            ours, theirs = _labels(one.series, one.answers["ours"]), _labels(one.series, one.answers[peer])
            figures = f"{ours[0]:.3f} and {ours[1]:.3f}; {theirs[0]:.3f} and {theirs[1]:.3f}"
            yield f"{one.title}: F1 and cover above {peer}", figures, ours[0] > theirs[0] and ours[1] > theirs[1]


def _labels(series: Sequence[Series], answers: Answers) -> tuple[float, float]:
    done = [(s, [p for p, _ in answers.points[s.name]]) for s in series if s.name in answers.points]
    f = sum(score.f1(s.labels or {}, p) for s, p in done) / len(done)
    return f, sum(score.cover(s.labels or {}, p, s.length) for s, p in done) / len(done)


def _shapes(done: Sequence[Done]) -> Iterator[Line]:
    """Over all histories, with steps and without."""
    both = [one for one in done if one.kind in {"steps", "calm"} and {"ours", "otava"} <= one.answers.keys()]
    shapes = sorted({s.shape for one in both for s in one.series})
    for shape in shapes:
        rates = []
        for d in ("ours", "otava"):
            joined = [tally([s for s in one.series if s.shape == shape], one.answers[d]) for one in both]
            points = sum(t.points.get(shape, 0) for t in joined)
            rates.append(1000 * sum(t.alarms.get(shape, 0) for t in joined) / points)
        what = f"False alarms per 1,000 points, {shape}: at most half of Otava's"
        yield what, f"{rates[0]:.3f}; {rates[1]:.3f}", rates[0] <= 0.5 * rates[1]


def _ms(answers: Answers) -> float:
    return 1000 * answers.seconds / max(len(answers.points), 1)
