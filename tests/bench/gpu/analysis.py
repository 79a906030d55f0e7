"""What the reports of a pool say: A/A comparisons, planted delays, spread between processes, overhead. Pure.

A *report* is one line of a pool's file: the child's report with "tag" and "wall_s". A *side* is a list of processes, each
a list of samples, in the order in which they ran. Processes of different lanes ran on different devices, which are never
compared with each other.
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


def by_lane(reports):
    """The reports of each device, in order of running."""
    found = defaultdict(list)
    for report in reports:
        found[report.get("lane", "")].append(report)
    return list(found.values())


def gate_of(metric, pairs=None):
    """As the product gates by default: a look after every pair from 3 to 12, the error rate held over all of them.

    With ``pairs``: one look after so many.
    """
    from groundspeed.service.domain.compare import GateConfig
    from groundspeed.service.domain.series import MIN_EFFECT

    clock = metric.get("clock", "none")
    threshold = (
        DEVICE_THRESHOLD if clock == "device" and metric["kind"] == "time" else MIN_EFFECT.get(metric["kind"], 0.01)
    )
    return GateConfig(
        threshold=threshold, direction=metric["direction"], min_pairs=pairs or MIN_PAIRS, max_pairs=pairs or MAX_PAIRS,
        peeks=1 if pairs else None,
    )  # fmt: skip


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


def blocks(base, head, config):
    """Verdicts of disjoint blocks of ``config.min_pairs`` pairs each, one look at each."""
    from groundspeed.service.domain.compare import compare

    size = config.min_pairs
    count = min(len(base), len(head)) // size
    return [compare(base[i * size : (i + 1) * size], head[i * size : (i + 1) * size], config) for i in range(count)]


def interleaved(processes):
    """One pool of equal processes as two sides: A B B A A B B A …"""
    first = [process for index, process in enumerate(processes) if index % 4 in {0, 3}]
    second = [process for index, process in enumerate(processes) if index % 4 in {1, 2}]
    return first, second


def same_with_itself(reports):
    """A/A: one row for each series: comparisons, false differences of gated ones, and the effects seen."""
    return _same(reports, lambda declared, sides: trials(*sides, gate_of(declared)))


def same_in_blocks(reports, pairs=MIN_PAIRS):
    """The same with one look at each block of so many pairs: a narrower interval, and so a harder test."""
    return _same(reports, lambda declared, sides: blocks(*sides, gate_of(declared, pairs)))


def _same(reports, verdicts_of):
    found = {}
    for lane in by_lane(reports):
        for key, (declared, processes) in series(lane).items():
            found.setdefault(key, (declared, []))[1].extend(verdicts_of(declared, interleaved(processes)))
    rows = []
    for (tag, metric, where), (declared, verdicts) in found.items():
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


def in_all(reports):
    """A/A of each suite: processes, comparisons in blocks of three pairs, and how many of those, or of the sequential
    gate's, any gated series called different. The last row is their sum."""
    gated = defaultdict(lambda: {"comparisons": 0, "false": 0, "sequential": 0, "false_sequential": 0})
    for row in same_in_blocks(reports):
        if row["gates"]:
            found = gated[row["tag"]]
            found["comparisons"] = max(found["comparisons"], row["comparisons"])
            found["false"] += row["false"]
    for row in same_with_itself(reports):
        if row["gates"]:
            gated[row["tag"]]["sequential"] += row["comparisons"]
            gated[row["tag"]]["false_sequential"] += row["false"]
    counts = _count(report["tag"] for report in reports if report["outcome"] == "ok")
    rows = [{"tag": tag, "processes": counts[tag], **found} for tag, found in gated.items()]
    if rows:
        whole = {name: sum(row[name] for row in rows) for name in rows[0] if name != "tag"}
        rows.append({"tag": "in all", **whole})
    return rows


def habits_aside(reports):
    """The same pools by the habits of other tools: share of pairs of processes that differ by more than 1 %."""
    rows = []
    by_tag = defaultdict(list)
    for report in reports:
        if report["outcome"] == "ok" and report.get("habits"):
            by_tag[report["tag"]].append(report)
    for tag, found in by_tag.items():
        for habit in HABITS:
            lanes = [[one["habits"][habit] for one in lane if habit in one["habits"]] for lane in by_lane(found)]
            apart = [abs(a / b - 1) for values in lanes for i, a in enumerate(values) for b in values[i + 1 :]]
            if apart:
                rows.append({"tag": tag, "habit": habit, "processes": sum(map(len, lanes)), "cv": cv_within(lanes),
                             "differ_by_1_percent": sum(one > 0.01 for one in apart) / len(apart),
                             "worst_pair": max(apart)})  # fmt: skip
    return rows


HABIT = {"unit": "s", "direction": -1, "kind": "time", "gate": False, "clock": "wall"}


def sides_of(reports, metric):
    """tag → (declaration, one list of samples a process) of a metric or of a habit of another tool."""
    if metric in HABITS:
        found = defaultdict(lambda: (HABIT, []))
        for report in reports:
            if report["outcome"] == "ok" and metric in report.get("habits", {}):
                found[report["tag"]][1].append([report["habits"][metric]])
        return found
    return {tag: (one, processes) for (tag, name, _), (one, processes) in series(reports).items() if name == metric}


def sensitivity(reports, base, planted, metric):
    """Hit rate of each planted delay in disjoint blocks of three pairs, and what the default gate says, trial by trial.

    Found: slower, and the 95 % interval of the block leaves 0 out. The gate besides asks for its threshold.
    """
    from groundspeed.service.domain.compare import process_medians

    lanes = [found for lane in by_lane(reports) if base in (found := sides_of(lane, metric))]
    rows = []
    for tag in planted:
        sides = [(found[base][0], found[base][1], found[tag][1]) for found in lanes if tag in found]
        if not sides:
            continue
        seen = [one for declared, *both in sides for one in blocks(*both, gate_of(declared, MIN_PAIRS))]
        verdicts = [one for declared, *both in sides for one in trials(*both, gate_of(declared))]
        true = statistics.mean(statistics.median(process_medians(slower)) / statistics.median(process_medians(without)) - 1
                               for _, without, slower in sides)  # fmt: skip
        rows.append({
            "planted": tag, "metric": metric, "processes": sum(len(slower) for *_, slower in sides), "effect_of_all": true,
            "blocks": len(seen), "found": sum(one.low > 0 for one in seen),
            "wrong_way": sum(one.high < 0 for one in seen),
            "median_effect": statistics.median(one.effect for one in seen) if seen else math.nan,
            "median_half_width": statistics.median((one.high - one.low) / 2 for one in seen) if seen else math.nan,
            "gate_trials": len(verdicts), "gate_called": sum(one.answer in CALLED for one in verdicts),
        })  # fmt: skip
    return rows


def planted(reports):
    """What the extra kernel really took, as a share of the busy time of the same process."""
    by_tag = defaultdict(list)
    for report in reports:
        busy = sorted(values_of(report, "device_busy_time"))
        spin = sum(one["time_per_step_s"] for one in report.get("spin", ()))
        if report["outcome"] == "ok" and busy:
            by_tag[report["tag"]].append((spin, spin / (busy[len(busy) // 2] - spin)))
    return [{"tag": tag, "processes": len(found), "spin_s": statistics.median(one[0] for one in found),
             "planted_share": statistics.median(one[1] for one in found)} for tag, found in by_tag.items()]  # fmt: skip


def spread(reports):
    """Between-process spread of every series: coefficient of variation of the processes' medians on one device."""
    from groundspeed.service.domain.compare import process_medians

    found = {}
    for lane in by_lane(reports):
        for key, (declared, processes) in series(lane).items():
            medians = [float(value) for value in process_medians(processes) if math.isfinite(value)]
            found.setdefault(key, (declared, []))[1].append(medians)
    rows = []
    for (tag, metric, where), (declared, lanes) in found.items():
        medians = [value for lane in lanes for value in lane]
        if medians:
            rows.append({"tag": tag, "metric": metric, "params": where, "clock": declared.get("clock", "none"),
                         "unit": declared["unit"], "gates": bool(declared["gate"]), "processes": len(medians),
                         "median": statistics.median(medians), "cv": cv_within(lanes)})  # fmt: skip
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
    """Share of each suite's turns in which no sample was taken, and where the time went; seconds are means.

    A turn is from the end of the process before to the end of this one, so starting, handing over and ending are in it.
    """
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
        turn = statistics.mean(report.get("turn_s", report["wall_s"]) for report in found)
        inside = sum(seconds for name, seconds in phases.items() if name not in {"import", "gate"})
        measuring = phases.get("measure", 0.0) + phases.get("profile", 0.0)
        rows.append({"tag": tag, "processes": len(found), "turn_s": turn, "measuring_s": measuring,
                     "overhead_share": 1 - measuring / turn, "warmup_s": phases.get("warmup", 0.0),
                     "device_s": phases.get("device", 0.0), "setup_s": phases.get("setup", 0.0),
                     "check_s": phases.get("check", 0.0), "outside_s": turn - inside,
                     "share_beside_warmup": 1 - (measuring + phases.get("warmup", 0.0)) / turn,
                     "phases_s": dict(phases)})  # fmt: skip
    return rows


def failed(reports):
    return [row for row in outcomes(reports) if row["outcome"] != "ok"]


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
        share = any(word in name for word in ("effect", "cv", "share", "differ", "worst", "ratio", "half_width"))
        return "" if math.isnan(value) else f"{value:.3%}" if share else f"{value:.6g}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def cv_within(lanes):
    """Standard deviation over mean within each device, pooled over devices by their degrees of freedom."""
    free, total = 0, 0.0
    for values in lanes:
        mean = statistics.mean(values) if values else 0.0
        if len(values) > 1 and mean:
            total += (len(values) - 1) * statistics.variance(values) / mean**2
            free += len(values) - 1
    return math.sqrt(total / free) if free else math.nan


def _count(answers):
    found = defaultdict(int)
    for answer in answers:
        found[answer] += 1
    return found
