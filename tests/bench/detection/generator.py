"""Histories of benchmarks with known steps, in the noise shapes that real series have; everything follows from a seed.

Steps lie at least EDGE points from the ends and SPACING apart, are 3.5 to 60 % (a tenth of them 1 to 2.5 %, which no
score counts), and one slowdown in four is fixed again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

SHAPES = ("clean", "noisy", "outliers", "bimodal", "drift", "sparse", "growing", "quantised", "heavy")
EDGE, SPACING = 10, 15


@dataclass(frozen=True, slots=True)
class History:
    """One series: measured positions ``x`` with values ``y``, and ``steps`` as (position, ratio)."""

    name: str
    shape: str
    x: list[int]
    y: list[float]
    steps: list[tuple[int, float]]


def histories(n: int, each: int, seed: int, *, stepped: bool = True) -> list[History]:
    """``each`` histories of n commits of every shape."""
    return [_history(shape, k, n, seed, stepped) for shape in SHAPES for k in range(each)]


def _history(shape: str, k: int, n: int, seed: int, stepped: bool) -> History:
    r = np.random.default_rng([seed, SHAPES.index(shape), k, n, int(stepped)])
    steps = _steps(r, n) if stepped else []
    log = np.full(n, math.log(10.0 ** r.uniform(-6, 1)))
    for at, ratio in steps:
        log[at:] += math.log(ratio)
    log += _noise(shape, r, n)
    y = np.exp(log)
    if shape == "quantised":
        quantum = y[0] * r.uniform(0.005, 0.02)
        y = np.maximum(np.round(y / quantum), 1) * quantum
    there = r.random(n) >= (0.3 if shape == "sparse" else 0.012)
    x = np.nonzero(there)[0]
    return History(f"{shape}-{n}-{k}", shape, x.tolist(), y[there].tolist(), steps)


def _steps(r: np.random.Generator, n: int) -> list[tuple[int, float]]:
    out: list[tuple[int, float]] = []

    def add(at: int, ratio: float) -> bool:
        free = EDGE <= at < n - EDGE and all(abs(at - a) >= SPACING for a, _ in out)
        if free:
            out.append((at, ratio))
        return free

    for _ in range(r.poisson(0.8 + n / 1500)):
        small = r.random() < 0.1
        size = r.uniform(0.01, 0.025) if small else math.exp(r.uniform(math.log(0.035), math.log(0.6)))
        at = int(r.integers(n))
        if r.random() < 0.4:
            add(at, 1 / (1 + size))
        elif add(at, 1 + size) and r.random() < 0.25:
            add(at + int(r.integers(SPACING, 150)), 1 / (1 + size))
    return sorted(out)


def _noise(shape: str, r: np.random.Generator, n: int) -> np.ndarray:
    cv = r.uniform(0.01, 0.03) if shape == "noisy" else r.uniform(0.003, 0.01)
    e = cv * r.normal(size=n)
    if shape == "outliers":
        e += np.where(r.random(n) < 0.02, 0.05 + np.abs(r.normal(size=n)) * 0.3, 0.0)
    elif shape == "bimodal":
        e += np.where(r.random(n) < r.uniform(0.15, 0.5), r.uniform(0.04, 0.15), 0.0)
    elif shape == "drift":
        e += np.linspace(0.0, r.choice([-1, 1]) * math.log1p(r.uniform(0.05, 0.2)), n)
    elif shape == "growing":
        e *= np.linspace(0.5, 3.0, n)
    elif shape == "heavy":
        e = cv * r.standard_t(3, n) / 1.3
    return e
