"""`make bench-scale`: what the store does under load, each figure beside the floor it is held against.

python tests/bench/scale ingest            results/s over HTTP on SQLite and PostgreSQL
python tests/bench/scale dispatch          from a committed job to a worker, beside a no-op Celery task on the same Redis
python tests/bench/scale nodes             1,000 simulated nodes and 20,000 jobs over HTTP
python tests/bench/scale pages [--rows N]  page queries at 100,000 and at N results (default 10 million)
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2])]

from databases import PostgresServer  # noqa: E402 - found through the line above


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-scale", description=__doc__)
    parser.add_argument("parts", nargs="*", default=["ingest"])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=20_000)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gs-scale-"))
    folder.chmod(0o755)
    (folder / "pg").mkdir()
    # As a server is run in earnest: every commit is on disk before it is answered. What only reads needs no such care.
    earnest = "on" if "ingest" in options.parts else "off"
    careful = dict.fromkeys(("fsync", "synchronous_commit", "full_page_writes"), earnest)
    server = PostgresServer(folder / "pg", {**careful, "shared_buffers": "512MB", "max_wal_size": "4GB"})
    try:
        server.start()
        if "ingest" in options.parts:
            _ingest(server, folder, options.turns)
        if "dispatch" in options.parts:
            _dispatch(server, folder)
        if "nodes" in options.parts:
            _nodes(server, folder, options.nodes, options.jobs)
        if "pages" in options.parts:
            import pages

            pages.main(server, folder, options.rows)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _ingest(server: PostgresServer, folder: Path, turns: int) -> None:
    import ingest

    out = sys.stdout.write
    out(f"{'engine':<12}{'batch':>6}{'service, results/s':>20}{'floor, results/s':>18}{'floor/service':>15}\n")
    for engine, url, floor_url in (
        ("sqlite", f"sqlite:///{folder}/service.db", f"sqlite:///{folder}/floor.db"),
        ("postgresql", server.create(), server.create()),
    ):
        for rate in ingest.measure(engine, url, floor_url, folder, turns, singles=150, batches=15):
            verdict = "" if rate.ratio <= ingest.TARGET else f"  (target {ingest.TARGET:g})"
            out(
                f"{rate.engine:<12}{rate.batch:>6}{rate.service:>20,.0f}{rate.floor:>18,.0f}{rate.ratio:>15.2f}{verdict}\n"
            )


def _dispatch(server: PostgresServer, folder: Path) -> None:
    import dispatch

    sys.stdout.write(f"{'dispatch':<20}{'p50, ms':>10}{'p99, ms':>10}{'messages/s':>12}\n")
    for one in dispatch.measure(server.create(), folder):
        sys.stdout.write(f"{one.name:<20}{one.p50_ms:>10.2f}{one.p99_ms:>10.2f}{one.per_second:>12,.0f}\n")


def _nodes(server: PostgresServer, folder: Path, count: int, jobs: int) -> None:
    import nodes

    found = nodes.measure(server.create(), folder, count, jobs)
    sys.stdout.write(
        f"{found.nodes} nodes, {found.jobs} jobs: {found.done} done, {found.twice} twice, {found.seconds:.0f} s\n"
        f"processor time of the API a job: {found.scheduling_ms:.2f} ms to schedule (target {nodes.TARGET_MS:g}), "
        f"{found.with_results_ms:.2f} ms with a result taken in\n"
        f"a claim takes {found.quantile_ms(0.5):.1f} ms (p50), {found.quantile_ms(0.99):.1f} ms (p99)\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
