"""Starting benchmark processes as a worker does, one lane a device, and keeping what they report as JSON lines.

While one process of a lane has its turn on the device, the next ones import and wait at their gates. Whatever becomes of
a process is one line of the file, written when it ends; a file is whole up to its last line however the driver ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from pathlib import Path

from groundspeed.plugins.execution import measuring_s
from groundspeed.plugins.gate import Gate

ROOT = Path(__file__).resolve().parents[3]
QUICK = {"warmup_max_s": 2.0, "min_time_s": 0.3, "max_time_s": 0.8, "max_samples": 100}
GRACE_S = 10.0
"""A process that has its turn when the time of its line is up may take so much longer."""
COMES_S = 120.0
"""So long a process may take from its start to its gate."""
STACKS_S = 1.0
MANY = 2
"""From so many processes ahead on, more are started where that is not enough."""
TAIL = 3000


def environment(**more):
    path = f"{ROOT / 'plugins'}{os.pathsep}{ROOT}"
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "4", **{k: str(v) for k, v in more.items()}}


def processes_ahead():
    """How many processes import while one measures: starting one takes some 4 s of a core, a turn 2 to 3 s."""
    asked = os.environ.get("GS_AHEAD")
    if asked:
        return int(asked)
    cores = len(os.sched_getaffinity(0))
    return 4 if cores >= 12 else 1 if cores >= 4 else 0


class Started:
    """One process that imports and then waits at its gate; ``finish`` lets it through and gives its report."""

    def __init__(self, plugin, target=None, params=None, *, devices=(), limits=None, env=None, timeout_s=60.0):
        self.request = {"plugin": plugin, "target": target, "params": params or {}}
        self.timeout_s = timeout_s
        self.folder = Path(tempfile.mkdtemp(prefix="gs-"))
        self.gate = Gate(self.folder / "gate")
        spec = {
            **self.request, "version": 1, "devices": list(devices), "gate": str(self.gate.path),
            "report_path": str(self.folder / "report.json"), "progress_path": str(self.folder / "progress"),
            "workdir": str(self.folder / "work"), "limits": {**QUICK, **(limits or {})},
        }  # fmt: skip
        (self.folder / "spec.json").write_text(json.dumps(spec))
        with (self.folder / "spec.json").open() as stdin, (self.folder / "stderr").open("w") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "groundspeed.plugins.child"], stdin=stdin, stdout=subprocess.DEVNULL,
                stderr=stderr, env=environment(**{"GS_HABITS": self.folder / "habits.json", **(env or {})}),
                start_new_session=True, cwd=ROOT,
            )  # fmt: skip

    def ready(self):
        """Whether it waits at its gate."""
        with contextlib.suppress(OSError):
            return '"gate"' in (self.folder / "progress").read_text()
        return False

    def finish(self, at_most_s=1e9):
        """The report as a dictionary, with "wall_s" from the opening of the gate; never raises for what it did."""
        begin = time.perf_counter()
        outcome = ""
        try:
            self.gate.open()
            self._come(begin + min(COMES_S, at_most_s))
            try:
                left_s = begin + at_most_s - time.perf_counter()
                self.process.wait(max(0.1, min(self.timeout_s, left_s)))
            except subprocess.TimeoutExpired:
                outcome = "timeout"
                with contextlib.suppress(ProcessLookupError):
                    self.process.send_signal(signal.SIGUSR1)
                time.sleep(STACKS_S)
            self._end()
            wall_s = time.perf_counter() - begin
            report = self._report(outcome)
        except Exception as error:  # noqa: BLE001 - one process must not end its line
            wall_s = time.perf_counter() - begin
            report = self._without("crashed", f"the driver: {error}", traceback.format_exc())
        finally:
            self.abandon()
        report["conditions"].pop("trace", None)
        return {**report, "wall_s": wall_s, "request": self.request}

    def _come(self, until):
        """Waits until it has come to its gate: before that it has no turn, and no ear for the call for its stacks."""
        while not self.ready() and self.process.poll() is None and time.perf_counter() < until:
            time.sleep(0.02)

    def abandon(self):
        """Nothing of it is left; a second call does nothing."""
        self._end()
        self.gate.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _report(self, outcome):
        if not (self.folder / "report.json").exists():
            status = self.process.returncode
            how = f"signal {-status}" if status < 0 else f"status {status}"
            words = f"still ran after {self.timeout_s:g} s" if outcome else f"the process ended by {how}"
            return self._without(outcome or "crashed", words, (self.folder / "stderr").read_text(errors="replace"))
        report = json.loads((self.folder / "report.json").read_text())
        table = self.folder / "work" / "kernel-table.json"
        if table.exists():
            kernels = json.loads(table.read_text())["kernels"]
            report["kernels"] = kernels[:12]
            report["spin"] = [kernel for kernel in kernels if "spin" in kernel["name"]]
        if (self.folder / "habits.json").exists():
            report["habits"] = json.loads((self.folder / "habits.json").read_text())
        if report["outcome"] != "ok":
            tail = (self.folder / "stderr").read_text(errors="replace")[-TAIL:]
            report["evidence"] = {**report["evidence"], "stderr_tail": tail}
        return report

    def _without(self, outcome, message, stderr):
        return {"plugin": self.request["plugin"], "outcome": outcome, "metrics": [], "conditions": {}, "phases_s": {},
                "facts": {}, "evidence": {"message": message, "stderr_tail": stderr[-TAIL:]}}  # fmt: skip


def child(*arguments, **settings):
    """One process by itself: started and let through at once."""
    return Started(*arguments, **settings).finish()


class Lanes:
    """Runs jobs in order on each of the devices; in a lane the next processes import while one measures."""

    def __init__(self, out: Path, devices: list[str], ahead: int | None = None) -> None:
        self.out, self.devices = out, devices
        self.ahead = processes_ahead() if ahead is None else min(ahead, processes_ahead())
        self.most_ahead = max(self.ahead, len(os.sched_getaffinity(0)) // 2) if self.ahead >= MANY else self.ahead
        self.write_lock = threading.Lock()

    def run(self, jobs_by_device, deadline_s=1e9):
        """``jobs_by_device``: device → list of keyword dictionaries for ``Started`` with a "tag" each."""
        until = time.perf_counter() + deadline_s
        threads = [threading.Thread(target=self._lane, args=(device, jobs, until))
                   for device, jobs in jobs_by_device.items()]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _lane(self, device, jobs, until):
        left, waiting = deque(enumerate(jobs)), deque()
        turn_began = time.perf_counter()
        try:
            while time.perf_counter() < until:
                while left and len(waiting) <= self.ahead:
                    waiting.append(self._start(device, *left.popleft()))
                if not waiting:
                    return
                started, about = waiting.popleft()
                if isinstance(started, Started):
                    if about["number"] and not started.ready():  # imports are slower than turns
                        self.ahead = min(self.ahead + 1, self.most_ahead)
                    report = started.finish(until + GRACE_S - time.perf_counter())
                else:
                    report = started
                now = time.perf_counter()
                self.keep({**report, **about, "turn_s": now - turn_began})
                turn_began = now
        finally:
            for started, _ in waiting:
                if isinstance(started, Started):
                    started.abandon()

    def _start(self, device, number, job):
        job = dict(job)
        about = {"tag": job.pop("tag"), "lane": device, "number": number, "ahead": self.ahead}
        try:
            return Started(**{"devices": (device,), **job}), about
        except Exception as error:  # noqa: BLE001 - as above: told in the file, and the line goes on
            words = {"message": f"the driver: {error}", "stderr_tail": traceback.format_exc()[-TAIL:]}
            return {"plugin": job["plugin"], "outcome": "crashed", "metrics": [], "conditions": {}, "phases_s": {},
                    "facts": {}, "evidence": words, "wall_s": 0.0,
                    "request": {name: job.get(name) for name in ("plugin", "target", "params")}}, about  # fmt: skip

    def keep(self, report):
        for metric in report["metrics"]:
            metric["values"] = [float(f"{value:.7g}") for value in metric["values"][:400]]
            metric["states"] = sorted(set(metric["states"]))
        if "turn_s" in report and report["turn_s"] > 0:
            report["overhead_share"] = round(1 - measuring_s(report["phases_s"]) / report["turn_s"], 4)
        with self.write_lock, self.out.open("a") as file:
            file.write(json.dumps(report) + "\n")
            file.flush()
        shown = {
            m["metric"]: f"{sorted(m['values'])[len(m['values']) // 2]:.6g}"
            for m in report["metrics"][:60]
            if m["metric"] in SHOWN and m["values"]
        }
        labels = list(report["conditions"].get("labels") or {})
        message = report["evidence"].get("message", "") if report["outcome"] != "ok" else ""
        print(report.get("tag"), report["outcome"], message[:300], shown, labels, f"{report.get('turn_s', report['wall_s']):.1f}s",  # noqa: T201 - what a child says to the driver
              {k: round(v, 1) for k, v in report["phases_s"].items() if v > 0.1}, flush=True)  # fmt: skip


SHOWN = {"step_time", "device_busy_time", "latency_p50", "flops_sustained", "flops_burst", "launches", "energy_per_step",
         "peak_allocated", "scaling_efficiency", "compute_time", "communication_moving_time",
         "communication_waiting_time", "model_flops_utilisation", "peak_share"}  # fmt: skip
