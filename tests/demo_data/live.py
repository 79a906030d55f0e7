"""Work that is under way."""

from __future__ import annotations

import uuid
from datetime import timedelta

from demo_data.rows import Rows
from groundspeed.service.db import tables as t


class Live(Rows):
    """A request of which one job runs, one has failed and others wait."""

    def _live(self) -> None:
        """A request under way: one job runs and logs, one has failed for good, others wait."""
        n = self.shape.commits
        req = self._add(
            t.Request(project_id=self.project, kind="push", idempotency_key="live", state="running", tip_sha=self.shas[-1],
                      payload={"before": self.shas[-3], "after": self.shas[-1]}, budget_s=3600, created_at=self.now - timedelta(minutes=6))
        )  # fmt: skip
        self.requests.append(req)
        spec = {
            "suite": "train",
            "benchmarks": [
                {
                    "key": "batch_size=8,precision=fp32",
                    "plugin": "training",
                    "target": "benchmarks.train:make",
                    "params": {"batch_size": 8},
                }
            ],
        }
        states = (
            ("running", "train", "measure"),
            ("queued", "generate", "measure"),
            ("queued", "links", "replicate"),
            ("failed", "footprint", "measure"),
        )
        for i, (state, suite, reason) in enumerate(states):
            job = self._add(
                t.Job(request_id=req, project_id=self.project, key=f"live-{suite}", suite=suite, reason=reason, state=state, priority=30, spec=spec,
                      attempts=1 if state != "queued" else 0, error="The build failed: pip could not find a version of flash-attn for this Python." if state == "failed" else "",
                      created_at=self.now - timedelta(minutes=6))
            )  # fmt: skip
            self.jobs.append(job)
            self.s.add(t.JobSide(job_id=job, index=0, role="point", revision_id=self.rev_ids[n - 1 - i % 2]))
            if state in {"running", "failed"}:
                self._attempt(job, state)

    def _attempt(self, job: int, state: str) -> None:
        id_ = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.shape.slug}-live-{job}"))
        running = state == "running"
        self.s.add(
            t.Attempt(id=id_, job_id=job, node_id=self.node_ids[0], number=1, state="running" if running else "failed", phase="run" if running else "build",
                      message="training: batch_size=8, process 2 of 3" if running else "", done=3, total=8, error_kind="" if running else "permanent",
                      error="" if running else "ERROR: No matching distribution found for flash-attn==9.9", claimed_at=self.now - timedelta(minutes=3),
                      heartbeat_at=self.now, expires_at=self.now + timedelta(seconds=60), finished_at=None if running else self.now - timedelta(minutes=2))
        )  # fmt: skip
        self.s.flush()
        lines = [
            ("worker", "checkout 0.4 s"),
            ("worker", "environment reused"),
            ("stdout", "step 20: loss 4.118"),
            ("progress", "warm-up done after 6 steps"),
            ("stderr", "UserWarning: <b>fused</b> kernel not available"),
            ("stdout", "step 40: loss 3.902"),
        ]
        for seq, (stream, text) in enumerate(lines):
            self.s.add(
                t.LogEntry(attempt_id=id_, seq=seq, at=self.now - timedelta(seconds=60 - seq), stream=stream, text=text)
            )
        if running:
            self.running_attempt = id_
