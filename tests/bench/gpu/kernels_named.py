"""Whether the product names the planted kernel: the kernel tables of a pool, compared block by block. Pure.

A report keeps its twelve largest kernels and the planted one; all others stand in its table as one.
"""

from __future__ import annotations

from collections import Counter

from tests.bench.gpu.analysis import MIN_PAIRS, by_lane, values_of

OTHERS = "all others"
PLANTED = "spin_kernel"


def named(reports, base, planted):
    """One row a planted delay: ``planted`` is {tag: relative effect or None}. Blocks of three pairs of one device."""
    from groundspeed.service.domain.kernels.difference import difference

    rows = []
    for tag, effect in planted.items():
        answers, shares = Counter(), []
        for lane in by_lane(reports):
            without, slower = ([table_of(one) for one in lane if usable(one, name)] for name in (base, tag))
            if tag == base:
                without, slower = without[0::2], without[1::2]
            for start in range(0, min(len(without), len(slower)) - MIN_PAIRS + 1, MIN_PAIRS):
                block = slice(start, start + MIN_PAIRS)
                found = difference(without[block], slower[block], effect)
                first = found.rows[0] if found.rows else None
                right = first is not None and PLANTED in first.name
                answers["named" if right else "another named" if first else found.state] += 1
                shares += [first.share] if right and first.share is not None else []
        if answers:
            rows.append({"planted": tag, "blocks": answers.total(), "named": answers.pop("named", 0),
                         "least_share": min(shares, default=float("nan")), "most_share": max(shares, default=float("nan")),
                         "other_answers": dict(answers)})  # fmt: skip
    return rows


def usable(report, tag):
    return report["tag"] == tag and report["outcome"] == "ok" and "kernels" in report


def table_of(report):
    from groundspeed.service.domain.kernels.difference import Kernel, Table

    kept = {one["name"]: Kernel(one["count_per_step"], one["time_per_step_s"])
            for one in (*report["kernels"], *report["spin"])}  # fmt: skip
    busy = sorted(values_of(report, "device_busy_time"))
    rest = busy[len(busy) // 2] - sum(one.time_s for one in kept.values())
    launches = sorted(values_of(report, "launches"))
    count = launches[len(launches) // 2] if launches else 1.0
    return Table({**kept, OTHERS: Kernel(max(1.0, count - sum(one.launches for one in kept.values())), max(0.0, rest))})
