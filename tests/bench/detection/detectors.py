"""One detector over series from standard input: run by the Python of the environment that has it.

Reads {"id", "x", "y"} lines, writes {"id", "points": [[x, ratio, provisional], …], "seconds"} lines; seconds are of
the processor, for the call alone. Standard library only, but for the detector itself.
"""

import json
import logging
import sys
import time
import warnings
from itertools import pairwise


def asv():
    """asv's own regression search, with its defaults."""
    from asv.step_detect import detect_steps

    def run(_, y):
        steps = detect_steps(y)
        return [(b[0], b[2] / a[2] if a[2] else float("nan")) for a, b in pairwise(steps)]

    return run


def otava():
    """Apache Otava's window-based e-divisive, with its defaults."""
    from otava.analysis import compute_change_points

    return lambda _, y: _ratios(y, [int(c.index) for c in compute_change_points(y)[0]])


def ruptures():
    """PELT with the rbf kernel and penalty 10, the call of its documentation, on standardised values."""
    import numpy as np
    import ruptures

    def run(_, y):
        z = np.array(y)
        if z.size < 4 or not z.std() > 0:
            return []
        z = (z - z.mean()) / z.std()
        return _ratios(y, [c for c in ruptures.Pelt(model="rbf").fit(z.reshape(-1, 1)).predict(pen=10) if c < z.size])

    return run


def mongodb():
    """MongoDB's e-divisive with 100 permutations at p = 0.01, its defaults."""
    import numpy as np
    from signal_processing_algorithms.energy_statistics.energy_statistics import e_divisive

    logging.disable(logging.CRITICAL)
    return lambda _, y: _ratios(y, sorted(int(c) for c in e_divisive(np.array(y), pvalue=0.01, permutations=100)))


def zero():
    """Find nothing."""
    return lambda _, y: []


def ours():
    """Groundspeed, from two lists to findings."""
    from groundspeed.service.domain.detect import detect_columns
    from groundspeed.service.domain.series import Columns, SeriesData

    plain = SeriesData("", -1, "time", ())

    def run(x, y):
        found = detect_columns(plain, Columns.of(x, y))
        place = {at: k for k, at in enumerate(x)}
        return [
            (place[c.x_after], c.ratio if c.ratio == c.ratio else 1.0 + c.difference, c.provisional)
            for c in found.change_points
        ]

    return run


def _ratios(y, cuts):
    marks = [0, *cuts, len(y)]
    means = [sum(y[a:b]) / (b - a) for a, b in pairwise(marks)]
    return [(p, means[i + 1] / means[i] if means[i] else float("nan")) for i, p in enumerate(cuts)]


def main():
    warnings.filterwarnings("ignore")
    detect = {f.__name__: f for f in (asv, otava, ruptures, mongodb, zero, ours)}[sys.argv[1]]()
    for count, line in enumerate(sys.stdin):
        row = json.loads(line)
        x, y = row["x"], [float(v) for v in row["y"]]
        if not count:
            detect(x[:50], y[:50])
        began = time.process_time()
        found = detect(x, y)
        took = time.process_time() - began
        points = [[int(x[p[0]]), float(p[1]), bool(p[2]) if len(p) > 2 else False] for p in found]
        sys.stdout.write(json.dumps({"id": row["id"], "points": points, "seconds": took}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
