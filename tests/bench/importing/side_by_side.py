"""A public asv suite through the plugin and through asv itself, commit by commit, in turns on the same machine.

    python tests/bench/importing/side_by_side.py CHECKOUT --commits A..B [--last 10] [--conf asv.conf.json]
        [--bench REGEX] [--environment NAME | --python PATH --install "COMMAND"] [--json FILE]

CHECKOUT is a clone that this script may check other commits out in. With ``--environment`` (a name such as
``virtualenv-py3.11``) both sides let asv build; with ``--python`` both measure what ``--install`` put into that
interpreter. Which side goes first changes with every commit. Nothing of the suite is changed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
Values = dict[str, float]

PLUGIN = """
import json, os, sys
from pathlib import Path
from groundspeed.plugins.asv_support import suite
wishes = suite.Wishes(**json.loads(sys.argv[1]))
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for point in suite.run(Path.cwd(), wishes, lambda text: None):
    name = point.name + json.dumps({k: v for k, v in point.params.items() if k != "benchmark"}, sort_keys=True)
    out.write(json.dumps([name, point.kind, point.outcome, list(point.samples)]) + "\\n")
"""
ASV = """
import itertools, json, math, sys
from asv.benchmarks import Benchmarks
from asv.config import Config
from asv.results import Results
from groundspeed.plugins.asv_support.suite import value_of
conf = Config.load(sys.argv[1])
described = Benchmarks.load(conf)
results = Results.load(sys.argv[2])
for name in sorted(results.get_all_result_keys()):
    if name not in described:
        continue
    axes = described[name]["params"]
    names = described[name].get("param_names") or [f"param{i + 1}" for i in range(len(axes))]
    values = results.get_result_value(name, axes)
    for point, value in zip(itertools.product(*axes), values):
        params = {n: value_of(v) for n, v in zip(names, point)}
        failed = value is None or (isinstance(value, float) and math.isnan(value))
        outcome = "ok" if not failed else "failed" if value is None else "skipped"
        print(json.dumps([name + json.dumps(params, sort_keys=True), described[name]["type"], outcome, [] if failed else [value]]))
"""


def run(command: list[str], folder: Path, **environ: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environ}, capture_output=True, text=True, check=False
    )
    if done.returncode not in {0, 2}:  # asv ends with 2 when a benchmark fails
        raise SystemExit(
            f"{shlex.join(command)[:300]} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    return done.stdout


def parsed(text: str) -> dict[str, tuple[str, str, float | None]]:
    """(type, outcome, median) by name and parameters."""
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("[")]
    return {name: (kind, outcome, median(samples) if samples else None) for name, kind, outcome, samples in rows}


def of_plugin(options: argparse.Namespace, python: str) -> dict[str, Any]:
    wishes = {
        "conf": options.conf, "bench": options.bench, "environment": "asv" if options.environment else "build",
        "env_name": options.environment or "", "quick": False, "launch": "auto", "env_dir": str(options.work / "plugin"),
    }  # fmt: skip
    return parsed(run([python, "-c", PLUGIN, json.dumps(wishes)], options.checkout, PYTHONPATH=str(ROOT / "plugins")))


def of_asv(options: argparse.Namespace, python: str, sha: str) -> dict[str, Any]:
    from asv import util

    raw = util.load_json(str(options.checkout / options.conf), js_comments=True)
    folder = (options.checkout / options.conf).parent
    raw |= {k: str(options.work / "asv" / k) for k in ("env_dir", "results_dir", "html_dir")}
    raw |= {"repo": str(options.checkout), "dvcs": "git", "branches": ["HEAD"]}
    raw["benchmark_dir"] = str((folder / raw.get("benchmark_dir", "benchmarks")).resolve())
    if options.environment:
        raw["pythons"] = [options.environment.rpartition("py")[2].partition("-")[0]]
    conf = options.work / "asv.conf.json"
    conf.write_text(json.dumps(raw))
    asv = [
        python,
        "-m",
        "asv",
        "run",
        "--config",
        str(conf),
        "--machine",
        "here",
        "--record-samples",
        "--append-samples",
    ]
    if options.environment:
        asv.append(f"{sha}^!")
    else:
        asv += ["--environment", f"existing:{python}", "--set-commit-hash", sha]
    for regex in [options.bench] if options.bench else []:
        asv += ["--bench", regex]
    home = {"HOME": str(options.work)}  # asv keeps what it knows of machines in the home folder
    run([python, "-m", "asv", "machine", "--yes", "--config", str(conf), "--machine", "here"], options.checkout, **home)
    run(asv, options.checkout, **home)
    files = (options.work / "asv/results_dir/here").glob(f"{sha[:8]}-*.json")
    (found,) = [path for path in files if options.environment in path.name]
    return parsed(run([python, "-c", ASV, str(conf), str(found)], options.checkout, PYTHONPATH=str(ROOT / "plugins")))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--commits", default="HEAD", help="what `git log --first-parent` understands")
    parser.add_argument("--paths", nargs="*", default=[], help="only commits that touch these")
    parser.add_argument("--last", type=int, default=10)
    parser.add_argument("--conf", default="asv.conf.json")
    parser.add_argument("--bench", default="")
    parser.add_argument("--environment", default="")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--install", default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.checkout = options.checkout.resolve()
    options.work = options.checkout.parent / f"{options.checkout.name}-side-by-side"
    options.work.mkdir(exist_ok=True)
    log = ["git", "log", "--first-parent", f"-{options.last}", "--format=%H", options.commits, "--", *options.paths]
    shas = run(log, options.checkout).split()[::-1]
    report: dict[str, Any] = {"began": time.strftime("%Y-%m-%dT%H:%M:%S"), "commits": [], "load": []}
    for turn, sha in enumerate(shas):
        run(["git", "checkout", "-q", "-f", sha], options.checkout)
        if options.install:
            run(shlex.split(options.install), options.checkout)
        report["load"].append(os.getloadavg()[0])
        if turn % 2:
            theirs = of_asv(options, options.python, sha)
            ours = of_plugin(options, options.python)
        else:
            ours = of_plugin(options, options.python)
            theirs = of_asv(options, options.python, sha)
        report["commits"].append({"sha": sha, "plugin": ours, "asv": theirs})
        sys.stderr.write(f"{turn + 1}/{len(shas)} {sha[:9]}: {len(ours)} points, {len(theirs)} of asv\n")
        if options.json:
            options.json.write_text(json.dumps(report) + "\n")
    report["ended"] = time.strftime("%Y-%m-%dT%H:%M:%S")
    if options.json:
        options.json.write_text(json.dumps(report) + "\n")
    sys.stdout.write(table(report))
    return 0


def table(report: dict[str, Any]) -> str:
    """For each benchmark: the median over commits of both sides, their ratio, and each side's own spread over commits."""
    series: dict[str, list[tuple[float, float]]] = {}
    kinds, unlike = {}, 0
    for commit in report["commits"]:
        for name in commit["plugin"].keys() | commit["asv"].keys():
            ours, theirs = commit["plugin"].get(name), commit["asv"].get(name)
            if ours is None or theirs is None or ours[1] != theirs[1]:
                unlike += 1
            elif ours[2] is not None and theirs[2] is not None:
                kinds[name] = ours[0]
                series.setdefault(name, []).append((ours[2], theirs[2]))
    lines, inside = [], 0
    for name in sorted(series):
        ours, theirs = (median(pair[side] for pair in series[name]) for side in (0, 1))
        ratio, noise = ours / theirs if theirs else math.nan, max(spread(series[name], 0), spread(series[name], 1))
        within = abs(ratio - 1) <= max(2 * noise, 0.01)
        inside += within
        mark = " " if within else "*"
        lines.append(
            f"{mark} {name[:90]:90} {kinds[name]:10} {ours:10.4g} {theirs:10.4g} {ratio:6.3f} ±{100 * noise:.1f} %"
        )
    head = f"  {'benchmark':90} {'type':10} {'plugin':>10} {'asv':>10} {'ratio':>6} spread of a commit's value\n"
    tail = f"{len(lines)} points over {len(report['commits'])} commits: {inside} within noise, {unlike} with another outcome\n"
    return head + "\n".join(lines) + "\n" + tail


def spread(pairs: list[tuple[float, float]], side: int) -> float:
    """Median relative step from a commit to the next, as a standard deviation of one value."""
    values = [pair[side] for pair in pairs]
    steps = [abs(b - a) / a for a, b in pairwise(values) if a]
    return 1.4826 * median(steps) / math.sqrt(2) if steps else 0.0


if __name__ == "__main__":
    sys.exit(main())
