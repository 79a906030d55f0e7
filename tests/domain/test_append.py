"""A new point costs the same whatever the length of its series."""

import struct
import time
import zlib

import numpy as np

from domain_series import series, values
from groundspeed.service.domain.detect import DetectorState, detect, detect_columns
from groundspeed.service.domain.series import Columns, SeriesData

LONG = 100_000


def columns_of(y: np.ndarray) -> Columns:
    n = y.size
    return Columns(np.arange(n), y, np.ones(n, np.int64), np.full(n, -1, np.int64))


def test_appending_to_a_hundred_thousand_points_takes_under_a_millisecond_and_changes_nothing():
    """Best of ten rounds of 20 appends: under 1 ms of processor each; the findings are those from scratch."""
    r = np.random.default_rng(1)
    steps = [(int(p), float(q)) for p, q in zip(r.integers(0, LONG, 100), r.uniform(0.8, 1.25, 100), strict=True)]
    y = values(LONG + 200, steps, 0.01, 2)
    none = SeriesData("s", -1, "time", ())
    state = detect_columns(none, columns_of(y[:LONG])).state
    rounds = []
    for k in range(10):
        new = [series([y[i]], start=i) for i in range(LONG + 20 * k, LONG + 20 * (k + 1))]
        began = time.process_time()
        for one in new:
            found = detect(one, state=state)
            state = found.state
        rounds.append((time.process_time() - began) / 20)
    assert min(rounds) < 0.001
    whole = detect_columns(none, columns_of(y))
    assert whole.change_points == found.change_points
    assert len(whole.change_points) > 50


def test_the_state_stays_small():
    """The state of 100,000 points without change points is under 32 kB, and reads back as it was."""
    found = detect_columns(SeriesData("s", -1, "time", ()), columns_of(values(LONG, (), 0.01, 3)))
    data = found.state.to_bytes()
    assert len(data) < 32_000
    again = DetectorState.from_bytes(data)
    assert again is not None
    assert np.array_equal(again.stretch.y, found.state.stretch.y)
    assert (again.settled, again.noise, again.stretch.sealed) == (
        found.state.settled,
        found.state.noise,
        found.state.stretch.sealed,
    )
    assert DetectorState.from_bytes(b"something else") is None


def test_a_state_that_was_cut_off_or_overwritten_is_none():
    """So that the series is looked at from all points again, and no analysis fails for ever."""
    data = detect(series(values(60, ((30, 1.2),), 0.01, 3))).state.to_bytes()
    assert DetectorState.from_bytes(data) is not None
    assert [k for k in range(len(data)) if DetectorState.from_bytes(data[:k]) is not None] == []
    assert DetectorState.from_bytes(data + b"\0" * 8) is None
    assert DetectorState.from_bytes(b"GSD1" + data[4:]) is None
    assert DetectorState.from_bytes(data[:8] + zlib.compress(b'{"version": "2"}') + data[40:]) is None


def test_a_state_of_the_older_form_is_read():
    """Which had x itself and the values among what is compressed, at whatever level."""
    steps = detect_columns(SeriesData("s", -1, "time", ()), columns_of(values(300, ((150, 1.2),), 0.01, 3)))
    data, kept = steps.state.to_bytes(), steps.state.stretch
    _, length = struct.unpack_from("<4sI", data)
    text = zlib.decompressobj().decompress(data[8:])
    arrays = b"".join(a.tobytes() for a in (kept.x, kept.y, kept.count, kept.environment))
    again = DetectorState.from_bytes(struct.pack("<4sI", b"GSD1", length) + zlib.compress(text + arrays, 6))
    assert again is not None
    assert again.to_bytes() == data
    assert again.settled == steps.state.settled
    assert np.array_equal(again.stretch.x, kept.x)
    assert np.array_equal(again.stretch.y, kept.y)
