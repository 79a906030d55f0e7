"""Detection in many series at once, half of it in another process where there is a core for one.

Only numbers travel: the store is read and written by the process that holds the transaction.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace

from groundspeed.service.domain.detect import DetectConfig, Detection, DetectorState, detect_columns
from groundspeed.service.domain.series import Columns, SeriesData

FOR_TWO = 1500
"""Starting a process takes as long as looking at some hundreds of series; a service's own rounds stay below it."""

_NO_STATE = DetectorState()
Asked = tuple[SeriesData, Columns, DetectConfig]
Answer = tuple[Detection, bytes]
"""What was found, without its state, and the state's bytes."""


class Detector:
    """Answers in the order of the questions. Without a pool, and until its process has started, all is done here."""

    def __init__(self, pool: ProcessPoolExecutor | None = None) -> None:
        self._pool = pool
        self._started = pool.submit(detections, ()) if pool is not None else None

    def all(self, asked: Sequence[Asked]) -> list[Answer]:
        """One answer for each, the same whoever gives it."""
        started = self._started is not None and self._started.done()
        if self._pool is None or not started or len(asked) < 2:
            return detections(asked)
        half = len(asked) // 2
        try:
            theirs = self._pool.submit(detections, asked[half:])
            mine = detections(asked[:half])
            return mine + theirs.result()
        except BrokenProcessPool:  # the other process was killed: what it had is done here, as is the rest
            self._pool = None
            return detections(asked)


def detections(asked: Sequence[Asked]) -> list[Answer]:
    """Detect in one after the other."""
    found = (detect_columns(data, columns, config) for data, columns, config in asked)
    return [(replace(one, state=_NO_STATE), one.state.to_bytes()) for one in found]


@contextmanager
def detector(series: int) -> Iterator[Detector]:
    """For so many series; with a second process when they are enough and this one may start others."""
    cores = len(os.sched_getaffinity(0))
    if series < FOR_TWO or cores < 2 or multiprocessing.current_process().daemon:
        yield Detector()
        return
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield Detector(pool)
