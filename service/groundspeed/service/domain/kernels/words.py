"""A difference of kernel tables in words: one line for the whole, and a few for each kernel. Names are not in them."""

from __future__ import annotations

from groundspeed.service.domain.kernels.difference import Difference, Row

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def summary(found: Difference) -> str:
    """What all kernels together did, over how many processes, and what follows from it."""
    change = found.change_s / found.base_s if found.base_s else 0.0
    total = f"Kernels of a step take {_both(found.base_s, found.head_s)} ({percent(change)}"
    if found.low_s is not None and found.high_s is not None and found.base_s:
        total += f", {percent(found.low_s / found.base_s)} … {percent(found.high_s / found.base_s)}"
    sides = f"{found.base_processes} + {found.head_processes} processes"
    return f"{total}; {sides}). {_conclusion(found)}".strip()


_CONCLUSIONS = {
    "same": "They take as long as before: what changed lies outside them, in launching, the host or input.",
    "even": "All moved alike: the device's clock or the size of the input rather than one kernel.",
    "against": "They moved the other way: what changed lies outside them, in launching, the host or input.",
    "unsure": "Which kernel did it cannot be told: processes of one side differ by as much.",
    "single": "Which kernel did it cannot be told from one process a side.",
}


def _conclusion(found: Difference) -> str:
    if found.state == "unsure" and found.rows:
        return "Whether they explain it cannot be told: processes of one side differ by as much."
    if found.state != "told":
        return _CONCLUSIONS[found.state]
    if found.low_s is None or found.high_s is None:
        return "With one process a side only what is launched can be compared."
    return "Some kernels changed, and others make up for it." if found.low_s <= 0 <= found.high_s else ""


def what(row: Row) -> str:
    """What became of one kernel."""
    before, after = _count(row.base_launches), _count(row.head_launches)
    if row.kind == "appeared":
        return f"new: {after} a step, {_each(row.head_s, row.head_launches)} each"
    if row.kind == "vanished":
        return f"gone: was {before} a step, {_each(row.base_s, row.base_launches)} each"
    each = f"{_each(row.base_s, row.base_launches)} → {_each(row.head_s, row.head_launches)} each"
    if row.kind == "replaced":
        return f"{after} a step, {each}"
    if row.kind in {"more-launches", "fewer-launches"}:
        return f"{row.kind.replace('-', ' ')}: {_number(row.base_launches)} → {after} a step, {each}"
    times = after if before == after else f"{_number(row.base_launches)} → {after}"
    return f"{row.kind} per launch: {each}, {times} a step"


def seconds(value: float, *, sign: bool = False) -> str:
    """Three digits and a unit that suits: 12.3 ms."""
    size = abs(value)
    scale, unit = next((one for one in _UNITS if size >= one[0]), _UNITS[-1])
    digits = max(0, 2 - len(str(int(size / scale))) + 1) if size else 0
    return f"{value / scale:{'+' if sign else ''}.{digits}f} {unit}"


def percent(value: float) -> str:
    digits = 1 if abs(value) >= 0.01 else 2
    return f"{100 * value:+.{digits}f} %"


def _both(base_s: float, head_s: float) -> str:
    left, right = seconds(base_s), seconds(head_s)
    number, _, unit = left.partition(" ")
    return f"{number} → {right}" if right.endswith(f" {unit}") else f"{left} → {right}"


def _each(time_s: float, launches: float) -> str:
    return seconds(time_s / launches if launches else 0.0)


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value - round(value)) < 0.01 else f"{value:.2f}"


def _count(launches: float) -> str:
    text = _number(launches)
    return f"{text} launch" if text == "1" else f"{text} launches"
