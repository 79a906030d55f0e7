"""Machines and their environments."""

from __future__ import annotations

from datetime import timedelta

from demo_data.rows import Rows, digest, hash_of
from demo_data.shape import GPU
from groundspeed.service.db import tables as t


class Machines(Rows):
    """Nodes, devices, hardware and two drivers of each."""

    def _machines(self) -> None:
        self.node_ids, self.node_names, self.hardware, self.envs = [], [], [], []
        self.twins: dict[int, int] = {}
        for m in range(self.shape.machines):
            label = f"{4 if m % 2 else 8}x {GPU[m % len(GPU)]}"
            existing = self.s.query(t.Hardware).filter_by(fingerprint=digest(label)).first()
            hw = (
                existing.id
                if existing
                else self._add(
                    t.Hardware(fingerprint=digest(label), label=label, facts={"gpu_model": GPU[m % len(GPU)]})
                )
            )
            envs = [self._environment(m, driver) for driver in ("570.86.15", "575.57.08")]
            name = f"gpu-{m + 1:02d}" if self.shape.slug == "tinygpt" else f"{self.shape.slug}-{m + 1}"
            node = self._add(
                t.Node(
                    name=name, state="active" if m != 2 else "quarantined", state_reason="" if m != 2 else "GPU 3 reports remapped rows",
                    labels={"site": "north"}, protocol=1, worker_version="0.1.0", hardware_id=hw, environment_id=envs[1],
                    info=[{"layer": "node", "name": "hostname", "value": name, "reason": "", "tracked": False}],
                    registered_at=self.now - timedelta(days=90),
                    seen_at=self.now - timedelta(seconds=4 if m != 1 else 4000),
                )
            )  # fmt: skip
            self._devices(node, name, m)
            if m == 0 and self.shape.machines > 1:
                self.twins[m] = self._twin(hw, envs[0], name, m)
            self.node_ids.append(node)
            self.node_names.append(name)
            self.hardware.append(hw)
            self.envs.append(envs)

    def _devices(self, node: int, name: str, m: int) -> None:
        for i in range(4 if m % 2 else 8):
            self.s.add(
                t.Device(
                    node_id=node, index=i, uuid=f"GPU-{hash_of(name + str(i))[:12]}", model=GPU[m % len(GPU)],
                    memory_bytes=141 << 30,
                )
            )  # fmt: skip

    def _twin(self, hardware: int, environment: int, name: str, m: int) -> int:
        """A second node of the same hardware, which takes every other commit."""
        row = t.Node(
            name=f"{name}b", protocol=1, worker_version="0.1.0", hardware_id=hardware, environment_id=environment,
            registered_at=self.now - timedelta(days=60), seen_at=self.now - timedelta(seconds=9),
        )  # fmt: skip
        node = int(self._add(row))
        self._devices(node, str(row.name), m)
        return node

    def _node(self, m: int, c: int) -> int:
        return self.twins.get(m, self.node_ids[m]) if c % 2 else self.node_ids[m]

    def _environment(self, machine: int, driver: str) -> int:
        label = f"driver {driver}, CUDA 12.8, torch 2.13"
        fingerprint = digest(f"{label}-{machine}")
        found = self.s.query(t.Environment).filter_by(fingerprint=fingerprint).first()
        if found:
            return int(found.id or 0)
        names = {
            "driver": driver,
            "kernel": "6.1.0-28-amd64",
            "cuda": "12.8",
            "torch": "2.13.0",
            "nccl": "2.27.3",
            "power_limit_w": "700",
        }
        facets = [
            {
                "layer": "node" if k in {"driver", "kernel"} else "stack",
                "name": k,
                "value": v,
                "reason": "",
                "tracked": True,
            }
            for k, v in names.items()
        ]
        return int(
            self._add(
                t.Environment(
                    fingerprint=fingerprint, label=label, facets=facets, created_at=self.now - timedelta(days=90)
                )
            )
        )
