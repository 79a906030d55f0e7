"""`make bench-scale`: what the store does under load, each figure beside the floor it is held against.

python tests/bench/scale                   all parts, one after another
python tests/bench/scale ingest            results/s over HTTP on SQLite and PostgreSQL
python tests/bench/scale dispatch          from a committed job to a worker, beside a no-op Celery task on the same Redis
python tests/bench/scale series            a series of 5,000 points served, beside the bare query
python tests/bench/scale nodes             1,000 simulated nodes and 20,000 jobs over HTTP
python tests/bench/scale pages [--rows N]  page queries at 100,000 and at N results (default 10 million); with
                                           --keep FOLDER the databases stay there and are used again
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2])]

from databases import PostgresServer  # noqa: E402 - found through the line above

PARTS = ("ingest", "dispatch", "series", "nodes", "pages")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-scale", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--keep", type=Path, help="keep the data of the part here, and use what is there (part pages)")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=20_000)
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are: {', '.join(PARTS)}")
    parts = [part for part in PARTS if part in (options.parts or PARTS)]
    if len(parts) > 1:
        # Each in a process of its own: none inherits another's connections.
        rest = [argument for argument in sys.argv[1:] if argument not in PARTS]
        return max(subprocess.run([sys.executable, sys.argv[0], part, *rest], check=False).returncode for part in parts)
    for part in parts:
        # As a server is run in earnest: a commit is on disk before it is answered. Reading needs no such care.
        keep = options.keep if part == "pages" else None
        with _server(keep, in_earnest=part == "ingest") as (server, folder):
            _RUN[part](server, folder, options)
    return 0


@contextmanager
def _server(keep: Path | None, *, in_earnest: bool) -> Iterator[tuple[PostgresServer, Path]]:
    folder = keep or Path(tempfile.mkdtemp(prefix="gs-scale-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    (folder / "pg").mkdir(exist_ok=True)
    careful = dict.fromkeys(("fsync", "synchronous_commit", "full_page_writes"), "on" if in_earnest else "off")
    server = PostgresServer(folder / "pg", {**careful, "shared_buffers": "512MB", "max_wal_size": "4GB"})
    try:
        server.start()
        yield server, folder
    finally:
        server.stop()
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _verdict(ratio: float, target: float) -> str:
    return f"{ratio:>10.2f}" + _over(ratio, target)


def _over(ratio: float, target: float) -> str:
    return "" if ratio <= target else f"  over the target of {target:g}"


def _ingest(server: PostgresServer, folder: Path, options: argparse.Namespace) -> None:
    import ingest

    _say(
        f"{'ingest':<12}{'batch':>6}{'service, results/s':>20}{'floor, results/s':>18}{'ratio':>10}{'processor, ms':>16}{'floor, ms':>11}{'ratio':>7}"
    )
    for engine, url, floor_url in (
        ("sqlite", f"sqlite:///{folder}/service.db", f"sqlite:///{folder}/floor.db"),
        ("postgresql", server.create(), server.create()),
    ):
        for rate in ingest.measure(engine, url, floor_url, folder, options.turns, singles=150, batches=15):
            figures = f"{rate.engine:<12}{rate.batch:>6}{rate.service:>20,.0f}{rate.floor:>18,.0f}"
            busy = f"{rate.service_ms:>16.2f}{rate.floor_ms:>11.2f}{rate.ratio_of_processor_time:>7.2f}"
            _say(f"{figures}{rate.ratio:>10.2f}{busy}{_over(rate.ratio, ingest.TARGET)}")


def _dispatch(server: PostgresServer, folder: Path, _options: argparse.Namespace) -> None:
    import dispatch

    floor, *ours = dispatch.measure(server.create(), folder)
    _say(f"\n{'dispatch':<24}{'p50, ms':>10}{'p99, ms':>10}{'messages/s':>12}")
    for one in (floor, *ours):
        _say(f"{one.name:<24}{one.p50_ms:>10.2f}{one.p99_ms:>10.2f}{one.per_second:>12,.0f}")
    for one in ours:
        _say(f"ratio of p50, {one.name:<28}{_verdict(one.p50_ms / floor.p50_ms, dispatch.TARGET)}")
    slowest = min(one.per_second for one in ours)
    _say(f"{'ratio of messages/s':<42}{_verdict(floor.per_second / slowest, dispatch.TARGET)}")


def _series(server: PostgresServer, folder: Path, _options: argparse.Namespace) -> None:
    import series

    for engine, url in (("sqlite", f"sqlite:///{folder}/series.db"), ("postgresql", server.create())):
        _say(
            f"\n{f'5,000 points, {engine}':<28}{'p50, ms':>10}{'p99, ms':>10}{'bytes':>10}{'p50 ratio':>10}{'p99 ratio':>10}"
        )
        floor, *served = series.measure(url, folder)
        _say(f"{floor.name:<28}{floor.p50_ms:>10.1f}{floor.p99_ms:>10.1f}{floor.size:>10,}")
        for one in served:
            figures = f"{one.name:<28}{one.p50_ms:>10.1f}{one.p99_ms:>10.1f}{one.size:>10,}"
            middle, worst = one.p50_ms / floor.p50_ms, one.p99_ms / floor.p99_ms
            _say(f"{figures}{middle:>10.2f}{worst:>10.2f}" + _over(max(middle, worst), series.TARGET))


def _nodes(server: PostgresServer, folder: Path, options: argparse.Namespace) -> None:
    import nodes

    nodes.report(nodes.measure(server, folder, options.nodes, options.jobs), _say)


def _pages(server: PostgresServer, folder: Path, options: argparse.Namespace) -> None:
    import pages

    pages.main(server, folder, options.rows)


_RUN = {"ingest": _ingest, "dispatch": _dispatch, "series": _series, "nodes": _nodes, "pages": _pages}

if __name__ == "__main__":
    raise SystemExit(main())
