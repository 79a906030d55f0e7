"""Our collectives beside the numbers of nccl-tests on the same devices: its programs run, its tables read, ratios made.

GS_NCCL_TESTS names the folder with all_reduce_perf and the others. Each runs with one thread a device as it does by
default, once launched from the host and once captured as a graph, in turns with ours.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from collections import defaultdict

from tests.bench.gpu import analysis

PERF = "GS_NCCL_TESTS"
PROGRAMS = {"all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter",
            "broadcast": "broadcast", "all_to_all": "alltoall", "send_recv": "sendrecv"}  # fmt: skip
IN_PLACE = {"all_reduce", "broadcast"}
"""Ours run these in one buffer; the others from one into another, as nccl-tests' first columns have it."""
LAUNCHES = {"eager": (), "graph": ("-G", "1")}
MARK = re.compile(r"^## (\w+) (\w+) (\d+)$", re.MULTILINE)
OPERATIONS = "50"
"""As many between two looks at the clock as ours has of small ones, so that starting and ending weigh the same."""
LIMIT_S = 60.0


def run_nccl_tests(folder, out, world, left):
    """Adds what each program printed to ``out``, each after a line "## COLLECTIVE LAUNCH RANKS"."""
    for name, program in PROGRAMS.items():
        for launch, more in LAUNCHES.items():
            if left() <= 0:
                return
            command = [str(folder / f"{program}_perf"), "-b", "8K", "-e", "1G", "-f", "2", "-g", str(world),
                       "-n", OPERATIONS, "-w", "5", *more]  # fmt: skip
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
                said = done.stdout + done.stderr
            except (OSError, subprocess.TimeoutExpired) as error:
                said = f"# {error}\n"
            with out.open("a") as file:
                file.write(f"## {name} {launch} {world}\n{said}\n")
            sys.stdout.write(f"nccl-tests {name} {launch}: {len(said)} characters\n")


def by_nccl_tests(path):
    """(collective, ranks, bytes, launch) → seconds of one operation, the median over runs; {} without the file."""
    found = defaultdict(list)
    if path.exists():
        parts = MARK.split(path.read_text())
        for name, launch, ranks, text in zip(*[iter(parts[1:])] * 4, strict=True):
            for size, seconds in points(text, in_place=name in IN_PLACE):
                found[name, int(ranks), size, launch].append(seconds)
    return {key: statistics.median(values) for key, values in found.items()}


def points(text, *, in_place):
    """(bytes, seconds) of each row of a table: size, count, type, operation, root, then twice time in us, two
    bandwidths in GB/s and the number of wrong values.
    """
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 13 and words[0].isdigit() and words[1].isdigit():
            yield int(words[0]), float(words[9 if in_place else 5]) * 1e-6


def by_hand(path):
    """The same of what nccl_by_hand.py left: launched from the host, out of place."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines]
    return {(one["collective"], one["ranks"], one["bytes"], "eager"): one["seconds"] for one in rows}


def rows(reports, peers):
    """One row a collective, launch and size: our median over processes, the peer's time, and the ratio of bandwidths
    minus one, which is what both make of the same number of bytes.
    """
    found = defaultdict(list)
    for report in reports:
        params = report["request"]["params"]
        for one in report["metrics"]:
            if one["metric"] == "latency":
                key = (
                    params["collective"],
                    one["params"]["ranks"],
                    one["params"]["bytes"],
                    params.get("launch", "graph"),
                )
                found[key].append((statistics.median(one["values"]), _bus(report, one["params"])))
    made = []
    for (name, ranks, size, launch), values in sorted(found.items()):
        latency = statistics.median(one[0] for one in values)
        peer = peers.get((name, ranks, size, launch), peers.get((name, ranks, size, "eager"), float("nan")))
        made.append({"collective": name, "launch": launch, "ranks": ranks, "bytes": size, "processes": len(values),
                     "latency_us": latency * 1e6, "bus_bandwidth_gb_s": statistics.median(one[1] for one in values) / 1e9,
                     "nccl_us": peer * 1e6, "bandwidth_ratio_minus_1": peer / latency - 1})  # fmt: skip
    return made


def _bus(report, params):
    return statistics.median(analysis.values_of(report, "bus_bandwidth", params))
