"""Benchmarks, their series and the level of each at each commit."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from demo_data.rows import Rows, digest
from demo_data.shape import STEPS, SUITES, Metric, Step, Suite
from groundspeed.service.db import tables as t


class SeriesOfAll(Rows):
    """Every suite on every machine."""

    def _suites(self) -> tuple[Suite, ...]:
        if not self.shape.extra:
            return SUITES
        metric = Metric("time", "s", -1, "time", 0.00031, 0.004)
        sizes = tuple(
            {"m": 64 * (1 + i % 16), "n": 64 * (1 + i // 16), "k": 1024, "dtype": "bfloat16"}
            for i in range(self.shape.extra)
        )
        return (*SUITES, Suite("products", "gemm", sizes, (metric,)))

    def _benchmarks(self) -> None:
        for suite in self._suites():
            bench = self._add(
                t.Benchmark(
                    project_id=self.project, suite=suite.name, plugin=suite.plugin, version="1", target=suite.target
                )
            )
            for m in range(self.shape.machines):
                self._series(suite, bench, m)

    def _series(self, suite: Suite, bench: int, m: int) -> None:
        rows, keys = [], []
        for params in suite.axes:
            for metric in suite.metrics:
                key = f"{suite.name}/{metric.name}/{','.join(f'{k}={v}' for k, v in params.items())}/{m}"
                keys.append((key, metric, params))
                rows.append(
                    {
                        "fingerprint": digest(f"{self.project}/{key}"), "project_id": self.project, "benchmark_id": bench,
                        "hardware_id": self.hardware[m], "metric": metric.name, "unit": metric.unit, "direction": metric.direction,
                        "kind": metric.kind, "gate": metric.gate, "params": params, "series_class": "steady" if metric.noise < 0.03 else "noisy",
                        "noise": {"point": metric.noise, "mde": metric.noise * 2.4}, "detector_version": "1", "last_result_at": self.now - timedelta(hours=1),
                    }
                )  # fmt: skip
        for id_, (key, metric, params) in zip(self._insert(t.Series, rows), keys, strict=True):
            self.series[key] = id_
            self.meta[id_] = (suite, metric, params, m)

    def _levels(self) -> None:
        """Value of each series at each commit, and the steps it has."""
        n = self.shape.commits
        self.levels: dict[int, np.ndarray] = {}
        self.steps: dict[int, list[tuple[int, Step]]] = {}
        for id_, (suite, metric, params, m) in self.meta.items():
            level = np.full(n, metric.base * (1 + 0.35 * m) * float(self.rng.uniform(0.8, 1.3)))
            found = []
            for step in STEPS:
                fits = step.suite == suite.name and step.metric == metric.name and step.params.items() <= params.items()
                at = int(step.at * n)
                if fits and 0 < at < n and step.machine in {None, m}:
                    level[at:] *= step.ratio
                    found.append((at, step))
            noise = 1 + metric.noise * self.rng.standard_normal(n)
            if self.rng.random() < 0.5 and metric.noise > 0.01:
                noise *= 1 + metric.noise * 3 * (self.rng.random(n) < 0.04)
            self.levels[id_] = level * noise
            self.steps[id_] = found
