"""Pull requests on the wire: what is shown of them."""

from __future__ import annotations

from datetime import datetime

from groundspeed.service.wire.views.kernels import Kernels
from groundspeed.service.wire.views.parts import ProjectRef, View


class PullRow(View):
    """One pull request in a list. ``number`` is negative for an entry of a merge queue, which has none."""

    number: int
    title: str
    author: str
    state: str
    """open, closed, merged."""
    draft: bool
    from_fork: bool
    head_sha: str
    answer: str
    """What stands of it: waiting, running, done, approval, nothing-to-measure, draft, unlabelled, cancelled, error."""
    headline: str
    conclusion: str
    """How its check ended; empty while it has not."""
    url: str
    """Its page on the forge."""


class PullList(View):
    project: ProjectRef
    repository: str
    """Full name on the forge; empty: the project is not linked."""
    rows: tuple[PullRow, ...]


class PullMetric(View):
    """One metric of one benchmark; ratios are head over base, None where nothing was compared."""

    kind: str
    benchmark: str
    metric: str
    ratio: float | None
    low: float | None
    high: float | None
    mde: float | None
    reason: str
    series: int | None
    repeat: str


class PullPage(View):
    project: ProjectRef
    row: PullRow
    base_sha: str
    base_ref: str
    where: str
    accepted: str
    approved: str
    note: str
    done: int
    total: int
    metrics: tuple[PullMetric, ...]
    kernels: tuple[Kernels, ...]
    """Of benchmarks that changed, where tables of their kernels were kept."""
    request: int | None
    told_at: datetime | None
    """When the forge was last told."""
    trouble: str
    """Why it could not be told, if it could not."""
