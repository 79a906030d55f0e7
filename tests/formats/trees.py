"""Small asv results trees, made here, in both result versions; and git repositories to publish them with."""

from __future__ import annotations

import gzip
import json
import math
import re
import subprocess
from pathlib import Path
from typing import Any

COLUMNS = [
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25", "stats_q_75",
    "stats_number", "stats_repeat", "samples", "profile",
]  # fmt: skip
START_S = 1_600_000_000
MODES = ["'fast'", "'slow'"]
SIZES = ["10", "200", "range(0, 3)"]
BENCHMARKS: dict[str, Any] = {
    "suite.Time.time_plain": {"type": "time", "unit": "seconds", "param_names": [], "params": [], "version": "v-plain"},
    "suite.Time.time_grid": {"type": "time", "unit": "seconds", "param_names": ["mode", "n"], "params": [MODES, SIZES], "version": "v2"},
    "suite.peakmem_all": {"type": "peakmemory", "unit": "bytes", "param_names": [], "params": [], "version": "v-mem"},
    "suite.track_score": {"type": "track", "unit": "points", "param_names": [], "params": [], "version": "v-track"},
}  # fmt: skip


def repository(path: Path, commits: int) -> list[str]:
    """A git repository with a straight history, a commit a day; returns the hashes, oldest first."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(path)], check=True)
    stream = "".join(
        f"commit refs/heads/main\nmark :{i + 1}\nauthor A <a@example.org> {START_S + 86400 * i} +0000\n"
        f"committer A <a@example.org> {START_S + 86400 * i} +0000\ndata 8\nchange {i % 10}"
        + (f"\nfrom :{i}\n\n" if i else "\n\n")
        for i in range(commits)
    )  # fmt: skip
    subprocess.run(["git", "-C", str(path), "fast-import", "--quiet"], input=stream.encode(), check=True)
    log = subprocess.run(
        ["git", "-C", str(path), "log", "--format=%H", "--reverse", "main"], capture_output=True, check=True
    )
    return log.stdout.decode().split()


def machine(root: Path, name: str = "box") -> dict[str, str]:
    facts = {
        "arch": "x86_64",
        "cpu": "Example CPU 9000",
        "machine": name,
        "num_cpu": "4",
        "os": "Linux 6",
        "ram": "16416652",
    }
    (root / name).mkdir(parents=True, exist_ok=True)
    (root / name / "machine.json").write_text(json.dumps({**facts, "version": 1}))
    return facts


def write_tree(root: Path, shas: list[str], *, name: str = "box") -> int:
    """A tree of result version 2 with a step after the middle, a failing point, a skipped one and a commit that did not
    build; returns how many finite values it holds."""
    facts = machine(root, name)
    described = {k: {"name": k, "code": "pass", **v} for k, v in BENCHMARKS.items()}
    (root / "benchmarks.json").write_text(json.dumps({**described, "version": 2}))
    count = 0
    for i, sha in enumerate(shas):
        level = (1.0 if i < len(shas) // 2 else 1.4) * (1 + 0.001 * ((i * 7) % 5))
        grid: list[float | None] = [1e-3 * level * (j + 1) for j in range(6)]
        if i % 4 == 1:
            grid[2] = None
        grid[5] = float("nan")
        started = (START_S + 86400 * i + 3600) * 1000
        results: dict[str, Any] = {
            "suite.Time.time_plain": _row(
                [2e-3 * level], [], "v-plain", started, samples=[[2e-3 * level, 2.1e-3 * level]]
            ),
            "suite.Time.time_grid": _row(grid, [MODES, SIZES], "v1" if i < 2 else "v2", started),
            "suite.peakmem_all": [[50_000_000 + i], [], "v-mem", started, 0.5],
            "suite.track_score": [[3.5 + i], [], "v-track", started, 0.1],
            "suite.forgotten.time_old": _row([7e-6], [], "old", started),
        }
        if i == len(shas) - 1:
            results = {k: [None, [], v["version"]] for k, v in BENCHMARKS.items()}
        count += sum(v is not None and math.isfinite(v) for row in results.values() for v in row[0] or [])
        doc = {
            "commit_hash": sha, "env_name": "virtualenv-py3.11-numpy", "date": (START_S + 86400 * i) * 1000,
            "params": {**facts, "python": "3.11", "numpy": ""}, "python": "3.11", "requirements": {"numpy": ""}, "env_vars": {"OMP": "1"},
            "result_columns": COLUMNS, "results": results, "durations": {"<build>": 1.5}, "version": 2,
        }  # fmt: skip
        (root / name / f"{sha[:8]}-virtualenv-py3.11-numpy.json").write_text(json.dumps(doc))
    return count


def _row(
    values: list[float | None], params: list[list[str]], version: str, started: int, samples: Any = None
) -> list[Any]:
    def column(factor: float) -> list[float | None]:
        return [None if v is None or math.isnan(v) else float(f"{v * factor:.5g}") for v in values]

    ones = [None if v is None or math.isnan(v) else 1 for v in values]
    tens = [None if v is None or math.isnan(v) else 10 for v in values]
    row = [
        values,
        params,
        version,
        started,
        0.25,
        column(0.99),
        column(1.01),
        column(0.995),
        column(1.005),
        ones,
        tens,
        samples,
    ]
    return row if samples else row[:-1]


def write_version_1(root: Path, sha: str, name: str = "box") -> int:
    """One file of result version 1 with all of its shapes; returns how many values it holds."""
    facts = machine(root, name)
    (root / "benchmarks.json").write_text(
        json.dumps({**{k: {"name": k, **v} for k, v in BENCHMARKS.items()}, "version": 2})
    )
    stats = {
        "ci_99": [0.9, 1.1],
        "q_25": 0.95,
        "q_75": 1.05,
        "number": 3,
        "repeat": 7,
        "min": 0.9,
        "max": 1.1,
        "mean": 1.0,
        "std": 0.1,
    }
    results = {
        "suite.Time.time_plain": 0.25,
        "suite.Time.time_grid": {"params": [MODES, ["10"]], "result": [1.0, None], "stats": [stats, None]},
        "suite.peakmem_all": {"result": 123, "stats": None},
        "suite.track_score": None,
    }
    doc = {
        "commit_hash": sha, "date": START_S * 1000, "params": {**facts, "python": "3.6"}, "python": "3.6", "requirements": {"six": ""},
        "benchmark_version": {"suite.Time.time_plain": "v-plain"}, "started_at": {"suite.Time.time_plain": START_S * 1000},
        "results": results, "profiles": {}, "version": 1,
    }  # fmt: skip
    (root / name / f"{sha[:8]}-py3.6-six.json").write_text(json.dumps(doc))
    return 3


def shape_of(graph: Path, path: Path) -> dict[str, str]:
    """A git repository with the shape of a commit graph file (parents, times, tags); new hashes by old ones."""
    commits: dict[str, list[str]] = {}
    for line in gzip.decompress(graph.read_bytes()).decode().splitlines():
        if line and not line.startswith("#"):
            commits[line.split("\t")[0]] = line.split("\t")
    order: dict[str, int] = {}
    stack = [(next(iter(commits)), 0)]
    while stack:
        sha, done = stack.pop()
        parents = [p for p in commits[sha][1].split() if p in commits]
        if sha in order:
            continue
        if done < len(parents):
            stack += [(sha, done + 1), (parents[done], 0)]
        else:
            order[sha] = len(order) + 1
    subprocess.run(["git", "init", "-q", "-b", "main", str(path)], check=True)
    parts = []
    for sha, mark in order.items():
        _, parents_text, authored, committed, *tags = commits[sha]
        parents = [order[p] for p in parents_text.split() if p in commits]
        parts.append(
            f"commit refs/heads/main\nmark :{mark}\nauthor A <a@b> {authored} +0000\ncommitter A <a@b> {committed} +0000\ndata 40\n{sha}\n"
        )
        parts += [f"{'from' if i == 0 else 'merge'} :{p}\n" for i, p in enumerate(parents)] + ["\n"]
        names = [x.strip() for x in (tags[0] if tags else "").replace("tag: ", "").split(",") if x.strip()]
        parts += [f"reset refs/tags/{name}\nfrom :{mark}\n\n" for name in names]
    marks = path / "marks"
    command = ["git", "-C", str(path), "fast-import", "--quiet", f"--export-marks={marks}"]
    subprocess.run(command, input="".join(parts).encode(), check=True)
    new = dict(line.split() for line in marks.read_text().splitlines())
    return {sha: new[f":{mark}"] for sha, mark in order.items()}


def with_hashes(source: Path, target: Path, mapping: dict[str, str]) -> None:
    """A copy of a results tree whose commits are those of another repository."""
    for path in source.rglob("*.json"):
        text = path.read_text()
        found = re.search(r'"commit_hash": "([0-9a-f]{40})"', text)
        name = path.name
        if found and found[1] in mapping:
            text = text.replace(found[1], mapping[found[1]], 1)
            name = mapping[found[1]][:8] + path.name[8:]
        place = target / path.parent.relative_to(source) / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
