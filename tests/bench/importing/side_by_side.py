"""A public asv suite through the plugin and through asv itself, commit by commit, in turns on the same machine.

    python tests/bench/importing/side_by_side.py CHECKOUT --commits A..B [--last 10] [--conf asv.conf.json]
        [--bench REGEX] [--environment NAME | --python PATH --install "COMMAND"] [--json FILE] [--show FILE]

CHECKOUT is a clone that this script may check other commits out in. With ``--environment`` (a name such as
``virtualenv-py3.11``) both sides let asv build; with ``--python`` both measure what ``--install`` put into that
interpreter. Nothing of the suite is changed.

Each commit is measured four times, asv plugin plugin asv, and the other way round at the next commit: what drifts touches both
sides alike, and asv's two runs say what asv differs from itself. With ``--once`` each side runs once, in turns, and asv is held
against itself from one commit to the next, which counts changes of the code as noise. A benchmark is *within noise* when the mean of its
log-ratio over commits is not told from 0 by a t-test at 5 % over all benchmarks together (each at 5 % / their number), or
is under 1 %. asv's second run is held against its first by the very same rule. How many processors other programs kept
busy is measured during each run and told with the figures.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy import stats

ROOT = Path(__file__).resolve().parents[3]

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
    ]
    if options.environment:
        asv.append(f"{sha}^!")
    else:
        asv += ["--environment", f"existing:{python}", "--set-commit-hash", sha]
    for regex in [options.bench] if options.bench else []:
        asv += ["--bench", regex]
    home = {"HOME": str(options.work)}  # asv keeps what it knows of machines in the home folder
    run([python, "-m", "asv", "machine", "--yes", "--config", str(conf), "--machine", "here"], options.checkout, **home)
    folder = options.work / "asv/results_dir/here"
    for old in folder.glob(f"{sha[:8]}-*.json"):  # asv would add to what an earlier run left
        old.unlink()
    run(asv, options.checkout, **home)
    (found,) = [path for path in folder.glob(f"{sha[:8]}-*.json") if options.environment in path.name]
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
    parser.add_argument("--once", action="store_true", help="each side once a commit: half the time, a weaker control")
    parser.add_argument("--json", type=Path, help="written after every commit; a run that was cut goes on from it")
    parser.add_argument("--show", type=Path, help="only print the table of such a file")
    options = parser.parse_args()
    if options.show:
        sys.stdout.write(table(json.loads(options.show.read_text())))
        return 0
    options.checkout = options.checkout.resolve()
    options.python = str(Path(options.python).absolute())
    options.work = options.checkout.parent / f"{options.checkout.name}-side-by-side"
    options.work.mkdir(exist_ok=True)
    log = ["git", "log", "--first-parent", f"-{options.last}", "--format=%H", options.commits, "--", *options.paths]
    shas = run(log, options.checkout).split()[::-1]
    report: dict[str, Any] = {"format": "side-by-side.2", "began": time.strftime("%Y-%m-%dT%H:%M:%S"), "commits": []}
    if options.json and options.json.exists():
        kept = json.loads(options.json.read_text())
        report = kept if kept.get("format") == report["format"] else report
    done = {commit["sha"] for commit in report["commits"]}
    for turn, sha in enumerate(shas):
        if sha in done:
            continue
        report["commits"].append(measured(options, sha, turn))
        report["ended"] = time.strftime("%Y-%m-%dT%H:%M:%S")
        if options.json:
            options.json.write_text(json.dumps(report) + "\n")
    sys.stdout.write(table(report))
    return 0


def measured(options: argparse.Namespace, sha: str, turn: int) -> dict[str, Any]:
    """One commit, both sides twice."""
    run(["git", "checkout", "-q", "-f", sha], options.checkout)
    if options.install:
        run(shlex.split(options.install), options.checkout)
    commit: dict[str, Any] = {"sha": sha, "plugin": [], "asv": [], "others": []}
    began = time.monotonic()
    order = ("asv", "plugin", "plugin", "asv") if turn % 2 else ("plugin", "asv", "asv", "plugin")
    for side in order[: 2 if options.once else 4]:
        before = Busy.now()
        commit[side].append(
            of_asv(options, options.python, sha) if side == "asv" else of_plugin(options, options.python)
        )
        commit["others"].append(round(before.others_since(), 2))
    points = " ".join(f"{side} {'+'.join(str(len(values)) for values in commit[side])}" for side in ("plugin", "asv"))
    sys.stderr.write(f"{turn + 1} {sha[:9]}: points of {points}, {time.monotonic() - began:.0f} s\n")
    return commit


@dataclass(frozen=True)
class Busy:
    """Seconds: the clock, the machine's processors at work, and this process with its children."""

    clock: float
    machine: float
    own: float

    @classmethod
    def now(cls) -> Busy:
        fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        idle = fields[3] + fields[4]
        return cls(
            time.monotonic(),
            (sum(fields) - idle) / os.sysconf("SC_CLK_TCK"),
            sum(u.ru_utime + u.ru_stime for u in used),
        )

    def others_since(self) -> float:
        """How many processors other programs kept busy since then, on average."""
        now = Busy.now()
        return max((now.machine - self.machine - (now.own - self.own)) / (now.clock - self.clock), 0.0)


Pairs = list[tuple[float, float]]


def table(report: dict[str, Any]) -> str:
    """For each benchmark the ratio of the two sides with its interval, and asv's ratio to itself by the same rule."""
    sides: dict[str, Pairs] = {}
    itself: dict[str, Pairs] = {}
    kinds, unlike = {}, 0
    for commit in report["commits"]:
        for name in sorted({name for side in ("plugin", "asv") for values in commit[side] for name in values}):
            got = [values.get(name) for side in ("plugin", "asv") for values in commit[side]]
            if None in got or len({point[1] for point in got}) > 1:
                unlike += 1
            elif all(point[2] for point in got):
                kinds[name] = got[0][0]
                logs = [math.log(point[2]) for point in got]
                mine, others = logs[: len(logs) // 2], logs[len(logs) // 2 :]
                sides.setdefault(name, []).append((sum(mine) / len(mine), sum(others) / len(others)))
                itself.setdefault(name, []).append((others[-1], others[0]))
    if all(len(commit["asv"]) == 1 for commit in report["commits"]):
        values = {name: [pair[1] for pair in pairs] for name, pairs in sides.items()}
        itself = {name: list(zip(of[1::2], of[::2], strict=False)) for name, of in values.items()}
    names = [name for name in sorted(sides) if len(itself[name]) > 1]
    lines, inside, inside_itself = [], 0, 0
    for name in names:
        ratio, half, within = judged(sides[name], len(names))
        control, control_half, control_within = judged(itself[name], len(names))
        inside, inside_itself = inside + within, inside_itself + control_within
        ours, theirs = (math.exp(sum(pair[side] for pair in sides[name]) / len(sides[name])) for side in (0, 1))
        lines.append(
            f"{' ' if within else '*'} {name[:80]:80} {kinds[name]:8} {ours:10.4g} {theirs:10.4g} "
            f"{ratio:6.3f} ±{100 * half:5.1f} % {control:6.3f} ±{100 * control_half:5.1f} %{' ' if control_within else ' *'}"
        )
    others = [x for commit in report["commits"] for x in commit["others"]]
    head = f"  {'benchmark':80} {'type':8} {'plugin':>10} {'asv':>10} {'plugin / asv':>16} {'asv / asv again':>16}\n"
    tail = (
        f"{len(lines)} points over {len(report['commits'])} commits from {report['began']} to {report.get('ended')}: "
        f"{inside} within noise (asv beside itself: {inside_itself}), {unlike} with another outcome\n"
        f"other programs kept {median(others):.2f} of {os.cpu_count()} processors busy (median of runs, most {max(others):.2f})\n"
    )
    return head + "\n".join(lines) + "\n" + tail


def judged(pairs: Pairs, family: int) -> tuple[float, float, bool]:
    """(ratio, half-width of its 95 % interval, whether it is within noise); ``pairs`` are logarithms."""
    steps = np.array([a - b for a, b in pairs])
    mean, error = float(steps.mean()), float(steps.std(ddof=1)) / math.sqrt(len(steps))
    half = float(stats.t.ppf(0.975, len(steps) - 1)) * error
    limit = float(stats.t.ppf(1 - 0.025 / family, len(steps) - 1)) * error
    return math.exp(mean), math.expm1(half), abs(mean) <= max(limit, 0.01)


if __name__ == "__main__":
    sys.exit(main())
