"""A benchmark worker for the chaos run: all of it is real but what a job does, so that thousands fit into minutes.

Celery, claims, leases, signs of life, spool, delivery and shutdown are the product's own. Checking out, building and
measuring are replaced by one short process a benchmark, which may be killed like any other.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from groundspeed.plugins.spi import Outcome
from groundspeed.service.wire import v1
from groundspeed.workers import hygiene, main, node
from groundspeed.workers.attempt import Attempt
from groundspeed.workers.errors import SpoolFull, Stopped
from groundspeed.workers.job import Node
from groundspeed.workers.stack import Stack

PLUGIN = v1.PluginSpec.model_validate(
    {
        "name": "chaos",
        "version": "1",
        "needs": {"target": False},
        "params": [{"name": "n", "type": "int", "default": 1}],
        "metrics": [{"name": "time", "unit": "s", "direction": -1, "kind": "time"}],
    }
)
FACET = v1.Facet(layer="node", name="machine", value="chaos")


class QuickRun:
    """Stands in for JobRun: the same promises to lease and spool, a fraction of the time."""

    def __init__(self, parts: Node, slot: Any, attempt: Attempt, job: v1.JobSpec, facets: Any) -> None:
        del slot, facets
        self._spool, self._attempt, self._job = parts.spool, attempt, job

    def run(self) -> v1.FinishRequest | None:
        done = {(key.side, key.benchmark, key.replicate) for key in self._job.done}
        try:
            for benchmark in self._job.benchmarks:
                for replicate in range(benchmark.first_replicate, benchmark.first_replicate + benchmark.replicates):
                    self._attempt.check()
                    if (0, benchmark.key, replicate) not in done:
                        self._attempt.line("stdout", f"{benchmark.key} {replicate}")
                        self._spool.put(self._attempt.id, _measure(benchmark, replicate))
        except Stopped as stopped:
            return None if stopped.reason == "lost" else v1.FinishRequest(state="released", error=str(stopped))
        except SpoolFull as error:
            return v1.FinishRequest(state="failed", error_kind="transient", error=str(error))
        return v1.FinishRequest(state="succeeded")


def _measure(benchmark: v1.BenchmarkSpec, replicate: int) -> v1.RunReport:
    begin = time.time()
    child = subprocess.run(["sh", "-c", "sleep 0.05; echo 1.0"], capture_output=True, text=True, check=False)
    fine = child.returncode == 0
    samples = {"metric": "time", "unit": "s", "direction": -1, "kind": "time", "values": [child.stdout or 0]}
    return v1.RunReport.model_validate(
        {
            "key": {"side": 0, "benchmark": benchmark.key, "replicate": replicate},
            "plugin": PLUGIN.name,
            "plugin_version": PLUGIN.version,
            "params": benchmark.params,
            "outcome": (Outcome.OK if fine else Outcome.CRASHED).value,
            "started_at": begin,
            "duration_s": time.time() - begin,
            "samples": [samples] if fine else [],
            "evidence": {} if fine else {"message": f"the process ended by signal {-child.returncode}"},
            "environment": [FACET.model_dump()],
        }
    )


def _stack(*_: Any) -> Stack:
    """The interpreter as it is: nothing is built here."""
    return Stack(
        Path(sys.executable), Path(sys.base_prefix), "3", "cpython", "linux", {}, Path("/nonexistent"), "chaos"
    )


if __name__ == "__main__":
    hygiene._ask = lambda _question: ()  # type: ignore[assignment]
    node.JobRun = QuickRun  # type: ignore[misc,assignment]
    node.facets.merge = lambda *_: (FACET,)  # type: ignore[assignment]
    main.read_catalogue = lambda: (PLUGIN,)  # type: ignore[assignment]
    main.discover = _stack  # type: ignore[assignment]
    raise SystemExit(main.run())
