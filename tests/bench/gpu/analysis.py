"""What the reports of a pool say: A/A comparisons, planted delays, spread between processes, overhead. Pure.

A *report* is one line of a pool's file: the child's report with "tag" and "wall_s". A *side* is a list of processes, each
a list of samples, in the order in which they ran.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict

DEVICE_THRESHOLD = 0.005
MIN_PAIRS, MAX_PAIRS = 3, 12
HABITS = ("torch_benchmark", "do_bench", "mean_of_20")
CALLED = {"regressed", "improved", "changed"}


def values_of(report, metric, params=None):
    """Samples of one metric, valid ones first where there are any; empty when it was not measured."""
    for one in report["metrics"]:
        if one["metric"] == metric and (params is None or one["params"] == params):
            return one["values"]
    return []


def series(reports):
    """(tag, metric, parameters as text) → [metric's declaration, one list of samples a process], in order of running."""
    found = {}
    for report in reports:
        if report["outcome"] != "ok":
            continue
        for one in report["metrics"]:
            where = " ".join(f"{k}={v}" for k, v in sorted(one["params"].items()))
            found.setdefault((report["tag"], one["metric"], where), (one, []))[1].append(one["values"])
    return found


def gate_of(metric):
    """As the product gates by default: a look after every pair from 3 to 12, the error rate held over all of them."""
    from groundspeed.service.domain.compare import GateConfig
    from groundspeed.service.domain.series import MIN_EFFECT

    clock = metric.get("clock", "none")
    threshold = (
        DEVICE_THRESHOLD if clock == "device" and metric["kind"] == "time" else MIN_EFFECT.get(metric["kind"], 0.01)
    )
    return GateConfig(
        threshold=threshold, direction=metric["direction"], min_pairs=MIN_PAIRS, max_pairs=MAX_PAIRS, peeks=None
    )


def trials(base, head, config):
    """Verdicts of disjoint blocks of the pool: each takes pairs until the gate has enough; what is left over is not used."""
    from groundspeed.service.domain.compare import compare, next_step

    found, start, pairs = [], 0, min(len(base), len(head))
    while start + config.min_pairs <= pairs:
        for count in range(config.min_pairs, min(config.max_pairs, pairs - start) + 1):
            block = base[start : start + count], head[start : start + count]
            if next_step(*block, config) == "enough":
                found.append(compare(*block, config))
                start += count
                break
        else:
            break
    return found


def interleaved(processes):
    """One pool of equal processes as two sides: A B B A A B B A …"""
    first = [process for index, process in enumerate(processes) if index % 4 in {0, 3}]
    second = [process for index, process in enumerate(processes) if index % 4 in {1, 2}]
    return first, second


def same_with_itself(reports):
    """A/A: one row for each series: comparisons, false differences of gated ones, and the effects seen."""
    rows = []
    for (tag, metric, where), (declared, processes) in series(reports).items():
        verdicts = trials(*interleaved(processes), gate_of(declared))
        if not verdicts:
            continue
        effects = sorted(abs(one.effect) for one in verdicts if math.isfinite(one.effect))
        rows.append({
            "tag": tag, "metric": metric, "params": where, "clock": declared.get("clock", "none"),
            "gates": bool(declared["gate"]), "comparisons": len(verdicts), "pairs": sum(one.pairs for one in verdicts),
            "false": sum(one.answer in CALLED for one in verdicts),
            "answers": dict(sorted(_count(one.answer for one in verdicts).items())),
            "median_effect": statistics.median(effects) if effects else math.nan,
            "largest_effect": effects[-1] if effects else math.nan,
        })  # fmt: skip
    return rows


def habits_aside(reports):
    """The same pools by the habits of other tools: share of pairs of processes that differ by more than 1 %."""
    rows = []
    by_tag = defaultdict(list)
    for report in reports:
        if report["outcome"] == "ok" and report.get("habits"):
            by_tag[report["tag"]].append(report["habits"])
    for tag, found in by_tag.items():
        for habit in HABITS:
            values = [one[habit] for one in found if habit in one]
            apart = [abs(a / b - 1) for i, a in enumerate(values) for b in values[i + 1 :]]
            if apart:
                rows.append({"tag": tag, "habit": habit, "processes": len(values), "cv": _cv(values),
                             "differ_by_1_percent": sum(one > 0.01 for one in apart) / len(apart),
                             "worst_pair": max(apart)})  # fmt: skip
    return rows


def sensitivity(reports, base, planted, metric):
    """Hit rate of each planted delay, trial by trial."""
    from groundspeed.service.domain.compare import process_medians

    found = {tag: (one, processes) for (tag, name, _), (one, processes) in series(reports).items() if name == metric}
    if base not in found:
        return []
    declared, without = found[base]
    rows = []
    for tag in planted:
        if tag not in found:
            continue
        verdicts = trials(without, found[tag][1], gate_of(declared))
        true = statistics.median(process_medians(found[tag][1])) / statistics.median(process_medians(without)) - 1
        rows.append({
            "planted": tag, "metric": metric, "trials": len(verdicts), "pairs": sum(one.pairs for one in verdicts),
            "effect_of_all": true,
            "called": sum(one.answer in CALLED for one in verdicts),
            "interval_without_0": sum(one.low > 0 or one.high < 0 for one in verdicts),
            "median_effect": statistics.median(one.effect for one in verdicts) if verdicts else math.nan,
        })  # fmt: skip
    return rows


def spread(reports):
    """Between-process spread of every series: coefficient of variation of the processes' medians."""
    from groundspeed.service.domain.compare import process_medians

    rows = []
    for (tag, metric, where), (declared, processes) in series(reports).items():
        medians = [float(value) for value in process_medians(processes) if math.isfinite(value)]
        if medians:
            rows.append({"tag": tag, "metric": metric, "params": where, "clock": declared.get("clock", "none"),
                         "unit": declared["unit"], "gates": bool(declared["gate"]), "processes": len(medians),
                         "median": statistics.median(medians), "cv": _cv(medians)})  # fmt: skip
    return rows


def shares(rows, copy_tag, product_tag):
    """What each suite reaches of the rates measured in the same pool: bytes of a copy's, FLOPs of a matrix product's."""
    ceilings = {
        "B/s": _median_of(rows, copy_tag, "bandwidth"),
        "FLOP/s": _median_of(rows, product_tag, "flops_sustained"),
    }
    found = []
    for row in rows:
        ceiling = ceilings.get(row["unit"])
        if ceiling and row["metric"] in {"bandwidth", "device_flops", "flops", "flops_sustained"}:
            found.append({"tag": row["tag"], "metric": row["metric"], "median": row["median"], "unit": row["unit"],
                          "share": row["median"] / ceiling})  # fmt: skip
        elif row["metric"] in {"limit_share", "peak_share", "roofline_share"}:
            found.append({"tag": row["tag"], "metric": row["metric"], "median": float("nan"), "unit": row["unit"],
                          "share": row["median"]})  # fmt: skip
    return found


def _median_of(rows, tag, metric):
    return next((row["median"] for row in rows if (row["tag"], row["metric"]) == (tag, metric)), None)


def overhead(reports):
    """Share of each suite's wall time in which nothing was measured, and where it went; seconds are means."""
    by_tag = defaultdict(list)
    for report in reports:
        if report["outcome"] == "ok":
            by_tag[report["tag"]].append(report)
    rows = []
    for tag, found in by_tag.items():
        phases = defaultdict(float)
        for report in found:
            for name, seconds in report["phases_s"].items():
                phases[name] += seconds / len(found)
        wall = statistics.mean(report["wall_s"] for report in found)
        measuring = phases.get("measure", 0.0) + phases.get("profile", 0.0)
        rows.append({"tag": tag, "processes": len(found), "wall_s": wall, "measuring_s": measuring,
                     "overhead_share": 1 - measuring / wall, "phases_s": dict(phases)})  # fmt: skip
    return rows


def outcomes(reports):
    """Every run that did not go well, in words; and those that did, counted by tag."""
    rows = []
    for report in reports:
        evidence = report.get("evidence", {})
        hints = ", ".join(one["code"] for one in evidence.get("hints", ()))
        labels = report["conditions"].get("labels") or {}
        rows.append({"tag": report["tag"], "outcome": report["outcome"], "message": evidence.get("message", "")[:300],
                     "hints": hints, "labels": ", ".join(labels), "metrics": len(report["metrics"]),
                     "wall_s": report.get("wall_s", math.nan)})  # fmt: skip
    return rows


def markdown(rows, columns=None):
    """A table for people; shares and effects in per cent."""
    if not rows:
        return "No runs.\n"
    columns = columns or [name for name in rows[0] if name != "phases_s"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_cell(name, row.get(name, "")) for name in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(name, value):
    if isinstance(value, float):
        share = any(word in name for word in ("effect", "cv", "share", "differ", "worst", "ratio"))
        return "" if math.isnan(value) else f"{value:.3%}" if share else f"{value:.6g}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def _cv(values):
    return statistics.stdev(values) / statistics.mean(values) if len(values) > 1 else math.nan


def _count(answers):
    found = defaultdict(int)
    for answer in answers:
        found[answer] += 1
    return found
