"""What was found in it, and what happened meanwhile."""

from __future__ import annotations

from datetime import timedelta

from demo_data.rows import Rows
from demo_data.shape import Step
from groundspeed.service.db import tables as t


class Findings(Rows):
    """Regressions, change points, notes."""

    def _findings(self) -> list[int]:
        """One regression a step of the plan, with the change points of its series."""
        groups: dict[tuple[int, str, str], list[tuple[int, Step]]] = {}
        for id_, found in self.steps.items():
            for at, step in found:
                worse = (step.ratio > 1) == (self.meta[id_][1].direction < 0)
                groups.setdefault((at, "regression" if worse else "improvement", step.cause), []).append((id_, step))
        out = []
        for i, ((at, kind, cause), members) in enumerate(sorted(groups.items())):
            first = min(5, max(0, at - 1))
            before = at - 1 if i % 2 == 0 else max(0, at - 1 - first // 4)
            suite = self.meta[members[0][0]][0]
            regression = self._add(
                t.Regression(
                    project_id=self.project, kind=kind, state=("new", "new", "acknowledged", "new", "in-progress")[i % 5],
                    title=f"{suite.name}: {members[0][1].metric}", before_revision_id=self.rev_ids[before], after_revision_id=self.rev_ids[at],
                    cause=cause, assignee="ada" if i % 5 == 2 else "", created_at=self.times[at] + timedelta(hours=1), updated_at=self.times[at] + timedelta(hours=1),
                )
            )  # fmt: skip
            out.append(regression)
            self.s.add(
                t.AuditEntry(
                    actor="groundspeed",
                    action="found",
                    subject_type="regression",
                    subject_id=str(regression),
                    at=self.times[at],
                )
            )
            for id_, step in members:
                self._change(id_, step, regression, (before, at, kind))
        return out

    def _change(self, id_: int, step: Step, regression: int, where: tuple[int, int, str]) -> None:
        before, at, kind = where
        m = self.meta[id_][3]
        half = 1 + 2.5 * self.meta[id_][1].noise
        environment = step.cause == "environment"
        self.s.add(
            t.ChangePoint(
                series_id=id_, regression_id=regression, before_revision_id=self.rev_ids[before], after_revision_id=self.rev_ids[at],
                environment_from_id=self.envs[m][0] if environment else None, environment_to_id=self.envs[m][1] if environment else None,
                state="provisional" if step.suite == "generate" else "confirmed", kind=kind, cause=step.cause, ratio=step.ratio,
                ratio_low=step.ratio / half, ratio_high=step.ratio * half, difference=(step.ratio - 1) * float(self.levels[id_][at]) / step.ratio,
                strength=14.0, p_value=1e-6, detector_version="1", created_at=self.times[at] + timedelta(hours=1), updated_at=self.times[at] + timedelta(hours=1),
            )
        )  # fmt: skip

    def _events(self) -> None:
        n = self.shape.commits
        if n < 8:
            return
        self.s.add(
            t.Event(
                kind="annotation",
                project_id=self.project,
                revision_id=self.rev_ids[n // 3],
                title="Release 1.0",
                body="Branch cut.",
                at=self.times[n // 3],
            )
        )
        if self.shape.machines > 1:
            self.s.add(
                t.Event(kind="environment", node_id=self.node_ids[1], environment_from_id=self.envs[1][0], environment_to_id=self.envs[1][1],
                        title="driver 570.86.15 → 575.57.08", at=self.times[n // 2])
            )  # fmt: skip
