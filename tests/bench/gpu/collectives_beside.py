"""Our collectives beside the numbers of nccl-tests on the same devices: its programs run, its tables read, ratios made.

GS_NCCL_TESTS names the folder with all_reduce_perf and the others, and GS_MPIRUN, where they were built with MPI, the
command that starts ranks. With MPI each device has a process of its own, as ours do; without, and once more beside it,
one process drives all. They run in turns with ours.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import statistics
import subprocess
import sys
from collections import defaultdict

from tests.bench.gpu import analysis

PERF, MPIRUN = "GS_NCCL_TESTS", "GS_MPIRUN"
PROGRAMS = {"all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter",
            "broadcast": "broadcast", "all_to_all": "alltoall", "send_recv": "sendrecv"}  # fmt: skip
IN_PLACE = {"all_reduce", "broadcast"}
"""Ours run these in one buffer; the others from one into another, as nccl-tests' first columns have it."""
LAUNCHES = {"eager": (), "graph": ("-G", "1")}
LIKE = {"queued": "eager", "registered": "graph"}
"""What of theirs is like ours: by default each launches from the host, into a queue that their C++ and our waiting kernel
keep full; and what nccl-tests allocates NCCL registers by itself where it captures a graph.
"""
SIZES = ("-b", "8K", "-e", "1G", "-f", "2")
APART, TOGETHER = "a process a device", "one process"
MARK = re.compile(r"^## (\w+) (\w+) (\d+) (.+)$", re.MULTILINE)
OPERATIONS = "50"
"""As many between two looks at the clock as ours has of small ones, so that starting and ending weigh the same."""
LIMIT_S = 60.0


def layouts(world, turn):
    """{how devices are shared out: the words before the program and those after it}; one process only in the first turn
    where the other is at hand.
    """
    mpirun = shlex.split(os.environ.get(MPIRUN, ""))
    together = {TOGETHER: ([], ["-g", str(world)])}
    apart = {APART: ([*mpirun, "-np", str(world)], ["-g", "1"])} if mpirun else {}
    return {**apart, **(together if turn == 0 or not apart else {})}


def run_nccl_tests(folder, out, world, left, turn=0):
    """Adds what each program printed to ``out``, each after a line "## COLLECTIVE LAUNCH RANKS LAYOUT"; captured as a
    graph in the first turn only.
    """
    launches = LAUNCHES if turn == 0 else {"eager": LAUNCHES["eager"]}
    for layout, (before, after) in layouts(world, turn).items():
        for name, program in PROGRAMS.items():
            for launch, more in launches.items():
                if left() <= 0:
                    return
                command = [*before, str(folder / f"{program}_perf"), *SIZES, *after, "-n", OPERATIONS, "-w", "5",
                           *more]  # fmt: skip
                try:
                    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
                    said = done.stdout + done.stderr
                except (OSError, subprocess.TimeoutExpired) as error:
                    said = f"# {error}\n"
                with out.open("a") as file:
                    file.write(f"## {name} {launch} {world} {layout}\n{said}\n")
                sys.stdout.write(f"nccl-tests {name} {launch}, {layout}: {len(said)} characters\n")


def by_nccl_tests(path, layout=TOGETHER):
    """(collective, ranks, bytes, launch) → seconds of one operation, one a run; {} without the file."""
    found = defaultdict(list)
    if path.exists():
        parts = MARK.split(path.read_text())
        for name, launch, ranks, how, text in zip(*[iter(parts[1:])] * 5, strict=True):
            if how == layout:
                for size, seconds in points(text, in_place=name in IN_PLACE):
                    found[name, int(ranks), size, launch].append(seconds)
    return dict(found)


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
    return {(one["collective"], one["ranks"], one["bytes"], "eager"): [one["seconds"]] for one in rows}


def rows(reports, peers):
    """One row a collective, launch and size: the medians over processes, ours and the peer's, how far processes of one
    build lie apart, and the ratio of bandwidths minus one, which is what both make of the same number of bytes.
    """
    found = defaultdict(list)
    for report in reports:
        params = report["request"]["params"]
        for one in report["metrics"]:
            if one["metric"] == "latency":
                where = one["params"]
                launch = params.get("buffers", params.get("launch", "queued"))
                key = (params["collective"], where["ranks"], where["bytes"], launch)
                found[key].append((statistics.median(one["values"]), _bus(report, where)))
    made = []
    for (name, ranks, size, launch), values in sorted(found.items()):
        seconds = [one[0] for one in values]
        latency = statistics.median(seconds)
        theirs = peers.get((name, ranks, size, LIKE.get(launch, launch)), [float("nan")])
        peer = statistics.median(theirs)
        made.append({"collective": name, "launch": launch, "ranks": ranks, "bytes": size, "processes": len(values),
                     "latency_us": latency * 1e6, "bus_bandwidth_gb_s": statistics.median(one[1] for one in values) / 1e9,
                     "apart": max(seconds) / min(seconds) - 1, "nccl_processes": len(theirs), "nccl_us": peer * 1e6,
                     "nccl_apart": max(theirs) / min(theirs) - 1, "bandwidth_ratio_minus_1": peer / latency - 1})  # fmt: skip
    return made


def _bus(report, params):
    return statistics.median(analysis.values_of(report, "bus_bandwidth", params))
