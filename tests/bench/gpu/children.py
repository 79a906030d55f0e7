"""Starting benchmark processes as a worker does, one lane a device, and keeping what they report as JSON lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
QUICK = {"warmup_max_s": 2.0, "min_time_s": 0.3, "max_time_s": 0.8, "max_samples": 100}


def environment(**more):
    path = f"{ROOT / 'plugins'}{os.pathsep}{ROOT}"
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "4", **{k: str(v) for k, v in more.items()}}


def child(plugin, target=None, params=None, *, devices=(), limits=None, env=None, timeout_s=120.0):
    """The report as a dictionary, with "wall_s"; a process that leaves none is reported as the worker would."""
    folder = Path(tempfile.mkdtemp(prefix="gs-"))
    spec = {
        "plugin": plugin, "target": target, "params": params or {}, "version": 1, "devices": list(devices),
        "report_path": str(folder / "report.json"), "progress_path": str(folder / "progress"),
        "workdir": str(folder / "work"), "limits": {**QUICK, **(limits or {})},
    }  # fmt: skip
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "groundspeed.plugins.child"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, env=environment(**(env or {})), start_new_session=True,
    )  # fmt: skip
    outcome = ""
    try:
        _, stderr = process.communicate(json.dumps(spec), timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGUSR1)
        time.sleep(1)
        os.killpg(process.pid, signal.SIGKILL)
        _, stderr = process.communicate()
        outcome = "timeout"
    if (folder / "report.json").exists():
        report = json.loads((folder / "report.json").read_text())
    else:
        how = f"signal {-process.returncode}" if process.returncode < 0 else f"status {process.returncode}"
        report = {
            "plugin": plugin, "outcome": outcome or "crashed", "metrics": [], "conditions": {}, "phases_s": {},
            "evidence": {"message": f"the process ended by {how}", "stderr_tail": stderr[-3000:]},
        }  # fmt: skip
    table = folder / "work" / "kernel-table.json"
    if table.exists():
        report["kernels"] = json.loads(table.read_text())["kernels"][:12]
        report["spin"] = [k for k in json.loads(table.read_text())["kernels"] if "spin" in k["name"]]
    if (folder / "habits.json").exists():
        report["habits"] = json.loads((folder / "habits.json").read_text())
    report["conditions"].pop("trace", None)
    report["wall_s"] = time.perf_counter() - begin
    report["request"] = {"plugin": plugin, "target": target, "params": params or {}}
    return report


class Lanes:
    """Runs jobs in order on each of the devices; in a lane the next process imports while one measures."""

    def __init__(self, out: Path, devices: list[str], ahead: int = 2) -> None:
        self.out, self.devices, self.ahead = out, devices, ahead
        self.write_lock = threading.Lock()

    def run(self, jobs_by_device, deadline_s=1e9):
        """``jobs_by_device``: device → list of keyword dictionaries for ``child`` with a "tag" each."""
        begin = time.perf_counter()
        pools = []
        for device, jobs in jobs_by_device.items():
            pool = ThreadPoolExecutor(self.ahead)
            pools.append(pool)
            for number, job in enumerate(jobs):
                pool.submit(self._one, device, number, job, begin + deadline_s)
        for pool in pools:
            pool.shutdown(wait=True)

    def _one(self, device, number, job, until):
        if time.perf_counter() > until:
            return
        job = dict(job)
        tag = job.pop("tag")
        env = {"GS_LANE_LOCK": f"/tmp/gs-lane-{device}", **job.pop("env", {})}
        habits = Path(tempfile.mkdtemp(prefix="gs-")) / "habits.json"
        report = child(devices=(device,), env={**env, "GS_HABITS": habits}, **job)
        if habits.exists():
            report["habits"] = json.loads(habits.read_text())
        self.keep({**report, "tag": tag, "lane": device, "number": number})

    def keep(self, report):
        with self.write_lock, self.out.open("a") as file:
            for metric in report["metrics"]:
                metric["values"] = [float(f"{value:.7g}") for value in metric["values"][:400]]
                metric["states"] = sorted(set(metric["states"]))
            file.write(json.dumps(report) + "\n")
        shown = {
            m["metric"]: f"{sorted(m['values'])[len(m['values']) // 2]:.6g}"
            for m in report["metrics"][:60]
            if m["metric"] in SHOWN
        }
        labels = list(report["conditions"].get("labels", {}))
        message = report["evidence"].get("message", "") if report["outcome"] != "ok" else ""
        print(report.get("tag"), report["outcome"], message[:300], shown, labels, f"{report['wall_s']:.1f}s",  # noqa: T201 - what a child says to the driver
              {k: round(v, 1) for k, v in report["phases_s"].items() if v > 0.1}, flush=True)  # fmt: skip


SHOWN = {"step_time", "device_busy_time", "latency_p50", "flops_sustained", "flops_burst", "launches", "energy_per_step",
         "peak_allocated", "scaling_efficiency", "compute_time", "communication_moving_time",
         "communication_waiting_time", "model_flops_utilisation", "peak_share"}  # fmt: skip
