"""One generated history in the form that both sides read: a git repository and a tree of asv results.

Everything follows from the seed; nothing in it is measured. Benchmark 0 takes a parameter of ten values, so that a graph
of ten lines is to be had on both sides; the others have none.
"""

from __future__ import annotations

import json
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

START_S = 1_500_000_000
EVERY_S = 6 * 3600
LINES = 10
ARRIVALS = 8
"""Results that arrive one after another once all else is there."""
ENVIRONMENT = "virtualenv-py3.11"
COLUMNS = [
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25", "stats_q_75",
    "stats_number", "stats_repeat", "samples", "profile",
]  # fmt: skip
SIZES = [str(1 << i) for i in range(LINES)]


@dataclass(frozen=True)
class History:
    """What was written. ``newest`` is a commit of which one result of another benchmark is known; ``new`` are files with
    one result each that are to arrive, by the benchmark that they are of.
    """

    folder: Path
    shas: list[str]
    results: int
    newest: str
    new: dict[int, Path]

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    @property
    def tree(self) -> Path:
        return self.folder / "results"


def name_of(sha: str) -> str:
    """Of a result file."""
    return f"{sha[:8]}-{ENVIRONMENT}.json"


def benchmark(i: int) -> str:
    return f"suite.Bench{i // 20:03d}.time_case_{i:04d}"


def write(folder: Path, commits: int, benchmarks: int, machines: int, seed: int = 5) -> History:
    """``commits`` commits with all results, and one more with those that are to arrive."""
    folder.mkdir(parents=True, exist_ok=True)
    shas = _repository(folder / "repo", commits + 1)
    tree = folder / "results"
    tree.mkdir()
    listed = {
        benchmark(i): {
            "name": benchmark(i), "code": "pass", "type": "time", "unit": "seconds", "version": f"v{i}",
            "param_names": ["size"] if i == 0 else [], "params": [SIZES] if i == 0 else [],
        }
        for i in range(benchmarks)
    }  # fmt: skip
    (tree / "benchmarks.json").write_text(json.dumps({**listed, "version": 2}))
    rng = random.Random(seed)
    bases = [1e-4 * 1.7 ** rng.uniform(0, 8) for _ in range(benchmarks)]
    steps = [sorted((rng.randrange(commits), rng.choice((0.8, 0.9, 1.1, 1.25))) for _ in range(2)) for _ in bases]
    for m in range(machines):
        _machine(tree / f"machine{m}", f"machine{m}")
        for c in range(commits):
            rows = [_row(i, _value(rng, bases[i] * (1 + 0.3 * m), steps[i], c), c) for i in range(benchmarks)]
            (tree / f"machine{m}" / name_of(shas[c])).write_text(_file(f"machine{m}", shas[c], c, rows))
    last = commits
    other = 2 if benchmarks > 2 else 0
    known = _row(other, _value(rng, bases[other], steps[other], last), last)
    (tree / f"machine{machines - 1}" / name_of(shas[last])).write_text(
        _file(f"machine{machines - 1}", shas[last], last, [known])
    )
    new = {}
    for i in [i for i in range(1, benchmarks) if i != other][:ARRIVALS]:
        one = _row(i, _value(rng, bases[i], steps[i], last) * 1.5, last)
        new[i] = folder / f"new{i}.json"
        new[i].write_text(_file("machine0", shas[last], last, [one]))
    return History(folder, shas[:-1], commits * machines * (benchmarks + LINES - 1), shas[-1], new)


def _value(rng: random.Random, base: float, steps: list[tuple[int, float]], c: int) -> float:
    for at, ratio in steps:
        base *= ratio if c >= at else 1.0
    return base * (1 + 0.01 * rng.gauss(0, 1))


def _row(i: int, value: float, c: int) -> str:
    """One benchmark of a result file, as text: json.dumps of a million of them would take longer than all else."""
    values = [value * (1 + j) for j in range(LINES)] if i == 0 else [value]
    params = json.dumps([SIZES]) if i == 0 else "[]"

    def column(factor: float) -> str:
        return "[" + ",".join(f"{v * factor:.6g}" for v in values) + "]"

    counts = "[" + ",".join(["10"] * len(values)) + "]"
    started = (START_S + c * EVERY_S) * 1000
    return (
        f'"{benchmark(i)}": [{column(1)},{params},"v{i}",{started},0.2,{column(0.99)},{column(1.01)},'
        f"{column(0.995)},{column(1.005)},{counts},{counts}]"
    )


def _file(machine: str, sha: str, c: int, rows: list[str]) -> str:
    head = {
        "commit_hash": sha, "env_name": ENVIRONMENT, "date": (START_S + c * EVERY_S) * 1000,
        "params": {**_facts(machine), "python": "3.11"}, "python": "3.11", "requirements": {}, "env_vars": {},
        "result_columns": COLUMNS, "durations": {}, "version": 2,
    }  # fmt: skip
    return f'{json.dumps(head)[:-1]}, "results": {{{",".join(rows)}}}}}'


def _facts(name: str) -> dict[str, str]:
    cpu = f"Example CPU {name[-1]}"
    return {"arch": "x86_64", "cpu": cpu, "machine": name, "num_cpu": "8", "os": "Linux 6", "ram": "16416652"}


def _machine(folder: Path, name: str) -> None:
    folder.mkdir()
    (folder / "machine.json").write_text(json.dumps({**_facts(name), "version": 1}))


def _repository(path: Path, commits: int) -> list[str]:
    """A straight history; returns its hashes, oldest first."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(path)], check=True)
    stream = "".join(
        f"commit refs/heads/main\nmark :{i + 1}\nauthor A <a@example.org> {START_S + EVERY_S * i} +0000\n"
        f"committer A <a@example.org> {START_S + EVERY_S * i} +0000\ndata 12\nchange {i:05d}"
        + (f"\nfrom :{i}\n\n" if i else "\n\n")
        for i in range(commits)
    )  # fmt: skip
    subprocess.run(["git", "-C", str(path), "fast-import", "--quiet"], input=stream.encode(), check=True)
    log = ["git", "-C", str(path), "log", "--format=%H", "--reverse", "main"]
    return subprocess.run(log, capture_output=True, check=True, text=True).stdout.split()
