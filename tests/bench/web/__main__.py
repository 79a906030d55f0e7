"""``make bench-web``: Groundspeed's pages beside asv's, over the same generated history, in one run and one browser.

    python tests/bench/web [--commits N] [--benchmarks N] [--machines N] [--series N] [--no-asv] [--json FILE] [--keep DIR]

1. A history is generated as a git repository and a tree of asv results; both sides read that.
2. New results arrive, one after another. Groundspeed takes each over HTTP and shows it with its verdict; asv has to be
   published again, the whole of it. Both are timed from the moment at which the result is there.
3. Pages: server time, bytes as sent, first paint, time until they can be used, heap and bytes moved, with empty caches.

Processor time stands beside the time by the clock, and the machine's load (runnable processes, one minute's mean) beside
each line: on a busy machine only processor time says what something costs.

The size is the largest of 5,000 commits x 200 benchmarks x 4 machines and 5,000 x 100 x 2 that ends within ten minutes on
two idle cores: of the former, asv's publishing alone takes longer (462 s were seen for two machines).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
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

import demo_long  # noqa: E402 - found through the line above

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--enable-precise-memory-info",
]  # fmt: skip
GRAPH_READY = "[data-graph][data-ready]"
LONG = f"series of {demo_long.POINTS:,} points"


def say(text: str) -> None:
    """At once: the whole takes minutes."""
    sys.stdout.write(text)
    sys.stdout.flush()


def main() -> int:
    options = _options()
    report: dict[str, Any] = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0], "smooth": {}}
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
        ours.put_long(data)
        published = None if options.no_asv else _publish(report, made, thousand, wide)
        with ours.up(data) as service, sync_playwright() as playwright:
            url = service.url
            spent = measured.spent_ms(service.pid)
            report["analysed_s"] = ours.settled(data)
            report["analysed_cpu_s"] = (measured.spent_ms(service.pid) - spent) / 1e3
            say(f"every series analysed after {report['analysed_s']:.0f} s more, ")
            say(f"{report['analysed_cpu_s']:.0f} s CPU{_load()}\n")
            report["arrivals"] = arrived = [
                ours.arrival(made, service, benchmark, _series(data, "history", benchmark)[0]) for benchmark in made.new
            ]
            _told(report, arrived)
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            report["pages"] = _our_pages(browser, service, data, options.commits)
            for label, path in ((f"20 series x {options.commits:,}", _graph(data, 20)), (LONG, _long(data))):
                report["smooth"][label] = found = smooth.moved(browser, url + path)
                say(f"{label}: {smooth.told(found)}{_load()}\n")
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
    parser.add_argument("--benchmarks", type=int, default=100)
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--series", type=int, default=2000, help="of the grid")
    parser.add_argument("--no-asv", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", help="leave everything in this folder, which is emptied first")
    return parser.parse_args()


def _cost(cost: measured.Command) -> str:
    return f"{cost.wall_s:.1f} s wall, {cost.cpu_s:.1f} s CPU, {cost.peak_mb} MB at most{_load()}"


def _load() -> str:
    return f"  [load {os.getloadavg()[0]:.1f}]"


def _publish(report: dict[str, Any], *histories: history.History) -> list[Path] | None:
    """Publishes each; the first with its new results, which is what a new result costs: all is published again."""
    theirs.with_new_results(histories[0])
    report["asv publish"] = theirs.publish(histories[0])
    say(f"asv publish, with what is new {_cost(report['asv publish'])}\n")
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


def _told(report: dict[str, Any], arrived: list[ours.Arrival]) -> None:
    """The first finds caches cold and is told apart."""
    first, others = arrived[0], arrived[1:] or arrived

    def middle(name: str) -> str:
        values = sorted(getattr(one, name) for one in others)
        return f"{1e3 * statistics.median(values):.0f} ms ({1e3 * values[0]:.0f} to {1e3 * values[-1]:.0f})"

    say(f"one new result, median of {len(others)}: acknowledged after {middle('acknowledged_s')}, on its page after ")
    say(f"{middle('point_s')}, with its verdict after {middle('verdict_s')}; the service's CPU {middle('cpu_s')}; ")
    say(f"the first after its start {1e3 * first.verdict_s:.0f} ms; {arrived[-1].verdict}{_load()}\n")
    report["verdict_s"] = statistics.median(one.verdict_s for one in others)
    if "asv publish" in report:
        report["times_faster"] = report["asv publish"].wall_s / report["verdict_s"]
        spent = statistics.median(one.cpu_s for one in others)
        report["times_faster_cpu"] = report["asv publish"].cpu_s / spent
        say(f"asv publish takes {report['times_faster']:,.0f} times as long, ")
        say(f"and {report['times_faster_cpu']:,.0f} times the processor\n")


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


def _long(data: Path) -> str:
    query = "select s.id from series s join project p on p.id = s.project_id where p.slug = 'long' order by s.id"
    return f"/projects/long/series/{ours.query(data, query)[0][0]}"


def _our_pages(browser: Browser, service: ours.Service, data: Path, commits: int) -> dict[str, Any]:
    sha = ours.query(
        data,
        "select r.sha from revision r join project p on p.id = r.project_id where p.slug = 'wide' and r.position = 30",
    )
    pages = {
        "series of 1,000 points": (f"/projects/thousand/series/{_series(data, 'thousand', 1)[0]}", GRAPH_READY, 1),
        f"graph of 10 series x {commits:,}": (_graph(data, 10), GRAPH_READY, 1),
        f"graph of 20 series x {commits:,}": (_graph(data, 20), GRAPH_READY, 1),
        LONG: (_long(data), GRAPH_READY, 1),
        "grid": ("/projects/wide/benchmarks", ".card", 100),
        "commit with all of them": (f"/projects/wide/commits/{sha[0][0]}", "tbody tr", 100),
        "overview": ("/projects/history", "tbody tr", 1),
    }
    found = {}
    _head("groundspeed")
    with httpx.Client(base_url=service.url, timeout=60) as http:
        for label, (path, ready, least) in pages.items():
            served = measured.server(http, path, service.pid)
            shown = measured.page(browser, service.url + path, ready, least)
            found[label] = {**served._asdict(), **shown._asdict()}
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
    say(f"\n{title:<30}{'server ms':>14}{'cpu':>6}{'sent kB':>9}{'paint ms':>14}{'ready ms':>14}{'browser cpu':>13}")
    say(f"{'heap MB':>9}{'moved kB':>10}\n")


def _line(label: str, row: dict[str, Any]) -> None:
    def pair(name: str) -> str:
        return f"{row[f'{name}_ms']:.0f} ({row[f'{name}_best_ms']:.0f})"

    served = (
        "" if "server_ms" not in row else f"{pair('server'):>14}{row['server_cpu_ms']:>6.0f}{row['bytes'] / 1e3:>9.1f}"
    )
    shown = f"{pair('paint'):>14}{pair('ready'):>14}{row['browser_cpu_ms']:>13.0f}"
    say(f"{label:<30}{served:>29}{shown}{row['heap_mb']:>9.1f}{row['moved_kb']:>10.0f}{_load()}\n")


if __name__ == "__main__":
    sys.exit(main())
