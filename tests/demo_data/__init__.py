"""Fills a database with a believable history: commits, series with steps, failures, an upgraded driver, running jobs.

For tests, screenshots and benchmarks of the pages. Everything follows from the seed; nothing here is measured.
"""

from __future__ import annotations

from datetime import datetime

from sqlmodel import SQLModel

from demo_data.findings import Findings
from demo_data.history import History
from demo_data.live import Live
from demo_data.rows import pack
from demo_data.series import SeriesOfAll
from demo_data.shape import NOW, Filled, Shape
from groundspeed.service.db.engine import Database

__all__ = ["NOW", "Filled", "Shape", "create_tables", "fill", "pack"]


def create_tables(db: Database) -> None:
    SQLModel.metadata.create_all(db.engine)


def fill(db: Database, shape: Shape | None = None, now: datetime = NOW) -> Filled:
    """Put one project in. The same shape gives the same data."""
    shape = shape or Shape()
    with db.transaction() as session:
        return _Maker(session, shape, now).make()


class _Maker(SeriesOfAll, History, Findings, Live):
    """All of it, in the order in which each part needs those before."""

    def make(self) -> Filled:
        self._project()
        self._machines()
        self._benchmarks()
        self._levels()
        if self.shape.commits:
            self._history()
        regressions = self._findings()
        self._events()
        if self.shape.live:
            self._live()
        self.s.flush()
        return Filled(
            self.project, self.shape.slug, self.rev_ids, self.shas, self.series, regressions,
            self.requests, self.jobs, self.running_attempt, self.node_names,
        )  # fmt: skip
