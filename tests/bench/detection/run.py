"""``make bench-detection``: one table of ours and four peers, on the same series, in one run; and what must hold.

Environment: GROUNDSPEED_BENCH_HOME (where the peers' environments live, default .bench), GROUNDSPEED_BENCH_GENERATOR
(another generator's script, called with --out --commits --benchmarks --machines --seed --no-asv --no-jsonl) and
GROUNDSPEED_TEST_DATA (a folder with cpd/ of labelled series); what is not there is left out and said so.
GROUNDSPEED_BENCH_SEED sets the seed, GROUNDSPEED_BENCH_DEADLINE_S when slow peers are stopped for good (1080 s).
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import environments
import generator
import psutil
import score
import targets

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
DETECTORS = ("ours", "asv", "otava", "ruptures", "mongodb", "zero")
LIMIT_S = {"ruptures": 15.0, "mongodb": 20.0, "asv": 12.0}
"""Processor seconds that a slow peer may spend on one set; it is then scored on the series it reached."""
STOP_S = 150.0
"""A slow peer that has used so many processor seconds is stopped within a series."""
DEADLINE_S = float(os.environ.get("GROUNDSPEED_BENCH_DEADLINE_S", "1080"))
"""When so long has passed since the beginning, slow peers are stopped at once: the table is to be there in 20 minutes."""
TOO_LONG = 3000
"""Series of more points are given to ruptures and MongoDB one at most, in one set only: it takes them minutes."""
VERY_SLOW = ("ruptures", "mongodb")
BEGAN = time.monotonic()
AT_ONCE = 2
"""Detectors that run side by side, each with a core of its own on the two that are asked for."""


@dataclass
class Series:
    """A series to detect in; ``steps`` are known, or ``labels`` are people's."""

    name: str
    shape: str
    x: list[int]
    y: list[float]
    steps: list[tuple[int, float]] = field(default_factory=list)
    labels: dict[str, list[int]] | None = None
    length: int = 0


@dataclass
class Done:
    """A set with what each detector answered."""

    title: str
    kind: str
    series: list[Series]
    answers: dict[str, Answers]


@dataclass
class Answers:
    """What a detector said of the series it reached."""

    points: dict[str, list[tuple[int, float]]]
    firm: dict[str, list[tuple[int, float]]]
    seconds: float


def main() -> int:
    home = Path(os.environ.get("GROUNDSPEED_BENCH_HOME", ROOT / ".bench"))
    home.mkdir(parents=True, exist_ok=True)
    seed = int(os.environ.get("GROUNDSPEED_BENCH_SEED", "1"))
    pythons = {d: environments.python_of(d, home) for d in DETECTORS}
    _print(f"Seed {seed}; environments made after {time.monotonic() - BEGAN:.0f} s")
    done: list[Done] = []
    for one in _sets(seed):
        title, kind, series = one
        long = len(series[0].x) > TOO_LONG
        _print(f"\n{title} ({len(series)} series)")
        present = {d: python for d, python in pythons.items() if python is not None}
        if long and any(len(d.series[0].x) > TOO_LONG for d in done):
            present = {d: python for d, python in present.items() if d not in VERY_SLOW}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            futures = {
                d: pool.submit(run, d, python, series[:1] if long and d in VERY_SLOW else series)
                for d, python in present.items()
            }
        answers = {d: f.result() for d, f in futures.items()}
        table = {"labelled": _table_labelled, "steps": _table_steps, "calm": _table_calm}[kind]
        table(series, answers)
        done.append(Done(title, kind, series, answers))
    targets.show(done, _print)
    _print(f"\n{time.monotonic() - BEGAN:.0f} s in all")
    return 0


def _sets(seed: int) -> Iterator[tuple[str, str, list[Series]]]:
    """The long series last, so that a slow machine costs the slow peers' share of those and nothing else."""
    script = Path(os.environ.get("GROUNDSPEED_BENCH_GENERATOR", ROOT.parent / "shared" / "bench" / "gen_history.py"))
    for n, each in ((100, 40), (1000, 8)):
        yield _own(n, each, seed)
    calm = [_of(h) for h in generator.histories(1000, 12, seed + 1, stepped=False)]
    calm.sort(key=lambda s: s.name.rsplit("-", 1)[1])
    yield "The same without steps, 1000 points: false alarms per 1,000 points", "calm", calm
    if script.is_file():
        for n, benchmarks in ((100, 200), (1000, 45)):
            yield f"Histories of {script.name}, {n} points, seed {seed}", "steps", _foreign(script, n, benchmarks, seed)
    else:
        _print(f"No other generator at {script}: left out")
    data = Path(os.environ.get("GROUNDSPEED_TEST_DATA", ROOT.parent / "shared" / "data")) / "cpd"
    if data.is_dir():
        real = [s for s in _labelled(data / "tcpd") if not s.name.startswith("quality_control")]
        yield "TCPD, real series (uk_coal_employ left out)", "labelled", real
        yield "Labelled performance series (margin 5)", "labelled", _labelled(data / "perf")
    else:
        _print(f"No labelled series at {data}: left out")
    yield _own(5000, 2, seed)
    if script.is_file():
        yield f"Histories of {script.name}, 5000 points, seed {seed}", "steps", _foreign(script, 5000, 12, seed)


def _own(n: int, each: int, seed: int) -> tuple[str, str, list[Series]]:
    made = generator.histories(n, each, seed)
    order = sorted(made, key=lambda h: (h.name.rsplit("-", 1)[1], h.shape))  # so that a sample has all shapes
    return f"Histories of this repository's generator, {n} points", "steps", [_of(h) for h in order]


def _of(h: generator.History) -> Series:
    return Series(h.name, h.shape, h.x, h.y, h.steps)


def _foreign(script: Path, n: int, benchmarks: int, seed: int) -> list[Series]:
    with tempfile.TemporaryDirectory() as folder:
        sizes = ["--commits", str(n), "--benchmarks", str(benchmarks), "--machines", "1", "--seed", str(seed)]
        call = [sys.executable, str(script), "--out", folder, *sizes, "--no-asv", "--no-jsonl"]
        subprocess.run(call, check=True, capture_output=True)
        truth: dict[tuple[str, int], list[tuple[int, float]]] = {}
        for s in json.loads((Path(folder) / "truth.json").read_text())["steps"]:
            truth.setdefault((s["benchmark"], s["param_idx"]), []).append((s["commit_index"], s["ratio"]))
        out = []
        for line in (Path(folder) / "series.jsonl").read_text().splitlines():
            row = json.loads(line)
            key = row["benchmark"], row["param_idx"]
            name = f"{key[0]}/{key[1]}"
            out.append(Series(name, row["noise"], row["x"], row["y"], truth.get(key, [])))
    return out


def _labelled(folder: Path) -> list[Series]:
    """Series with labels; those whose outliers must not become change points have an annotator who marked nothing."""
    out = []
    for path in sorted(folder.glob("*.json")):
        doc = json.loads(path.read_text())
        labels = doc.get("annotations") or ({"none": []} if "outliers" in doc else None)
        y = doc.get("series")
        if not labels or not y or isinstance(y[0], list) or doc["name"] == "uk_coal_employ":
            continue
        known = [(i, float(v)) for i, v in enumerate(y) if v is not None and math.isfinite(v)]
        x, values = [i for i, _ in known], [v for _, v in known]
        out.append(Series(doc["name"], "real", x, values, labels=labels, length=len(y)))
    return out


def run(detector: str, python: Path, series: list[Series]) -> Answers:
    """Run a detector in its own environment over as many of the series as its limit allows."""
    limit = LIMIT_S.get(detector, math.inf)
    call = [str(python), str(HERE / "detectors.py"), detector]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        over = threading.Event()
        if detector in LIMIT_S:
            threading.Thread(target=_watch, args=(child.pid, child.kill, over), daemon=True).start()
        points, firm, seconds = {}, {}, 0.0
        for s in series:
            with suppress(BrokenPipeError):  # a stopped child shows as an empty answer below
                child.stdin.write(json.dumps({"id": s.name, "x": s.x, "y": s.y}) + "\n")
                child.stdin.flush()
            line = child.stdout.readline()
            if not line:
                sys.stderr.write(f"{detector} was stopped or ended at {s.name}\n")
                break
            row = json.loads(line)
            points[s.name] = [(p[0], p[1]) for p in row["points"]]
            firm[s.name] = [(p[0], p[1]) for p in row["points"] if not p[2]]
            seconds += row["seconds"]
            if seconds > limit:
                break
        over.set()
        child.kill()
    return Answers(points, firm, seconds)


def _watch(pid: int, stop: Callable[[], None], over: threading.Event) -> None:
    """Stop a child that has used STOP_S seconds of processor, or when the deadline has come."""
    while not over.wait(1.0):
        try:
            used = sum(psutil.Process(pid).cpu_times()[:2])
        except psutil.NoSuchProcess:
            return
        if used > STOP_S or time.monotonic() - BEGAN > DEADLINE_S:
            stop()
            return


def _tally(series: list[Series], found: dict[str, list[tuple[int, float]]]) -> score.Tally:
    tally = score.Tally()
    for s in series:
        if s.name in found:
            tally.add(s.shape, s.x, s.steps, found[s.name])
    return tally


def _table_steps(series: list[Series], answers: dict[str, Answers]) -> None:
    rows = [("detector", "precision", "recall", "F1", "false alarms/1000", "on drift", "series", "ms a series")]
    for d, a in answers.items():
        if not a.points:
            rows.append((d, *["-"] * 5, "0", "-"))
            continue
        t = _tally(series, a.points)
        calm = t.alarms_per_1000([s for s in t.points if s != "drift"])
        figures = [f"{v:.3f}" for v in (t.precision, t.recall, t.f1, calm, t.alarms_per_1000(["drift"]))]
        rows.append((d, *figures, str(len(a.points)), _mean_ms(a)))
    _aligned(rows)


def _table_calm(series: list[Series], answers: dict[str, Answers]) -> None:
    shapes = list(dict.fromkeys(s.shape for s in series))
    rows = [("detector", *shapes, "series")]
    for d, a in answers.items():
        t = _tally(series, a.points)
        rows.append((d, *(_figure(t.alarms_per_1000([s])) for s in shapes), str(len(a.points))))
    _aligned(rows)


def _table_labelled(series: list[Series], answers: dict[str, Answers]) -> None:
    rows = [("detector", "F1", "cover", "points", "series", "ms a series")]
    for d, a in answers.items():
        done = [s for s in series if s.name in a.points]
        if not done:
            continue
        ours = [(s, [p for p, _ in a.points[s.name]]) for s in done]
        f = sum(score.f1(s.labels or {}, p) for s, p in ours) / len(done)
        c = sum(score.cover(s.labels or {}, p, s.length) for s, p in ours) / len(done)
        count = str(sum(len(p) for _, p in ours))
        rows.append((d, f"{f:.3f}", f"{c:.3f}", count, str(len(done)), _mean_ms(a)))
    _aligned(rows)


def _figure(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "-"


def _mean_ms(a: Answers) -> str:
    return f"{1000 * a.seconds / len(a.points):.2f}" if a.points else "-"


def _aligned(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    for k, row in enumerate(rows):
        _print(
            "| "
            + " | ".join(c.ljust(w) if not i else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
            + " |"
        )
        if not k:
            _print("|" + "|".join("-" * (w + 2) for w in widths) + "|")


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
