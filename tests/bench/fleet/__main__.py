"""`make bench-fleet`: wrong answers over simulated fleets, ours against two rules in use; then the time at scale."""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import scale
from scipy import stats
from simulate import FleetShape, Noise, recorded_noise, simulate

from groundspeed.service.domain.fleet.cells import FleetData
from groundspeed.service.domain.fleet.verdict import judge


def threshold_rule(data: FleetData, limit: float) -> str:
    """A node is defective when any metric of any of its devices is worse than its baseline by ``limit``, as the
    variance rules of SuperBench have it; the rollout stops when more than one node in ten is defective."""
    ratio = data.after.mean(axis=2) / data.before.mean(axis=2) - 1
    defective = np.unique(data.node[(ratio > limit).any(axis=1)]).size
    return "no-go" if defective > 0.1 * np.unique(data.node).size else "go"


def pooled_t_test(data: FleetData) -> str:
    """All samples of all devices before against all after, metric by metric, at 5 %."""
    for m in range(data.before.shape[1]):
        p = stats.ttest_ind(
            data.after[:, m].ravel(), data.before[:, m].ravel(), equal_var=False, alternative="greater"
        ).pvalue
        if p < 0.05:
            return "no-go"
    return "go"


def ours(data: FleetData) -> str:
    return judge(data).answer


RULES = {
    "ours": ours,
    "per-node rule, margin": lambda data: threshold_rule(data, float(data.margins[0])),
    "per-node rule, 5 %": lambda data: threshold_rule(data, 0.05),
    "pooled t-test": pooled_t_test,
}


def score(
    fleets: int, shape: FleetShape, noise: Noise, effect: float, seed: int, affected: int | None
) -> dict[str, Counter[str]]:
    answers: dict[str, Counter[str]] = {name: Counter() for name in RULES}
    for i in range(fleets):
        data, _ = simulate(np.random.default_rng([seed, i]), shape, noise, effect, affected)
        for name, rule in RULES.items():
            answers[name][rule(data)] += 1
    return answers


def table(fleets: int, shape: FleetShape, noise: Noise, seed: int, affected: int | None = None) -> None:
    """``affected``: in how many metrics the effect is; None: in all."""
    sys.stdout.write(f"{'rule':22}{'wrong no-go':>13}{'unsure':>9}{'wrong go':>11}{'unsure':>9}\n")
    sys.stdout.write(f"{'':22}{'at no effect':>22}{'at twice the margin':>20}\n")
    none, twice = (score(fleets, shape, noise, e, seed, affected) for e in (0.0, 2 * shape.margin))
    for name in RULES:
        a, b = none[name], twice[name]
        unsure = "not-enough-evidence"
        sys.stdout.write(
            f"{name:22}{a['no-go'] / fleets:13.1%}{a[unsure] / fleets:9.1%}"
            f"{b['go'] / fleets:11.1%}{b[unsure] / fleets:9.1%}\n"
        )


def at_scale(noise: Noise, seed: int) -> None:
    shape = FleetShape(nodes=1250, devices_per_node=8, metrics=30, broken_nodes=5)
    data, broken = simulate(np.random.default_rng(seed), shape, noise, 0.0)
    start = time.perf_counter()
    verdict = judge(data)
    took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    named = {node for node, _, _ in verdict.bad_nodes}
    sys.stdout.write(
        f"\n10,000 devices x 30 metrics x 3 replicates: {took:.2f} s, peak memory of the process {peak:.2f} GB; "
        f"answer {verdict.answer}; broken nodes named {len(named & set(broken.tolist()))} of {broken.size}, "
        f"others named {len(named - set(broken.tolist()))} of {1250 - broken.size}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fleets", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    given = os.environ.get("GROUNDSPEED_TEST_DATA", str(Path(__file__).resolve().parents[4] / "shared" / "data"))
    noise, what = recorded_noise(Path(given) / "gpu")
    shape = FleetShape()
    sys.stdout.write(f"{args.fleets} fleets of {shape.nodes} nodes x {shape.devices_per_node} devices, ")
    sys.stdout.write(f"{shape.metrics} metrics, margin {shape.margin:.1%}; noise: {what}; seed {args.seed}\n\n")
    table(args.fleets, shape, noise, args.seed)
    sys.stdout.write("\nThe same fleets without broken nodes:\n")
    table(args.fleets, replace(shape, broken_nodes=0), noise, args.seed)
    sys.stdout.write(f"\nThe same, the effect in one metric of {shape.metrics}:\n")
    table(args.fleets, shape, noise, args.seed, 1)
    sys.stdout.write("\nA canary of 8 nodes of which one breaks on the way, the effect in one metric:\n")
    table(args.fleets, replace(shape, nodes=8), noise, args.seed, 1)
    at_scale(noise, args.seed)
    scale.run(noise, args.seed)


if __name__ == "__main__":
    main()
