"""A device's measured roofline: the rates of a copy and of a matrix product on it, and a plot of points under them."""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from groundspeed.plugins.gemm import make_product
from groundspeed.plugins.timing.clocks import clock_for

PASSES, SAMPLES, SAMPLE_S = 5, 7, 0.01
"""At most so many products to a sample, and no more than fill SAMPLE_S: one in fp32 takes twice that on an H200."""
LINE_HEIGHT = 15.0


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Bytes and FLOP a second, both measured in this process."""

    bandwidth: float
    flops: float
    precision: str

    def at(self, intensity: float) -> float:
        """Highest FLOP/s for so many FLOP a byte; for 0 FLOP a byte use ``bandwidth`` itself."""
        return min(self.flops, intensity * self.bandwidth)


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel: FLOP a byte, and FLOP a second reached."""

    name: str
    intensity: float
    flops: float


def measure(device: str, precision: str) -> Ceilings:
    """Takes about half a second on a GPU. ``precision`` as gemm's."""
    import torch

    clock = clock_for(device)
    small = device == "cpu"
    count = (4 << 20) if small else (256 << 20)
    source = torch.rand(count, device=device)
    out = torch.empty_like(source)
    copy = clock.chunk(lambda: out.copy_(source), SAMPLES, PASSES).wall_s
    size = 256 if small else 8192
    product, _ = make_product(precision, size, device)
    once = min(clock.chunk(product, 3, 1).wall_s)
    times = clock.chunk(product, SAMPLES, max(1, min(PASSES, round(SAMPLE_S / once)))).wall_s
    return Ceilings(2.0 * 4 * count / statistics.median(copy), 2.0 * size**3 / statistics.median(times), precision)


def plot(ceilings: Ceilings, points: Sequence[Point]) -> str:
    """The roofline and points as SVG, both axes logarithmic."""
    ridge = ceilings.flops / ceilings.bandwidth
    xs = [ridge, *(point.intensity for point in points)]
    low, high = math.floor(math.log10(min(xs))), math.ceil(math.log10(max(xs)))
    ys = [ceilings.flops, ceilings.at(10**low), *(point.flops for point in points)]
    bottom, top = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
    width, height, left, under = 640, 400, 70, 50

    def x(value: float) -> float:
        return left + (math.log10(value) - low) / (high - low) * (width - left - 20)

    def y(value: float) -> float:
        return height - under - (math.log10(value) - bottom) / (top - bottom) * (height - under - 20)

    roof = [(10.0**low, ceilings.at(10.0**low)), (ridge, ceilings.flops), (10.0**high, ceilings.flops)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
    parts = [head + 'font-size="12"><rect width="100%" height="100%" fill="#fff"/>']
    for power in range(low, high + 1):
        at = x(10.0**power)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="20" y2="{height - under}" stroke="#ddd"/>')
        parts.append(f'<text x="{at:.1f}" y="{height - under + 16}" text-anchor="middle">1e{power}</text>')
    for power in range(bottom, top + 1):
        at = y(10.0**power)
        parts.append(f'<line x1="{left}" x2="{width - 20}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">1e{power}</text>')
    line = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in roof)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#333" stroke-width="2"/>')
    labels = apart([y(point.flops) for point in points], LINE_HEIGHT)
    for point, label_y in zip(points, labels, strict=True):
        at_x, at_y = x(point.intensity), y(point.flops)
        end = at_x + 34
        parts.append(f'<path d="M{at_x:.1f},{at_y:.1f}L{end:.1f},{label_y:.1f}" stroke="#c33" stroke-width="0.7"/>')
        parts.append(f'<circle cx="{at_x:.1f}" cy="{at_y:.1f}" r="4" fill="#c33"/>')
        parts.append(f'<text x="{end + 4:.1f}" y="{label_y + 4:.1f}">{html.escape(point.name)}</text>')
    parts.append(f'<text x="{width / 2}" y="{height - 12}" text-anchor="middle">FLOP a byte</text>')
    parts.append(
        f'<text x="{left}" y="14">FLOP/s; measured copy {ceilings.bandwidth / 1e9:.4g} GB/s, '
        f"{html.escape(ceilings.precision)} product {ceilings.flops / 1e12:.4g} TFLOP/s</text></svg>"
    )
    return "".join(parts)


def apart(wanted: Sequence[float], distance: float) -> list[float]:
    """The heights moved as little as needed so that no two are nearer than ``distance``, their order kept."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    groups: list[list[int]] = []
    centres: list[float] = []
    for index in order:
        groups.append([index])
        centres.append(wanted[index])
        while len(groups) > 1:
            room = distance * (len(groups[-2]) + len(groups[-1])) / 2
            if centres[-1] - centres[-2] >= room:
                break
            last, _ = groups.pop(), centres.pop()
            groups[-1] += last
            centres[-1] = sum(wanted[one] for one in groups[-1]) / len(groups[-1])
    found = list(wanted)
    for group, centre in zip(groups, centres, strict=True):
        for place, index in enumerate(group):
            found[index] = centre + (place - (len(group) - 1) / 2) * distance
    return found
