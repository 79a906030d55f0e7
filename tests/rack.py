"""Simulated nodes with planted effects, driven through the use cases: what a campaign sees of a fleet, in milliseconds.

Noise is drawn from recorded deviations of GPU processes when the shared data is there, else at the spread they showed.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fleet import Fleet, fleet
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import nodes
from groundspeed.service.usecases.campaigns import create, step, view
from groundspeed.service.usecases.ingest import ingest_runs
from groundspeed.service.wire import v1
from groundspeed.service.wire.campaigns import CampaignPage

CONFIG = """\
[project]
name = "toy"

[[suite]]
name = "compute"
plugin = "rack_compute"

[[suite]]
name = "fabric"
plugin = "rack_fabric"
"""
PLUGINS = {
    "rack_compute": ("throughput", "samples/s", 1000.0, 0.0054),
    "rack_fabric": ("bus_bandwidth", "B/s", 3.6e11, 0.0019),
}
"""Metric, unit, level, and the spread of a process as recorded (a GEMM's and a copy's)."""


def catalogue() -> list[v1.PluginSpec]:
    return [
        v1.PluginSpec.model_validate(
            {
                "name": name, "version": "1", "timing": "self-timed", "needs": {"target": False, "devices": devices},
                "metrics": [{"name": metric, "unit": unit, "direction": 1, "kind": "rate"}],
            }
        )
        for (name, (metric, unit, _, _)), devices in zip(PLUGINS.items(), (1, 2), strict=True)
    ]  # fmt: skip


def recorded(name: str) -> np.ndarray | None:
    """Relative deviations of recorded processes of one workload; None where the data is not there."""
    root = Path(os.environ.get("GROUNDSPEED_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    path = root / "gpu" / "naive.jsonl"
    if not path.is_file():
        return None
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    values = np.array([row["warm_median"] for row in rows if row["name"] == name])
    return np.log(values / np.median(values))


_RECORDED = {"rack_compute": recorded("gemm"), "rack_fabric": recorded("copy")}


@dataclass
class Machine:
    """One node. ``slow``: device index → how much slower it is; ``driver_effect``: worsening by metric and driver."""

    name: str
    driver: str = "570.86.15"
    persistence: bool = True
    clocks: str = "locked 1980 MHz"
    kernel: str = "6.8"
    devices: int = 2
    labels: dict[str, str] = field(default_factory=dict)
    slow: dict[int, float] = field(default_factory=dict)
    driver_effect: dict[tuple[str, str], float] = field(default_factory=dict)
    clocks_effect: float = 0.05
    alive: bool = True
    hygiene: tuple[str, ...] = ()

    def registration(self) -> v1.RegisterRequest:
        facets = [
            {"layer": "node", "name": "gpu.driver", "value": self.driver},
            {"layer": "node", "name": "kernel", "value": self.kernel},
        ]
        for i in range(self.devices):
            facets += [
                {"layer": "node", "name": f"gpu{i}.persistence", "value": str(self.persistence)},
                {"layer": "node", "name": f"gpu{i}.clocks_policy", "value": self.clocks},
            ]
        return v1.RegisterRequest.model_validate(
            {
                "protocol": v1.PROTOCOL, "node": self.name, "worker_version": "1", "labels": self.labels,
                "hardware": {"gpu_model": "H200", "gpu_count": self.devices, "cpu_model": "EPYC", "cpu_count": 8,
                             "memory_bytes": 64 * 2**30},
                "devices": [{"index": i, "uuid": self.uuid(i), "model": "H200"} for i in range(self.devices)],
                "environment": facets, "catalogue": [spec.model_dump() for spec in catalogue()],
                "hygiene": self.hygiene,
            }
        )  # fmt: skip

    def uuid(self, index: int) -> str:
        return f"GPU-{self.name}-{index}"

    def value(self, plugin: str, devices: tuple[str, ...], replicate: int, seed: int) -> float:
        """What one process measures now."""
        _, _, level, spread = PLUGINS[plugin]
        place = f"{self.name}/{plugin}/{devices}"
        own = np.random.default_rng(zlib.crc32(place.encode()))
        now = np.random.default_rng([seed, zlib.crc32(f"{place}/{self.driver}/{replicate}".encode())])
        pool = _RECORDED[plugin]
        noise = spread * now.standard_t(4) / math.sqrt(2) if pool is None else now.choice(pool)
        slower = max((self.slow.get(i, 0.0) for i in range(self.devices) if self.uuid(i) in devices), default=0.0)
        lost = self.clocks_effect if not self.clocks.startswith("locked") else 0.0
        effect = self.driver_effect.get((plugin, self.driver), 0.0)
        return level * math.exp(0.003 * own.standard_normal() + noise) * (1 - slower) * (1 - lost) * (1 - effect)


@dataclass
class Rack:
    """A project, its machines, and the campaigns over them."""

    fleet: Fleet
    machines: dict[str, Machine]
    seed: int = 1

    @property
    def db(self) -> Database:
        return self.fleet.db

    def create(self, name: str = "driver-580", driver: str = "580", **changes: Any) -> create.Created:
        new = create.New(name, "toy", {"gpu.driver": driver}, **{"replicates": 3, **changes})
        return create.create(self.db, self.fleet.mirrors, new, self.fleet.now, actor="ada", hooks={"reboot": "true"})

    def register(self, *names: str) -> None:
        for name in names or self.machines:
            nodes.register(self.db, self.machines[name].registration(), self.fleet.now, 10.0)

    def upgrade(self, name: str, **changes: Any) -> None:
        """The node reboots into a new driver and is back; ``changes`` are what else becomes of it."""
        machine = self.machines[name]
        for key, value in {"driver": "580.65.06", **changes}.items():
            setattr(machine, key, value)
        if machine.alive:
            self.register(name)

    def tick(self, times: int = 1, seconds: float = 1.0) -> int:
        """How many rows moved."""
        moved = 0
        for _ in range(times):
            self.fleet.later(seconds)
            moved += step.tick(self.db, self.fleet.now, 300.0)
        return moved

    def work(self) -> int:
        """Every machine that is alive does what waits for it; returns how many processes ran."""
        count = 0
        for machine in self.machines.values():
            while machine.alive:
                claim = self.fleet.next(machine.name)
                if claim.attempt_id is None or claim.job is None:
                    break
                runs = [self._run(machine, b, r) for b in claim.job.benchmarks for r in range(b.replicates)]
                for start in range(0, len(runs), 100):
                    batch = v1.RunBatch(runs=tuple(runs[start : start + 100]))
                    ack = ingest_runs(self.db, claim.attempt_id, batch, self.fleet.now)
                    assert not ack.refused, ack.refused
                self.fleet.finish(claim.attempt_id)
                count += len(runs)
        return count

    def _run(self, machine: Machine, benchmark: v1.BenchmarkSpec, replicate: int) -> v1.RunReport:
        metric, unit, _, _ = PLUGINS[benchmark.plugin]
        value = machine.value(benchmark.plugin, benchmark.devices, replicate, self.seed)
        return v1.RunReport.model_validate(
            {
                "key": {"side": 0, "benchmark": benchmark.key, "replicate": replicate},
                "plugin": benchmark.plugin, "plugin_version": "1", "params": benchmark.params, "outcome": "ok",
                "started_at": self.fleet.now.timestamp(), "duration_s": 1.0,
                "samples": [{"metric": metric, "unit": unit, "direction": 1, "kind": "rate", "values": [value]}],
                "conditions": {"device": {"power_w": {"median": 600.0, "min": 580.0, "max": 640.0}}},
                "device_uuid": benchmark.devices[0] if len(benchmark.devices) == 1 else None,
                "environment": [f.model_dump() for f in machine.registration().environment],
            }
        )  # fmt: skip

    def through(self, *, upgrade: bool = True, rounds: int = 12, **changes: dict[str, Any]) -> None:
        """Ticks and work until nothing moves. Nodes that are to be changed are, as ``changes`` by name say."""
        for _ in range(rounds):
            moved = self.tick(3) + self.work()
            for name in self.waiting() if upgrade else ():
                if self.machines[name].alive:
                    self.upgrade(name, **changes.get(name, {}))
                    moved += 1
            if not moved:
                return

    def waiting(self) -> list[str]:
        """Nodes that are to be changed just now."""
        return [name for name, state in self.states().items() if state == "upgrading"]

    def states(self, name: str = "driver-580") -> dict[str, str]:
        from groundspeed.service.usecases.campaigns import view

        return {node.name: node.state for node in view.campaign(self.db, name).nodes}


def rack(db: Database, folder: Path, count: int = 12, **changes: Machine) -> Rack:
    """``count`` machines n01 …, some of them other than the rest; all registered."""
    machines = {f"n{i:02}": Machine(f"n{i:02}") for i in range(1, count + 1)} | changes
    made = Rack(fleet(db, folder, 2, CONFIG), machines)
    made.register()
    made.fleet.add()
    return made


def page(one: Rack, name: str = "driver-580") -> CampaignPage:
    return view.campaign(one.db, name)


def said(one: Rack) -> str:
    return "\n".join(page(one).findings)
