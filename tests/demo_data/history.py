"""What was measured: jobs, attempts, runs and results of every commit."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import numpy as np
from sqlmodel import col, select

from demo_data.machines import Machines
from demo_data.rows import conditions, hash_of, pack, trace
from demo_data.shape import AUTHORS, TITLES, Suite
from groundspeed.service.db import tables as t


class History(Machines):
    """The past."""

    def _project(self) -> None:
        n, slug = self.shape.commits, self.shape.slug
        self.shas = [hash_of(f"{slug}-{self.shape.seed}-{i}") for i in range(n)]
        self.project = self._add(
            t.Project(
                slug=slug, name=self.shape.name, repo_url=f"https://git.example.org/{slug}.git",
                tip_sha=self.shas[-1] if n else None, polled_at=self.now, created_at=self.now - timedelta(days=200),
            )
        )  # fmt: skip
        hours = np.cumsum(self.rng.exponential(9.0, n)) if n else np.zeros(0)
        self.times = [self.now - timedelta(hours=float(hours[-1] - h) + 1.5) for h in hours]
        rows = [
            {
                "project_id": self.project, "sha": sha, "parents": [self.shas[i - 1]] if i else [], "position": i,
                "author": AUTHORS[int(self.rng.integers(len(AUTHORS)))], "authored_at": self.times[i],
                "committed_at": self.times[i], "title": TITLES[(i * 7) % len(TITLES)],
                "tags": ["v1.0"] if i == n // 3 else [],
            }
            for i, sha in enumerate(self.shas)
        ]  # fmt: skip
        self.rev_ids = self._insert(t.Revision, rows)

    def _history(self) -> None:
        n = self.shape.commits
        req = self._add(
            t.Request(project_id=self.project, kind="push", idempotency_key="history", state="done", tip_sha=self.shas[-1] if n else "",
                      payload={"range": "the last commits"}, created_at=self.now - timedelta(days=2), finished_at=self.now - timedelta(days=1))
        )  # fmt: skip
        self.requests.append(req)
        by_place: dict[tuple[str, int], list[int]] = {}
        for id_, (suite, _metric, _params, m) in self.meta.items():
            by_place.setdefault((suite.name if self.shape.keep_runs else "all", m), []).append(id_)
        named = select(t.Benchmark.suite, col(t.Benchmark.id)).where(col(t.Benchmark.project_id) == self.project)
        self.bench_ids = {suite: id_ or 0 for suite, id_ in self.s.exec(named)}
        chunk = max(1, 40_000 // max(1, len(self.meta))) if not self.shape.keep_runs else 10
        for start in range(0, n, chunk):
            for (suite_name, m), ids in by_place.items():
                self._place(req, suite_name, m, ids, range(start, min(n, start + chunk)))

    def _place(self, req: int, suite_name: str, m: int, ids: list[int], commits: range) -> None:
        """Jobs, attempts, runs and results of one suite on one machine; every seventh commit is not measured."""
        commits_ = [c for c in commits if not (suite_name != "train" and self.shape.keep_runs and c % 7 == 3)]
        job_rows = [
            {"request_id": req, "project_id": self.project, "key": f"{suite_name}-{m}-{c}", "suite": suite_name, "state": "done",
             "attempts": 1, "spec": {"benchmarks": []}, "created_at": self.times[c], "finished_at": self.times[c] + timedelta(minutes=4)}
            for c in commits_
        ]  # fmt: skip
        jobs = self._insert(t.Job, job_rows)
        self.jobs += jobs[:20]
        self._bulk(
            t.JobSide,
            [
                {"job_id": j, "index": 0, "role": "point", "revision_id": self.rev_ids[c]}
                for j, c in zip(jobs, commits_, strict=True)
            ],
        )
        attempts = [str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.shape.slug}-{j}")) for j in jobs]
        self._bulk(
            t.Attempt,
            [
                {"id": a, "job_id": j, "node_id": self._node(m, c), "number": 1, "state": "succeeded", "done": 1, "total": 1,
                 "claimed_at": self.times[c], "heartbeat_at": self.times[c], "expires_at": self.times[c], "finished_at": self.times[c] + timedelta(minutes=4)}
                for a, j, c in zip(attempts, jobs, commits_, strict=True)
            ],
        )  # fmt: skip
        self._runs(m, ids, [(c, j, a) for c, j, a in zip(commits_, jobs, attempts, strict=True)])

    def _groups(self, ids: list[int]) -> dict[str, list[int]]:
        groups: dict[str, list[int]] = {}
        for id_ in ids:
            params = self.meta[id_][2]
            key = ",".join(f"{k}={v}" for k, v in params.items()) if self.shape.keep_runs else "all"
            groups.setdefault(key, []).append(id_)
        return groups

    def _runs(self, m: int, ids: list[int], places: list[tuple[int, int, str]]) -> None:
        n, runs, members = self.shape.commits, [], []
        for key, group in self._groups(ids).items():
            suite, _metric, params, _ = self.meta[group[0]]
            for c, job, attempt in places:
                suspected = any(abs(c - at) <= 1 for at, _ in self.steps[group[0]])
                for replicate in range(4 if suspected and self.shape.keep_runs else self.shape.replicates):
                    failed = suite.name == "generate" and c in {n // 4, n // 4 + 1}
                    runs.append(self._run_row(suite, params, m, (c, job, attempt, key, replicate), failed=failed))
                    members.append((c, [] if failed else group))
        run_ids = self._insert(t.Run, runs)
        results = [
            self._result_row(id_, c, run, m) for run, (c, group) in zip(run_ids, members, strict=True) for id_ in group
        ]
        self._bulk(t.Result, results)

    def _run_row(
        self, suite: Suite, params: dict[str, Any], m: int, where: tuple[int, int, str, str, int], *, failed: bool
    ) -> dict[str, Any]:
        c, job, attempt, key, replicate = where
        evidence = {
            "error": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            "traceback": 'Traceback (most recent call last):\n  File "benchmarks/generate.py", line 41, in step\n    out = model(tokens)\ntorch.OutOfMemoryError: CUDA out of memory.',
        }
        return {
            "job_id": job, "attempt_id": attempt, "side": 0, "benchmark_key": key, "replicate": replicate,
            "benchmark_id": self.bench_ids[suite.name], "revision_id": self.rev_ids[c], "hardware_id": self.hardware[m],
            "environment_id": self._env_at(m, c), "node_id": self._node(m, c), "device_uuid": f"GPU-{hash_of(self.node_names[m] + '0')[:12]}",
            "params": params, "outcome": "oom" if failed else "ok", "evidence": evidence if failed else {},
            "conditions": conditions(c), "trace": trace(c) if self.shape.keep_runs and (c % 10 == 0 or c >= self.shape.commits - 3) else None,
            "facts": {"torch": "2.13.0", "cold_cache": replicate == 0}, "phases_s": {"import": 2.1, "setup": 0.8, "warmup": 1.1, "measure": 2.4},
            "started_at": self.times[c], "duration_s": 6.4, "created_at": self.times[c],
        }  # fmt: skip

    def _env_at(self, m: int, c: int) -> int:
        return int(self.envs[m][1 if m == 1 and c >= self.shape.commits // 2 else 0])

    def _result_row(self, id_: int, c: int, run: int, m: int) -> dict[str, Any]:
        metric = self.meta[id_][1]
        value = float(self.levels[id_][c] * (1 + metric.noise * 0.3 * self.rng.standard_normal()))
        if m in self.twins and c % 2 and metric.name == "bus_bandwidth":
            value *= 0.975  # one node of the fleet is a little behind its peer
        samples = None
        if self.shape.keep_samples:
            draws = value * (1 + metric.noise * self.rng.standard_normal(self.shape.samples))
            samples = pack(draws, bytes([1 if i == 0 else 0 for i in range(self.shape.samples)]))
        return {
            "run_id": run, "series_id": id_, "revision_id": self.rev_ids[c], "environment_id": self._env_at(m, c), "value": value,
            "spread": value * metric.noise * 0.67, "count": self.shape.samples, "state": "degraded" if c % 31 == 17 else "valid",
            "samples": samples,
        }  # fmt: skip
