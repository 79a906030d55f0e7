"""Raw samples of a series, for the graph that shows them on demand."""

from __future__ import annotations

from groundspeed.service.db import reads, reads_series, samples
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases.views import refs
from groundspeed.service.usecases.views.graph import series_of
from groundspeed.service.wire import views as v

MAX_SAMPLES = 20_000
EACH = 200
"""Of one run, every so-manieth sample is taken so that at most these are sent."""


def cloud(db: Database, slug: str, series_id: int, low: int = 0, high: int | None = None) -> v.SampleCloud:
    """The newest results between two positions, as many as fit. Raises NotFound for a series of another project."""
    with db.read() as session:
        project = refs.project_row(session, slug)
        (series_id,) = reads_series.followed(session, [series_id])
        series = series_of(session, project.id, [series_id])[0]
        top = reads.tip_position(session, project.id) if high is None else high
        shas: list[str] = []
        runs: list[int] = []
        values: list[float | None] = []
        states: list[str] = []
        truncated = False
        for sha, run, blob in reads_series.sample_blobs(session, series_id, low, top, MAX_SAMPLES // 10):
            found, found_states = samples.unpack(blob)
            step = max(1, len(found) // EACH)
            if len(values) + len(found) // step > MAX_SAMPLES:
                truncated = True
                break
            for value, state in zip(found[::step], found_states[::step], strict=True):
                shas.append(sha)
                runs.append(run)
                values.append(refs.finite(value))
                states.append(state)
        return v.SampleCloud(
            series=refs.series_ref(series),
            revision=tuple(shas),
            run=tuple(runs),
            value=tuple(values),
            state=tuple(states),
            truncated=truncated,
        )
