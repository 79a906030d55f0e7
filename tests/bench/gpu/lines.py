"""What has to be shown, one function a line: runs its plan and says what came of it as rows for JSON and a table.

A line gets a :class:`Bench` and returns {title: rows}. Running twice with the same folder adds to the pool.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.gpu import analysis, collectives_beside, curves, kernels_named, plans
from tests.bench.gpu.children import Lanes, child, environment


class NoTables(Exception):
    """Reports only were asked for."""


class Bench:
    """Where results go, which devices there are, and how long a line may take."""

    def __init__(self, out, devices, seconds, *, small=False, most=10_000, runs=True):
        self.out, self.devices, self.small, self.most, self.runs = Path(out), devices, small, most, runs
        self.until = time.monotonic() + seconds
        self.tables = True
        self.out.mkdir(parents=True, exist_ok=True)

    def left(self):
        return max(0.0, self.until - time.monotonic())

    def file(self, line):
        return self.out / f"{line}.jsonl"

    def reports(self, line):
        """Those kept so far, for tables. Raises NoTables where none are wanted."""
        if not self.tables:
            raise NoTables("--no-tables")
        return self.kept(line)

    def kept(self, line):
        """Those kept so far; a last line that was being written when the driver was ended is left out."""
        path = self.file(line)
        found = []
        for text in path.read_text().splitlines() if path.exists() else ():
            with contextlib.suppress(json.JSONDecodeError):
                found.append(json.loads(text))
        return found

    def prepared(self, jobs):
        return [plans.shrunk(one) if self.small else one for one in jobs]

    def lanes(self, line, rounds, ahead=None, share=1.0):
        """Each round on the next device; what does not fit into the time is left out."""
        if not self.runs:
            return
        lanes = Lanes(self.file(line), self.devices, ahead)
        rounds = rounds[: self.most]
        count = len(self.devices)
        by_device = {
            name: [one for jobs in rounds[index::count] for one in self.prepared(jobs)]
            for index, name in enumerate(self.devices)
        }
        lanes.run(by_device, self.left() * share)

    def one_after_the_other(self, line, jobs):
        """Jobs that use all devices: one lane, in which the ranks of the next wait while one measures."""
        if not self.runs:
            return
        own = {"devices": tuple(self.devices)}
        settings = [
            {**own, **one, **({"devices": ()} if self.small else {})} for one in self.prepared(jobs)[: self.most]
        ]
        Lanes(self.file(line), ["all"]).run({"all": settings}, self.left())


def same(bench):
    """A/A of gemm, training (conv and decoder), inference (eager and graph) and memory, all clocks; and the habits."""
    bench.lanes("same", plans.turned([plans.same()] * 200))
    reports = bench.reports("same")
    return {"A/A in all": analysis.in_all(reports), "A/A by the default gate": analysis.same_with_itself(reports),
            "A/A in blocks of three pairs": analysis.same_in_blocks(reports),
            "Habits of other tools": analysis.habits_aside(reports),
            "Spread between processes": analysis.spread(reports), "Overhead": analysis.overhead(reports)}  # fmt: skip


def overhead(bench):
    """Each suite as it runs by default: what its turns on the device are spent on."""
    bench.lanes("overhead", [plans.overhead()] * 2 * len(bench.devices))
    reports = bench.reports("overhead")
    return {"Overhead": analysis.overhead(reports), "What did not run": analysis.failed(reports)}


def same_collectives(bench):
    """A/A of collectives."""
    bench.one_after_the_other("same_collectives", plans.same_collectives() * min(bench.most, 60))
    reports = bench.reports("same_collectives")
    return {"A/A in all": analysis.in_all(reports), "A/A by the default gate": analysis.same_with_itself(reports),
            "A/A in blocks of three pairs": analysis.same_in_blocks(reports),
            "Spread between processes": analysis.spread(reports), "Overhead": analysis.overhead(reports),
            "What did not run": analysis.failed(reports)}  # fmt: skip


def sensitivity(bench):
    """Planted delays of 0.2, 0.5 and 1 % on the device, and one on the host; trials are disjoint blocks."""
    bench.lanes("sensitivity", [[plans.calibration()]])
    busy = [value for report in bench.kept("sensitivity") if report["tag"] == "gpt calibration"
            for value in analysis.values_of(report, "device_busy_time")]  # fmt: skip
    bench.lanes("sensitivity", plans.delays(sorted(busy)[len(busy) // 2] if busy else plans.BUSY_S))
    reports = bench.reports("sensitivity")
    planted = [f"gpt +{share} %" for share in plans.DELAYS]
    found = {f"Trials by {metric}": analysis.sensitivity(reports, "gpt +0 %", planted, metric)
             for metric in ("device_busy_time", "step_time", *analysis.HABITS)}  # fmt: skip
    host = [row for row in analysis.spread(reports)
            if row["metric"] in {"device_busy_time", "exposed_host_time", "step_time"}]  # fmt: skip
    effects = {**{f"gpt +{share} %": share / 100 for share in plans.DELAYS}, "gpt host +3 ms": None, "gpt +0 %": None}
    return {**found, "What was planted, by the trace": analysis.planted(reports), "Where a delay shows": host,
            "Which kernel is named": kernels_named.named(reports, "gpt +0 %", effects),
            "A/A of what has no delay": analysis.same_in_blocks([r for r in reports if r["tag"] == "gpt +0 %"]),
            "Habits of other tools": analysis.habits_aside(reports), "Overhead": analysis.overhead(reports),
            "What did not run": analysis.failed(reports)}  # fmt: skip


def gemm(bench):
    """gemm beside a hand-written event loop in the same process."""
    apart(bench, "gemm_by_hand", bench.file("gemm"))
    rows = bench.reports("gemm")
    return {"gemm beside a loop by hand": [
        {"precision": row["precision"], "effect": row["ours_over_hand_minus_1"][0],
         "half_width": row["ours_over_hand_minus_1"][1], "waiting_effect": row["waiting_over_hand_minus_1"][0],
         "hand_over_hand_effect": row["hand_over_hand_minus_1"][0][0], "hand_s": row["hand_s"]} for row in rows]}  # fmt: skip


def apart(bench, module, *arguments):
    """A driver of its own in a process of its own; one that fails or takes too long is told and stops nothing."""
    if not bench.runs or bench.small:
        return
    said = told(module, *arguments, limit_s=max(bench.left(), 30.0))
    sys.stdout.write(said["output"])
    if said["status"]:
        sys.stdout.write(f"{module}: {said['status']}\n")


def told(module, *arguments, limit_s):
    """What a driver of its own printed, as far as it came, and how it ended: 0, a status, or "cut off"."""
    command = [sys.executable, "-m", f"tests.bench.gpu.{module}", *map(str, arguments)]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, env=environment(), stdout=output, stderr=subprocess.STDOUT,
                                   start_new_session=True)  # fmt: skip
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = "cut off"
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return {"check": module, "status": status, "output": output.read()[-20_000:]}


def agree(bench):
    """Our reference models beside torchvision's and transformers', and CUPTI beside torch.profiler, each by itself."""
    if bench.runs and not bench.small:
        for module in ("tracers_agree", "models_agree"):
            with bench.file("agree").open("a") as file:
                file.write(json.dumps(told(module, limit_s=max(bench.left(), 30.0))) + "\n")
    return {"Checks": [{"check": one["check"], "status": one["status"], "output": one["output"]}
                       for one in bench.reports("agree")]}  # fmt: skip


def nccl(bench):
    """All six collectives beside nccl-tests, or where that is not at hand NCCL called as it does, over all devices given."""
    world = len(bench.devices) if not bench.small else 2
    perf = os.environ.get(collectives_beside.PERF)
    hand = bench.out / "nccl_by_hand.jsonl"
    if bench.runs and perf and not bench.small:
        for turn in range(plans.COLLECTIVE_PROCESSES):  # in turns, because processes of one build differ for a while
            collectives_beside.run_nccl_tests(Path(perf), bench.out / "nccl_tests.txt", world, bench.left, turn)
            bench.one_after_the_other("nccl", plans.collectives(world) + (plans.otherwise(world) if turn == 0 else []))
    else:
        others = [name for name in plans.COLLECTIVES if name != "all_reduce"]
        apart(bench, "nccl_by_hand", hand, world, 8192, 1 << 30, 2, "all_reduce")
        apart(bench, "nccl_by_hand", hand, world, 8192, 1 << 30, 8, *others)
        bench.one_after_the_other("nccl", plans.collectives(world) * (1 if bench.small else plans.COLLECTIVE_PROCESSES))
    reports = bench.reports("nccl")
    theirs, tables = bench.out / "nccl_tests.txt", {}
    for layout in (collectives_beside.APART, collectives_beside.TOGETHER):
        peers = {**collectives_beside.by_hand(hand), **collectives_beside.by_nccl_tests(theirs, layout)}
        if peers:
            tables[f"Beside nccl-tests, {layout}"] = collectives_beside.rows(reports, peers)
    if reports and tables:
        (bench.out / "collectives.svg").write_text(curves.plot(next(iter(tables.values()))))
    return {**tables, "What did not run": analysis.failed(reports)}


def failures(bench):
    """Out of memory, crash, device assertion, hang and contamination, each with a clean run after it."""
    bench.lanes("failures", [plans.wrong()], ahead=1)
    if bench.runs and not bench.small:
        contaminate(bench)
    return {"How each ended": analysis.outcomes(bench.reports("failures"))}


def contaminate(bench):
    """A run beside another process on the device, and one after it."""
    beside, after = plans.contaminated()
    with busy_device(bench, bench.devices[0]):
        bench.lanes("failures", [beside], ahead=0)
    bench.lanes("failures", [after], ahead=0)


@contextlib.contextmanager
def busy_device(bench, device, seconds=120):
    """Another process multiplies matrices on the device, from when it says so."""
    sign = bench.out / "busy"
    code = (f"import torch,time,pathlib\na=torch.randn(8192,8192,device='cuda',dtype=torch.bfloat16)\na@a\n"
            f"torch.cuda.synchronize()\npathlib.Path({str(sign)!r}).touch()\nend=time.time()+{seconds}\n"
            "while time.time()<end: a@a; torch.cuda.synchronize()")  # fmt: skip
    other = subprocess.Popen([sys.executable, "-c", code], env=environment(CUDA_VISIBLE_DEVICES=device),
                             start_new_session=True)  # fmt: skip
    try:
        until = time.monotonic() + 60
        while not sign.exists() and other.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        yield
    finally:
        other.kill()
        other.wait()
        sign.unlink(missing_ok=True)


def more(bench):
    """The default run of each further suite: spread for each clock, share of the ceiling, A/A."""
    bench.lanes("more", plans.more())
    reports = bench.reports("more")
    rows = analysis.spread(reports)
    return {"Spread between processes": rows, "A/A by the default gate": analysis.same_with_itself(reports),
            "A/A in blocks of three pairs": analysis.same_in_blocks(reports),
            "Shares of the measured ceiling": analysis.shares(rows, "memory-bandwidth copy", "gemm bf16"),
            "What did not run": analysis.failed(reports),
            "Overhead": analysis.overhead(reports)}  # fmt: skip


def attention(bench):
    """Each backend against float64 over shapes, and why one cannot run a shape."""
    bench.lanes("attention", [[one] for one in plans.attention()])
    reports = bench.reports("attention")
    wanted = ("device_flops", "peak_share", "relative_error")
    rows = []
    for report in reports:
        row = {"tag": report["tag"], "outcome": report["outcome"]}
        for metric in wanted:
            values = sorted(analysis.values_of(report, metric))
            row[metric] = values[len(values) // 2] if values else float("nan")
        row["why"] = "" if report["outcome"] == "ok" else report["evidence"].get("message", "")[:200]
        rows.append(row)
    return {"Attention by backend": rows}


def kernel(bench):
    """A Triton LayerNorm+GELU beside the unfused and the compiled operators, with the roofline plot."""
    from groundspeed.plugins import roofline

    bench.lanes("kernel", [[one] for one in plans.kernels()])
    reports = [report for report in bench.reports("kernel") if report["outcome"] == "ok"]
    points, ceilings = [], None
    for report in reports:
        facts = report["facts"]
        flops, moved = facts["flops_per_call"], facts["bytes_per_call"]
        points.append(roofline.Point(report["tag"], flops / moved, flops / facts["seconds"]))
        ceilings = roofline.Ceilings(facts["ceiling_bandwidth"], facts["ceiling_flops"], facts["precision"])
    if ceilings is not None:
        (bench.out / "roofline.svg").write_text(roofline.plot(ceilings, points))
    rows = [row for row in analysis.spread(reports) if row["metric"] in {"kernel_time", "device_busy_time", "bandwidth",
                                                                        "roofline_share"}]  # fmt: skip
    return {"Fused beside unfused": rows, "What did not run": [
        row for row in analysis.outcomes(bench.reports("kernel")) if row["outcome"] != "ok"]}  # fmt: skip


def loader(bench):
    """Loaders made slow on purpose, and the name each is given."""
    bench.lanes("loader", [plans.loaders()], ahead=1)
    return {"Loaders made slow on purpose": [
        {"made": report["tag"], "named": report["facts"].get("bottleneck", report["outcome"]),
         "right": report["tag"] == report["facts"].get("bottleneck"), "message": report["evidence"].get("message", "")}
        for report in bench.reports("loader")]}  # fmt: skip


def scaling(bench):
    """GPT and ResNet-50 under DDP and FSDP over 2, 4, 8 of the devices given."""
    worlds = [world for world in (2, 4, 8) if world <= len(bench.devices)] or [2]
    for world in worlds:
        bench.one_after_the_other("scaling", plans.scaling(world))
    wanted = {"samples_per_s", "scaling_efficiency", "exposed_communication_share", "step_time", "compute_time",
              "straggler_excess"}  # fmt: skip
    reports = bench.reports("scaling")
    return {"Training over several devices": [row for row in analysis.spread(reports) if row["metric"] in wanted],
            "What did not run": [row for row in analysis.outcomes(reports) if row["outcome"] != "ok"]}  # fmt: skip


def faults(bench):
    """One rank killed, stopped or slowed in the middle of a run over all devices: the rank is named, the curve kept."""
    if bench.runs:
        plant_faults(bench)
    return {"What became of each": analysis.outcomes(bench.reports("faults"))}


def plant_faults(bench):
    world = len(bench.devices) if not bench.small else 2
    devices = () if bench.small else tuple(bench.devices)
    lanes = Lanes(bench.file("faults"), bench.devices, 1)
    top = 16384 if bench.small else 256 << 20
    for kind, number in (("killed", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
        params = {"world_size": world, "max_bytes": top, "factor": 2, "seconds_per_size": 1.0, "samples": 1000,
                  "silence_s": 15.0, "min_bytes": 256 if bench.small else 8192}  # fmt: skip
        env = {"GS_FAULT_RANK": str(world - 1), "GS_FAULT_SIGNAL": str(int(number))}
        lanes.keep({**with_fault(params, devices, env), "tag": f"one rank {kind}"})
    slow = {"parallel": "ddp", "world_size": world, "seconds": 0.3, "batch_size": 2}
    target = "tests.bench.gpu.slow_rank:gpt_small" if bench.small else "tests.bench.gpu.slow_rank:gpt"
    lanes.keep({**child("distributed-training", target, slow, devices=devices, env={"GS_SLOW_RANK": world - 1},
                        timeout_s=240.0), "tag": "one rank slowed"})  # fmt: skip


def with_fault(params, devices, env):
    """A collectives run of which one rank gets a signal once its curve has begun; a thread sends it."""
    import threading

    stop = threading.Event()

    def strike():
        rank, number = int(env["GS_FAULT_RANK"]), int(env["GS_FAULT_SIGNAL"])
        while not stop.is_set():
            for pid, spec in rank_processes():
                if spec.get("rank") == rank and began(spec["events"]):
                    os.kill(pid, number)
                    return
            time.sleep(0.05)

    thread = threading.Thread(target=strike, daemon=True)
    thread.start()
    try:
        return child("collectives", params=params, devices=devices, timeout_s=120.0)
    finally:
        stop.set()
        thread.join(timeout=5)


def rank_processes():
    """(pid, the rank's specification) of every rank that runs on this machine."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"groundspeed.plugins.distributed.rank" in words:
            yield int(path.parent.name), json.loads(words[words.index(b"groundspeed.plugins.distributed.rank") + 1])


def began(path):
    """Whether a rank has measured its second point."""
    try:
        return Path(path).read_text().count('"event": "point"') >= 2
    except OSError:
        return False


def straggler(bench):
    """Training over all devices while a second process loads the last one: that device's rank is named."""
    world = len(bench.devices)
    if bench.runs and not bench.small:
        load_one_device(bench, world)
    return {"Straggler": [
        {"tag": report["tag"], "outcome": report["outcome"], "named": report["facts"].get("straggler", "none"),
         "loaded": world - 1, "label": (report["conditions"].get("labels") or {}).get("straggler", "")}
        for report in bench.reports("straggler")]}  # fmt: skip


def load_one_device(bench, world):
    with busy_device(bench, bench.devices[-1], 240):
        bench.one_after_the_other("straggler", plans.scaling(world)[:1])


LINES = {one.__name__: one for one in (
    same, overhead, same_collectives, sensitivity, gemm, nccl, failures, more, attention, kernel, loader, scaling, faults,
    straggler, agree,
)}  # fmt: skip
WEIGHTS = {"same": 470, "overhead": 130, "same_collectives": 110, "sensitivity": 470, "gemm": 50, "nccl": 230, "failures": 60,
           "more": 410, "attention": 140, "kernel": 60, "loader": 40, "scaling": 100, "faults": 90, "straggler": 60,
           "agree": 90}  # fmt: skip
"""What each line wants of a short time, in seconds of one H200 (those over several: of two)."""


def share_of(name, later, left):
    """Seconds of a line when it and the ``later`` ones must fit into what is left: what one does not use, others get."""
    return left * WEIGHTS[name] / sum(WEIGHTS[one] for one in (name, *later))
