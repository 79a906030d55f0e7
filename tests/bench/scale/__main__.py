"""`make bench-scale`: what the store does under load, each figure beside the floor it is held against.

python tests/bench/scale ingest            results/s over HTTP on SQLite and PostgreSQL
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
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gs-scale-"))
    folder.chmod(0o755)
    (folder / "pg").mkdir()
    # As a server is run in earnest: every commit is on disk before it is answered.
    server = PostgresServer(folder / "pg", {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"})
    try:
        server.start()
        if "ingest" in options.parts:
            _ingest(server, folder, options.turns)
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


if __name__ == "__main__":
    raise SystemExit(main())
