"""Many series at once: which findings stand when the share of false ones is held down, and how many to expect."""

from collections.abc import Sequence

import numpy as np

from groundspeed.service.domain.series import Floats


def adjusted(p_values: Sequence[float]) -> Floats:
    """Benjamini & Hochberg (1995) adjusted p-values: reject those ≤ q to hold the false-discovery rate at q.

    Holds for independent tests and for positively dependent ones, as benchmarks of one suite are (Benjamini &
    Yekutieli 2001). NaN stays NaN and does not count as a test.
    """
    p = np.asarray(p_values, dtype=float)
    out = np.full(p.size, np.nan)
    known = np.nonzero(np.isfinite(p))[0]
    if known.size == 0:
        return out
    order = known[np.argsort(p[known], kind="stable")]
    raw = p[order] * known.size / np.arange(1, known.size + 1)
    out[order] = np.minimum(np.minimum.accumulate(raw[::-1])[::-1], 1.0)
    return out


def expected_false_alarms(gated: int, alpha: float) -> float:
    """False *regressed* to expect in a run of ``gated`` comparisons in which nothing changed: one side of alpha."""
    return gated * alpha / 2.0
