"""Detection in two processes says what one says, also when the other is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from groundspeed.service.domain.detect import DetectConfig
from groundspeed.service.domain.series import Columns, SeriesData
from groundspeed.service.usecases import detecting


@pytest.mark.long
def test_two_processes_say_what_one_says_also_when_one_is_killed() -> None:
    rng = np.random.default_rng(5)
    data = SeriesData("s", -1, "time", ())
    asked = []
    for i in range(7):
        level = np.where(np.arange(60) >= 30, 1.0 + 0.1 * i, 1.0)
        columns = Columns.of(range(60), (level * np.exp(0.003 * rng.standard_normal(60))).tolist())
        asked.append((data, columns, DetectConfig()))
    alone = detecting.Detector().all(asked)
    assert len(alone) == 7
    assert len(alone[6][0].change_points) == 1
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        both = detecting.Detector(pool)
        other = pool.submit(os.getpid).result()  # it has started
        assert repr(both.all(asked)) == repr(alone)
        os.kill(other, signal.SIGKILL)
        assert repr(both.all(asked)) == repr(alone)
        assert repr(both.all(asked)) == repr(alone)
