"""``make bench-import``: the largest real history, into an empty store with its change points found, and again, beside
``asv publish`` on the same tree.

    python tests/bench/importing/run.py [--files N] [--no-asv] [--json FILE]

Needs the shared real data (GROUNDSPEED_TEST_DATA). Each part runs in a process of its own, one after the other, so that
times and peak memory are its own; children count.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

PART = """
import gc, json, os, resource, sys, time
gc.disable()
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
from datetime import UTC, datetime
from pathlib import Path
from groundspeed.service.usecases.import_sources import Sources
def spent():
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.monotonic(), sum(one.ru_utime + one.ru_stime for one in both)
if __name__ == "__main__":
    sources = Sources((Path(sys.argv[2]),))
    sources.begin()
    from groundspeed.service.db import migrate
    from groundspeed.service.db.engine import Database
    from groundspeed.service.usecases import analyse, importing
    from groundspeed.service.usecases.beforehand import Beforehand
    gc.freeze()
    at = [spent()]
    db = Database(f"sqlite:///{sys.argv[1]}")
    migrate.upgrade(db)
    options = importing.Options("history", (Path(sys.argv[2]),), repo=Path(sys.argv[3]))
    with Beforehand() as early:
        done = importing.run(db, options, datetime.now(UTC), sources=sources, early=early)
        at.append(spent())
        analysed = analyse.analyse_dirty(db, datetime.now(UTC), 1_000_000, early)
    at.append(spent())
    (import_s, import_cpu), (analysis_s, analysis_cpu) = [
        [round(b - a, 1) for a, b in zip(*pair)] for pair in zip(at, at[1:])
    ]
    print(json.dumps({
        "import_s": import_s, "import_cpu_s": import_cpu, "analysis_s": analysis_s, "analysis_cpu_s": analysis_cpu,
        "values": done.read, "results": done.added.results, "runs": done.added.runs, "series": done.series,
        "analysed": analysed,
    }))
"""


def measured(command: list[str], folder: Path) -> tuple[dict[str, Any], str]:
    """Wall and CPU seconds and the largest resident set of a command and its children; and what it printed."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    wrapped = [sys.executable, "-c", _WRAPPER, *command]
    done = subprocess.run(wrapped, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[:4])} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    *printed, last = done.stdout.strip().splitlines()
    return {
        "wall_s": round(time.monotonic() - began, 1),
        "cpu_s": round(cpu, 1),
        "peak_mb": int(last) // 1024,
    }, "\n".join(printed)


_WRAPPER = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, flush=True)
sys.exit(code)
"""


def prepare(data: Path, folder: Path, files: int) -> int:
    """The tree with the hashes of a repository of the project's shape; returns how many result files it has."""
    from formats import trees

    with tarfile.open(data / "asv/numpy.tar.xz") as archive:
        archive.extractall(folder / "raw", filter="data")
    mapping = trees.shape_of(data / "asv/commits/numpy.tsv.gz", folder / "repo")
    source = folder / "raw/numpy/results"
    results = sorted(p for p in source.rglob("*.json") if p.name not in {"machine.json", "benchmarks.json"})
    for path in results[files:] if files else []:
        path.unlink()
    trees.with_hashes(source, folder / "tree", mapping)
    shutil.rmtree(folder / "raw")
    return len(results[:files] if files else results)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=0, help="only so many of the 520 files")
    parser.add_argument("--no-asv", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    data = Path(os.environ.get("GROUNDSPEED_TEST_DATA", ROOT.parent / "shared" / "data"))
    if not (data / "asv/numpy.tar.xz").is_file():
        raise SystemExit(f"There is no real data at {data}: set GROUNDSPEED_TEST_DATA.")
    report: dict[str, Any] = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory(prefix="groundspeed-bench-") as name:
        folder = Path(name)
        report["files"] = prepare(data, folder, options.files)
        (folder / "part.py").write_text(PART)
        part = [
            sys.executable,
            str(folder / "part.py"),
            str(folder / "store.db"),
            str(folder / "tree"),
            str(folder / "repo"),
        ]
        for title in ("import", "again"):
            report["load_before"] = os.getloadavg()[0]
            figures, text = measured(part, folder)
            report[title] = {**figures, **json.loads(text.splitlines()[-1])}
        first = report["import"]
        first["results_per_s"] = round(first["results"] / first["wall_s"])
        report["store_mb"] = (folder / "store.db").stat().st_size // 1_000_000
        if not options.no_asv:
            conf = {
                "version": 1,
                "project": "numpy",
                "repo": str(folder / "repo"),
                "branches": ["main"],
                "results_dir": "tree",
                "html_dir": "html",
            }
            (folder / "asv.conf.json").write_text(json.dumps(conf))
            report["asv publish"], _ = measured([sys.executable, "-m", "asv", "publish", "--no-pull"], folder)
            report["times_faster"] = round(report["asv publish"]["wall_s"] / first["wall_s"], 1)
    text = json.dumps(report, indent=2)
    sys.stdout.write(text + "\n")
    if options.json:
        options.json.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
