"""Calibrate the gate by simulation and draw what comes out into docs/img; prints the tables of docs/verdicts.md.

Two levels of noise, between processes and within, are fitted to recorded GPU runs (GROUNDSPEED_TEST_DATA/gpu); each is
tried normal, with heavy tails (Student's t with 3 degrees of freedom, same scale) and as recorded (residuals drawn
from the recorded processes). The gate looks after every pair from the 3rd to the
12th, as a pull request's does: ten looks.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from groundspeed.service.domain.compare import GateConfig, compare, next_step
from groundspeed.service.domain.intervals import paired
from groundspeed.service.usecases.planning import MAX_PAIRS, MIN_PAIRS

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = 7
RUNS = int(os.environ.get("GROUNDSPEED_BENCH_RUNS", "1000"))
CONFIG = GateConfig(threshold=0.01, min_pairs=MIN_PAIRS, max_pairs=MAX_PAIRS, peeks=None)
BARE = GateConfig(threshold=1e-6, min_pairs=MIN_PAIRS, max_pairs=MAX_PAIRS, peeks=None)
"""The same with a threshold that hides nothing: every interval without zero is a call."""
EFFECTS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2)
Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Noise:
    """Spread between processes and within one, with the recorded residuals (in spreads) of processes."""

    name: str
    between: float
    within: float
    residuals: np.ndarray


def fitted(data: Path) -> list[Noise]:
    """Noise of a device-busy time, of a sustained matmul by the clock, and of a host-driven step by the clock."""
    busy, wall = _residuals(data / "devtime.jsonl", "busy"), _residuals(data / "naive.jsonl", "warm_median")
    within = {r["name"]: r["cv"] for r in _rows(data / "noise_2.jsonl") if "cv" in r}
    steps = [r for name, r in wall.items() if name in {"gpt_train", "resnet_train"}]
    return [
        _noise("device-busy time of a step", list(busy.values()), within["resnet50_train_bf16_bs128"]),
        _noise("wall time of a matmul", [wall["gemm"]], within["matmul_bfloat16"]),
        _noise("wall time of a host-driven step", steps, within["bert_base_fp16_bs1"]),
    ]


def _rows(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def _residuals(path: Path, key: str) -> dict[str, np.ndarray]:
    groups: dict[str, list[float]] = defaultdict(list)
    for row in _rows(path):
        groups[str(row["name"])].append(math.log(row[key]))
    return {name: np.array(v) - np.median(v) for name, v in groups.items()}


def _noise(name: str, groups: list[np.ndarray], within: float) -> Noise:
    joined = np.concatenate(groups)
    spread = float(np.sqrt(np.mean(joined**2)))
    return Noise(name, spread, within, joined / spread)


def tails(noise: Noise) -> dict[str, Draw]:
    return {
        "normal": lambda r, n: r.normal(size=n),
        "heavy (t3)": lambda r, n: r.standard_t(3, n),
        "as recorded": lambda r, n: r.choice(noise.residuals, n) + 0.05 * r.normal(size=n),
    }


def simulate(noise: Noise, draw: Draw, effect: float, config: GateConfig, r: np.random.Generator) -> tuple[str, int]:
    def side(shift: float) -> list[list[float]]:
        centre = shift + noise.between * draw(r, config.max_pairs)
        return np.exp(centre[:, None] + noise.within * r.normal(size=(config.max_pairs, SAMPLES))).tolist()

    base, head = side(0.0), side(math.log1p(effect))
    for k in range(config.min_pairs, config.max_pairs + 1):
        if next_step(base[:k], head[:k], config) == "enough":
            return compare(base[:k], head[:k], config).answer, k
    raise AssertionError("the gate never ended")


def main() -> int:
    data = Path(os.environ.get("GROUNDSPEED_TEST_DATA", ROOT.parent / "shared" / "data")) / "gpu"
    if not data.is_dir():
        sys.stderr.write(f"no recorded GPU runs at {data}: set GROUNDSPEED_TEST_DATA\n")
        return 2
    r = np.random.default_rng(1)
    noises = fitted(data)
    bars = []
    out = ["| noise | between, within | tails | false regressed, threshold 0 | threshold 1 % | false improved |"]
    out.append("|---|---|---|---|---|---|")
    for noise in noises:
        for name, draw in tails(noise).items():
            bare = [simulate(noise, draw, 0.0, BARE, r)[0] for _ in range(RUNS)]
            real = [simulate(noise, draw, 0.0, CONFIG, r)[0] for _ in range(RUNS)]
            rates = bare.count("regressed") / RUNS, real.count("regressed") / RUNS, bare.count("improved") / RUNS
            bars.append((f"{noise.name}, {name}", rates[0]))
            size = f"{noise.between:.2%}, {noise.within:.2%}"
            out.append(f"| {noise.name} | {size} | {name} | " + " | ".join(f"{v:.2%}" for v in rates) + " |")
    curves = {n.name: _power(n, r) for n in noises}
    out += ["", "| effect | " + " | ".join(f"{n}: regressed (pairs)" for n in curves) + " |"]
    out.append("|---" * (1 + len(curves)) + "|")
    for i, e in enumerate(EFFECTS):
        out.append(f"| {e:.2%} | " + " | ".join(f"{c[i][0]:.0%} ({c[i][1]:.1f})" for c in curves.values()) + " |")
    out += ["", *_coverage(r)]
    sys.stdout.write("\n".join(out) + "\n")
    images = ROOT / "docs" / "img"
    images.mkdir(parents=True, exist_ok=True)
    (images / "gate-false.svg").write_text(_bars(bars))
    (images / "gate-power.svg").write_text(_curves({k: [p for p, _ in v] for k, v in curves.items()}))
    return 0


def _power(noise: Noise, r: np.random.Generator) -> list[tuple[float, float]]:
    out = []
    for effect in EFFECTS:
        runs = [simulate(noise, tails(noise)["normal"], effect, CONFIG, r) for _ in range(max(RUNS // 4, 50))]
        out.append((sum(a == "regressed" for a, _ in runs) / len(runs), sum(k for _, k in runs) / len(runs)))
    return out


def _coverage(r: np.random.Generator) -> list[str]:
    """How often intervals that say 95 % hold the truth."""
    out = ["| pairs | tails | percentile bootstrap | Student t | ours |", "|---|---|---|---|---|"]
    for n in (4, 6, 10):
        for name, draw in (("normal", r.normal), ("heavy (t3)", lambda size: r.standard_t(3, size))):
            hits = np.zeros(3)
            for _ in range(RUNS):
                d = draw(size=n) - draw(size=n)
                means = d[r.integers(0, n, (400, n))].mean(axis=1)
                low, high = np.quantile(means, (0.025, 0.975))
                reach = 1.96 if n > 100 else {4: 3.182, 6: 2.571, 10: 2.262}[n]
                half = reach * d.std(ddof=1) / math.sqrt(n)
                ours = paired(d, 0.025)
                hits += [low <= 0 <= high, abs(d.mean()) <= half, ours.low <= 0 <= ours.high]
            out.append(f"| {n} | {name} | " + " | ".join(f"{h / RUNS:.1%}" for h in hits) + " |")
    return out


STYLE = 'font-family="sans-serif" font-size="12"'
COLOURS = ("#0b6e4f", "#c05621", "#3a4fa0")


def _bars(rows: list[tuple[str, float]]) -> str:
    """False-regression rates against the nominal level of 2.5 %."""
    scale, height = 8000, 26 * len(rows) + 50
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {height}" {STYLE} fill="#333">']
    for i, (name, rate) in enumerate(rows):
        y = 12 + 26 * i
        out.append(f'<text x="320" y="{y + 13}" text-anchor="end">{name}</text>')
        out.append(f'<rect x="328" y="{y}" width="{rate * scale:.1f}" height="18" fill="{COLOURS[0]}"/>')
        out.append(f'<text x="{334 + rate * scale:.1f}" y="{y + 13}">{rate:.2%}</text>')
    x, foot = 328 + 0.025 * scale, height - 34
    out.append(f'<path d="M{x} 4V{foot}" stroke="{COLOURS[1]}" stroke-dasharray="4 3"/>')
    out.append(f'<text x="{x}" y="{foot + 16}" text-anchor="middle">nominal 2.5 %</text></svg>')
    return "\n".join(out) + "\n"


def _curves(curves: dict[str, list[float]]) -> str:
    """Share called regressed against the true slowdown, on a logarithmic axis."""
    left, width, top, tall = 50, 560, 20, 260
    span = math.log(EFFECTS[-1] / EFFECTS[0])

    def at(effect: float, share: float) -> str:
        return f"{left + width * math.log(effect / EFFECTS[0]) / span:.1f} {top + tall * (1 - share):.1f}"

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 400" {STYLE} fill="#333">']
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        out.append(f'<path d="M{at(EFFECTS[0], share)}H{left + width}" stroke="#ccc"/>')
        out.append(f'<text x="{left - 6}" y="{top + tall * (1 - share) + 4}" text-anchor="end">{share:.0%}</text>')
    for effect in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2):
        x, _ = at(effect, 0).split()
        out.append(f'<text x="{x}" y="{top + tall + 18}" text-anchor="middle">{effect:.1%}</text>')
    for i, (name, shares) in enumerate(curves.items()):
        path = "L".join(at(e, s) for e, s in zip(EFFECTS, shares, strict=True))
        out.append(f'<path d="M{path}" fill="none" stroke="{COLOURS[i]}" stroke-width="2"/>')
        y = top + tall + 50 + 20 * i
        out.append(f'<path d="M{left} {y}h24" stroke="{COLOURS[i]}" stroke-width="2"/>')
        out.append(f'<text x="{left + 32}" y="{y + 4}">{name}</text>')
    out.append(f'<text x="{left + width}" y="{top + tall + 34}" text-anchor="end">true slowdown</text></svg>')
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    sys.exit(main())
