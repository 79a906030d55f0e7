"""From rows to the small models that name things, and the lookups that every page begins with."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter
from statistics import median
from typing import Any

from sqlmodel import Session

from groundspeed.service.db import reads, reads_series
from groundspeed.service.errors import NotFound
from groundspeed.service.wire import views as v

_names_of_series = itemgetter(
    *map(
        reads_series.SERIES_COLUMNS.index,
        ("id", "suite", "plugin", "version", "target", "metric", "unit", "direction", "kind", "gate", "params",
         "hardware", "noise"),
    )
)  # fmt: skip
"""Of a row, all at once: pages have thousands of them."""


def finite(value: float | None) -> float | None:
    """None in place of NaN and infinities: JSON has no word for them."""
    return value if value is not None and math.isfinite(value) else None


def middle(values: Sequence[float]) -> float:
    """The median; mostly there is one value."""
    return values[0] if len(values) == 1 else median(values)


def project_row(session: Session, slug: str) -> Any:
    """Raises NotFound when no project has that name."""
    row = reads.project_by_slug(session, slug)
    if row is None:
        raise NotFound(
            f"There is no project {slug!r}.", "The first page and `groundspeed project list` show those there are."
        )
    return row


def project_ref(row: Any) -> v.ProjectRef:
    return v.ProjectRef(slug=row.slug, name=row.name)


def revision_ref(row: Any) -> v.RevisionRef:
    return v.RevisionRef(
        id=row.id, sha=row.sha, position=row.position, title=row.title, author=row.author, at=row.committed_at
    )


def environment_ref(row: Any) -> v.EnvironmentRef:
    return v.EnvironmentRef(id=row.id, label=row.label or row.fingerprint[:12], fingerprint=row.fingerprint)


def series_ref(row: Any) -> v.SeriesRef:
    """From a row of ``reads_series.series_select``."""
    id_, suite, plugin, version, target, metric, unit, direction, kind, gate, params, hardware, noise = (
        _names_of_series(row)
    )
    return v.SeriesRef(
        id=id_,
        suite=suite,
        benchmark=plugin,
        version=version,
        target=target,
        metric=metric,
        unit=unit,
        direction=direction,
        kind=kind,
        gate=gate,
        params=params,
        hardware=hardware,
        noise=finite(noise),
    )


def effect(row: Any) -> v.Effect:
    """From a change point."""
    return v.Effect(
        ratio=finite(row.ratio),
        low=finite(row.ratio_low),
        high=finite(row.ratio_high),
        difference=finite(row.difference),
    )


class Names:
    """Commits and environments by id, read in one go."""

    def __init__(
        self, session: Session, revisions: Iterable[int | None], environments: Iterable[int | None] = ()
    ) -> None:
        wanted = {id_ for id_ in revisions if id_ is not None}
        self._revisions = reads.revisions_by_id(session, wanted) if wanted else {}
        envs = {id_ for id_ in environments if id_ is not None}
        self._environments = reads.environments_by_id(session, envs) if envs else {}

    def revision(self, id_: int | None) -> v.RevisionRef | None:
        row = self._revisions.get(id_) if id_ is not None else None
        return revision_ref(row) if row is not None else None

    def known_revision(self, id_: int) -> v.RevisionRef:
        """For foreign keys, which always point somewhere."""
        return revision_ref(self._revisions[id_])

    def environment(self, id_: int | None) -> v.EnvironmentRef | None:
        row = self._environments.get(id_) if id_ is not None else None
        return environment_ref(row) if row is not None else None


def changes(session: Session, rows: Collection[Any]) -> list[v.Change]:
    """Change points with the names of what they stand between."""
    names = Names(
        session,
        [id_ for row in rows for id_ in (row.before_revision_id, row.after_revision_id)],
        [id_ for row in rows for id_ in (row.environment_from_id, row.environment_to_id)],
    )
    return [
        v.Change(
            id=row.id,
            series=row.series_id,
            state=row.state,
            kind=row.kind,
            cause=row.cause,
            effect=effect(row),
            before=names.known_revision(row.before_revision_id),
            after=names.known_revision(row.after_revision_id),
            environment_from=names.environment(row.environment_from_id),
            environment_to=names.environment(row.environment_to_id),
            regression=row.regression_id,
            at=row.created_at,
        )
        for row in rows
    ]
