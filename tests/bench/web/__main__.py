"""``make bench-web``: Groundspeed's pages beside asv's, over the same generated history, in one run and one browser.

    python tests/bench/web [--commits N] [--benchmarks N] [--machines N] [--series N] [--no-asv] [--json FILE] [--keep DIR]

1. A history is generated as a git repository and a tree of asv results; both sides read that.
2. One new result arrives. Groundspeed takes it over HTTP and shows it with its verdict; asv has to be published again,
   the whole of it. Both are timed from the moment at which the result is there.
3. Pages: server time, bytes as sent, first paint, time until they can be used, heap and bytes moved, with empty caches.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests"), str(Path(__file__).parent)]

import history  # noqa: E402 - found through the line above
import httpx  # noqa: E402
import measured  # noqa: E402
import ours  # noqa: E402
import smooth  # noqa: E402
import theirs  # noqa: E402
from playwright.sync_api import Browser, sync_playwright  # noqa: E402

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--enable-precise-memory-info",
]  # fmt: skip
GRAPH_READY = "[data-graph][data-ready]"


def say(text: str) -> None:
    """At once: the whole takes minutes."""
    sys.stdout.write(text)
    sys.stdout.flush()


def main() -> int:
    options = _options()
    report: dict[str, Any] = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory(prefix="groundspeed-bench-web-") as name:
        folder = Path(options.keep or name)
        shutil.rmtree(folder, ignore_errors=True)
        data = folder / "data"
        made = history.write(folder / "long", options.commits, options.benchmarks, options.machines)
        thousand = history.write(folder / "thousand", 1000, 2, 1, seed=6)
        wide = history.write(folder / "wide", 60, options.series - history.LINES + 1, 1, seed=7)
        report["history"] = {"commits": options.commits, "benchmarks": options.benchmarks, "machines": options.machines}
        report["history"]["results"] = made.results
        say(f"{options.commits:,} commits x {options.benchmarks} benchmarks x {options.machines} machines: ")
        say(f"{made.results:,} results\n")
        report["import"] = ours.bring_in(made, data)
        say(f"groundspeed import {_cost(report['import'])}\n")
        for other, project in ((thousand, "thousand"), (wide, "wide")):
            ours.bring_in(other, data, project)
        published = None if options.no_asv else _publish(report, made, thousand, wide)
        with ours.up(data) as url, sync_playwright() as playwright:
            report["analysed_s"] = ours.settled(data)
            say(f"every series analysed after {report['analysed_s']:.0f} s more\n")
            report["arrival"] = arrived = ours.arrival(made, url, _series(data, "history", 1)[0])
            _told(report, arrived)
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            report["pages"] = _our_pages(browser, url, data, options.commits)
            report["smooth"] = smooth.zooming(browser, url + _graph(data, 20))
            say(f"zooming a graph of 20 series x {options.commits:,} points: {report['smooth']}\n")
            if published:
                report["asv pages"] = _their_pages(browser, published, options.commits)
            browser.close()
        report["store_mb"] = (data / "groundspeed.db").stat().st_size // 1_000_000
        report["load_after"] = os.getloadavg()[0]
    if options.json:
        options.json.write_text(measured.as_json(report) + "\n", encoding="utf-8")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=5000)
    parser.add_argument("--benchmarks", type=int, default=200)
    parser.add_argument("--machines", type=int, default=4)
    parser.add_argument("--series", type=int, default=2000, help="of the grid")
    parser.add_argument("--no-asv", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", help="leave everything in this folder, which is emptied first")
    return parser.parse_args()


def _cost(cost: measured.Command) -> str:
    return f"{cost.wall_s:.1f} s wall, {cost.cpu_s:.1f} s CPU, {cost.peak_mb} MB at most"


def _publish(report: dict[str, Any], *histories: history.History) -> list[Path] | None:
    """Publishes each; the first with its new result, which is what a new result costs."""
    theirs.with_new_result(histories[0])
    report["asv publish"] = theirs.publish(histories[0])
    say(f"asv publish, with one new result {_cost(report['asv publish'])}\n")
    for other in histories[1:]:
        theirs.publish(other)
    modules = theirs.libraries(histories[0].folder / "npm")
    if modules is None:
        say("npm cannot be reached: asv's pages are left out\n")
        return None
    found = [other.folder / "html" for other in histories]
    for html in found:
        theirs.vendored(html, modules)
    return found


def _told(report: dict[str, Any], arrived: ours.Arrival) -> None:
    say(f"one new result: acknowledged after {1e3 * arrived.acknowledged_s:.0f} ms, on its page after ")
    say(
        f"{1e3 * arrived.point_s:.0f} ms, with its verdict ({arrived.verdict}) after {1e3 * arrived.verdict_s:.0f} ms\n"
    )
    if "asv publish" in report:
        report["times_faster"] = report["asv publish"].wall_s / arrived.verdict_s
        say(f"asv publish takes {report['times_faster']:.0f} times as long\n")


def _series(data: Path, project: str, benchmark: int) -> list[int]:
    """Ids of a benchmark's series, those of the first machine first."""
    found = ours.query(
        data,
        "select s.id from series s join project p on p.id = s.project_id join benchmark b on b.id = s.benchmark_id "
        "where p.slug = ? and (b.suite || coalesce(b.target, '')) like ? order by s.hardware_id, s.id",
        project,
        f"%{history.benchmark(benchmark).rpartition('.')[2]}%",
    )
    return [row[0] for row in found]


def _graph(data: Path, count: int) -> str:
    ids = [id_ for benchmark in range(count) for id_ in _series(data, "history", benchmark)][:count]
    return f"/projects/history/graph?series={','.join(map(str, ids))}"


def _our_pages(browser: Browser, url: str, data: Path, commits: int) -> dict[str, Any]:
    sha = ours.query(
        data,
        "select r.sha from revision r join project p on p.id = r.project_id where p.slug = 'wide' and r.position = 30",
    )
    pages = {
        "series of 1,000 points": (f"/projects/thousand/series/{_series(data, 'thousand', 1)[0]}", GRAPH_READY, 1),
        f"graph of 10 series x {commits:,}": (_graph(data, 10), GRAPH_READY, 1),
        f"graph of 20 series x {commits:,}": (_graph(data, 20), GRAPH_READY, 1),
        "grid": ("/projects/wide/benchmarks", ".card", 100),
        "commit with all of them": (f"/projects/wide/commits/{sha[0][0]}", "tbody tr", 100),
        "overview": ("/projects/history", "tbody tr", 1),
    }
    found = {}
    _head("groundspeed")
    with httpx.Client(base_url=url, timeout=60) as http:
        for label, (path, ready, least) in pages.items():
            took, best, size = measured.server(http, path)
            shown = measured.page(browser, url + path, ready, least)
            found[label] = {"server_ms": took, "server_best_ms": best, "bytes": size, **shown._asdict()}
            _line(label, found[label])
    return found


def _their_pages(browser: Browser, published: list[Path], commits: int) -> dict[str, Any]:
    long, thousand, wide = published
    drawn = "#main-graph canvas.flot-base"
    pages = {
        "series of 1,000 points": (thousand, f"/index.html#{history.benchmark(1)}", drawn),
        f"graph of 10 series x {commits:,}": (long, f"/index.html#{history.benchmark(0)}?x-axis=commit", drawn),
        "grid": (wide, "/index.html#/", ".benchmark-plot canvas"),
    }
    found = {}
    _head("asv")
    for label, (html, path, ready) in pages.items():
        with theirs.served(html) as url:
            found[label] = measured.page(browser, url + path, ready)._asdict()
            _line(label, found[label])
    return found


def _head(title: str) -> None:
    """Times are medians with the best beside them."""
    say(f"\n{title:<30}{'server ms':>16}{'sent kB':>9}{'paint ms':>16}{'ready ms':>16}{'heap MB':>9}{'moved kB':>10}\n")


def _line(label: str, row: dict[str, Any]) -> None:
    def pair(name: str) -> str:
        return f"{row[f'{name}_ms']:.0f} ({row[f'{name}_best_ms']:.0f})"

    served = f"{pair('server'):>16}{row['bytes'] / 1e3:>9.1f}" if "server_ms" in row else f"{'':>25}"
    shown = f"{pair('paint'):>16}{pair('ready'):>16}"
    say(f"{label:<30}{served}{shown}{row['heap_mb']:>9.1f}{row['moved_kb']:>10.0f}\n")


if __name__ == "__main__":
    sys.exit(main())
