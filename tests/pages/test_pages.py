"""Every page, as it reads without any script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import statistics
from html.parser import HTMLParser
from typing import Any

import pytest
from sqlmodel import Session, col, select

from groundspeed.plugins.protocol import ChildSpec
from groundspeed.service.api.routes.views import VIEWS, ViewRoute
from groundspeed.service.db import tables as t
from groundspeed.service.pages import render
from groundspeed.service.wire import views as v
from page_addresses import addresses

from .conftest import Site


class Links(HTMLParser):
    """Addresses and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.scripts: list[dict[str, str | None]] = []
        self.words: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag == "a":
            self.hrefs.append(dict(attrs).get("href") or "")
        if tag == "script":
            self.scripts.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.path)
def test_a_page_is_made_from_the_json_of_its_route_alone(site: Site, view: ViewRoute) -> None:
    """The HTML of a page equals the template over the model that its API route sends."""
    path = addresses(site.demo)[view.path]
    api = "/api/v1" + (path if path != "/" else "/projects")
    model: v.View = view.model.model_validate_json(site.http.get(api).content)
    ours = render.render(view.template, model, path=path.partition("?")[0])
    assert _steady(ours) == _steady(site.html(path))


def _steady(text: str) -> str:
    return re.sub(r'(id="data">).*?</script>', r"\1", text, flags=re.DOTALL)


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.path)
def test_no_page_has_inline_script_style_or_foreign_address(site: Site, view: ViewRoute) -> None:
    """A strict content security policy costs nothing, because there is nothing that it would block: of styles in the
    page it names the one that is ours, by its hash.
    """
    reply = site.http.get(addresses(site.demo)[view.path])
    policy = reply.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    styles = re.findall(r"<style>(.*?)</style>", reply.text, re.DOTALL)
    hashes = re.findall(r"'sha256-([^']+)'", policy)
    assert [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in styles] == hashes
    page = Links(reply.text)
    assert all(s.get("src") or s.get("type") == "application/json" for s in page.scripts)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "style"]
    assert not [value for name, value in page.attributes if name == "src" and value and value.startswith("http")]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.path)
def test_an_unchanged_answer_is_not_sent_twice(site: Site, view: ViewRoute) -> None:
    path = addresses(site.demo)[view.path]
    for address in (path, "/api/v1" + (path if path != "/" else "/projects")):
        first = site.http.get(address)
        again = site.http.get(address, headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_every_kind_of_link_of_every_page_leads_somewhere(site: Site) -> None:
    """From page to page, as somebody clicks who sees each kind of address once: all of them answer."""
    kinds: dict[str, str] = {}
    waiting = list(addresses(site.demo).values())
    while waiting:
        address = waiting.pop().partition("#")[0]
        kind = re.sub(r"[0-9a-f]{40}|[0-9a-f]{12}|\d+", "#", re.sub(r"=[^&]*", "=", address))
        if kind in kinds:
            continue
        kinds[kind] = address
        reply = site.http.get(address)
        assert reply.status_code == 200, (address, reply.text[:300])
        if reply.headers["content-type"].startswith("text/html"):
            waiting += [href for href in Links(reply.text).hrefs if href.startswith("/")]
    assert len(kinds) > 60


def test_every_way_of_looking_at_regressions_leads_to_a_list(site: Site) -> None:
    """All that the page offers: kinds, states, those ignored for a time, the feed, and the same as JSON."""
    hrefs = Links(site.html("/projects/tinygpt/regressions")).hrefs
    offered = {href for href in hrefs if "/regressions?" in href or href.endswith(".atom")}
    assert len(offered) > 12
    for href in offered:
        assert site.http.get(href).status_code == 200, href


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.path)
def test_a_page_leads_to_its_json(site: Site, view: ViewRoute) -> None:
    path = addresses(site.demo)[view.path]
    (link,) = [href for href in Links(site.html(path).split("<footer>")[1]).hrefs if href.startswith("/api/")]
    assert site.http.get(link).status_code == 200


def test_the_series_page_names_the_change_and_links_each_point_to_commit_and_run(site: Site) -> None:
    """The slow series reads as a table: the commit of the step, its effect with interval, a link to commit and run."""
    page = site.html("/projects/tinygpt/series/1")
    slow = site.demo.shas[int(0.62 * len(site.demo.shas))]
    links = Links(page)
    changes = page.split("<h2>Changes")[1].split("<h2>Points")[0]
    assert slow[:10] in changes
    assert "−16.0" in changes
    assert "…" in changes
    points = page.split("<h2>Points")[1]
    rows = re.findall(r"<tr.*?</tr>", points, flags=re.DOTALL)[1:]
    graph = v.Graph.model_validate_json(site.http.get("/api/v1/projects/tinygpt/series/1").content)
    assert len(rows) == render.POINTS < len(graph.series[0].points.value) == len(site.demo.shas)
    older = site.html("/projects/tinygpt/series/1" + next(one for one in links.hrefs if one.startswith("?to=")))
    rows += re.findall(r"<tr.*?</tr>", older.split("<h2>Points")[1], flags=re.DOTALL)[1:]
    assert [row for row in rows if slow[:10] in row]
    assert len(rows) == len(site.demo.shas)
    assert all("/commits/" in row and 'href="/runs/' in row for row in rows)
    assert '<path class="arrow regression confirmed"' in page
    assert f"/projects/tinygpt/regressions/{graph.series[0].changes[-1].regression}" in links.hrefs


def test_the_value_of_a_point_is_the_median_of_its_processes(site: Site) -> None:
    graph = v.Graph.model_validate_json(site.http.get("/api/v1/projects/tinygpt/series/1").content)
    points = graph.series[0].points
    several = next(i for i, count in enumerate(points.count) if count > 1)
    revision = graph.revisions.id[points.revision[several]]
    with Session(site.db.engine) as session:
        query = select(t.Result.value).where(col(t.Result.series_id) == 1, col(t.Result.revision_id) == revision)
        values = sorted(session.exec(query))
    assert points.value[several] == pytest.approx(statistics.median(values))
    assert (points.low[several], points.high[several]) == (values[0], values[-1])


def test_the_grid_finds_and_sorts(site: Site) -> None:
    grid = json.loads(site.http.get("/api/v1/projects/tinygpt/benchmarks?q=latency_p50&sort=change&batch=16").content)
    assert grid["total"] == len(grid["cards"]) == 2
    assert all(card["series"]["params"]["batch"] == 16 for card in grid["cards"])
    every = json.loads(site.http.get("/api/v1/projects/tinygpt/benchmarks?sort=change&limit=7").content)
    sizes = [abs(card["last_change"]["ratio"] - 1) for card in every["cards"]]
    assert sizes == sorted(sizes, reverse=True)
    rest = json.loads(
        site.http.get(
            f"/api/v1/projects/tinygpt/benchmarks?sort=change&limit=500&cursor={every['next_cursor']}"
        ).content
    )
    assert len(every["cards"]) + len(rest["cards"]) == every["total"] == len(site.demo.series)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/projects/empty", "Nothing has been measured yet"),
        ("/projects/empty/benchmarks", "Nothing has been measured yet"),
        ("/projects/empty/regressions", "None that is open"),
        ("/projects/empty/runs", "Nothing has been asked for yet"),
        ("/projects/empty/compare", "Choose a base and a head"),
        ("/projects/tinygpt/benchmarks?q=nosuchthing", "No series matches"),
        ("/projects/tinygpt/compare?base=ffffffff&head=eeeeeeee", "There is no revision"),
        ("/search?q=nosuchthing", "Nothing found"),
    ],
)
def test_an_empty_page_says_what_is_missing(site: Site, path: str, words: str) -> None:
    assert words in Links(site.html(path)).text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/projects/nosuch", 404),
        ("/projects/tinygpt/series/999999", 404),
        ("/projects/kernels/series/1", 404),
        ("/projects/tinygpt/series/x", 422),
        ("/projects/tinygpt/graph", 422),
        ("/projects/tinygpt/graph?series=1;drop", 422),
        ("/projects/tinygpt/graph?series=" + "9" * 30, 422),
        ("/projects/tinygpt/graph?series=1&from=-1", 422),
        ("/projects/tinygpt/commits/zz", 404),
        ("/projects/tinygpt/regressions/99999", 404),
        ("/runs/99999999999999999999", 422),
        ("/jobs/0", 404),
        ("/fleet/nobody", 404),
        ("/assets/none.js", 404),
    ],
)
def test_a_wrong_address_is_answered_in_words(site: Site, path: str, status: int) -> None:
    """As a page to people, as a problem to programs; never with a trace."""
    reply = site.http.get(path)
    assert reply.status_code == status
    assert reply.headers["content-type"].startswith("text/html")
    assert "Traceback" not in reply.text
    if not path.startswith("/assets"):
        assert site.http.get("/api/v1" + path).status_code == status


def test_csv_holds_every_point_and_no_formula(site: Site) -> None:
    text = site.http.get("/api/v1/projects/tinygpt/graph.csv?series=1,2").text
    lines = text.strip().split("\r\n")
    assert len(lines) == 1 + 2 * len(site.demo.shas)
    assert lines[0].startswith("series,suite,metric")
    assert not [cell for line in lines for cell in line.split(",") if cell.startswith(("=", "@", "+"))]


def test_samples_can_be_had_raw(site: Site) -> None:
    cloud = v.SampleCloud.model_validate_json(
        site.http.get("/api/v1/projects/tinygpt/series/1/samples?from=70").content
    )
    assert len(cloud.value) == len(cloud.revision) == len(cloud.state) >= 9 * 24
    assert set(cloud.state) == {"valid", "degraded"}
    assert set(cloud.revision) == set(site.demo.shas[70:])


def test_a_failed_process_shows_its_evidence(site: Site) -> None:
    at = site.demo.shas[len(site.demo.shas) // 4]
    page = site.html(f"/projects/tinygpt/commits/{at}")
    assert "CUDA out of memory" in page
    run = re.search(r'href="/runs/(\d+)"', page.split("<h2>Failed")[1])
    assert run
    assert "Traceback (most recent call last)" in site.html(f"/runs/{run[1]}")


def test_a_comparison_answers_each_series(site: Site) -> None:
    d = site.demo
    slow = int(0.62 * len(d.shas))
    compared: dict[str, Any] = site.http.get(
        f"/api/v1/projects/tinygpt/compare?base={d.shas[slow - 1]}&head={d.shas[slow]}"
    ).json()
    by_metric = {(row["series"]["metric"], row["series"]["hardware"]): row for row in compared["rows"]}
    worse = [row for (metric, _), row in by_metric.items() if metric in {"samples_per_second", "step_time"}]
    assert worse
    assert {row["answer"] for row in worse} == {"regressed"}
    assert sum(compared["counts"].values()) == len(compared["rows"])
    nodes = site.http.get(f"/api/v1/projects/tinygpt/compare?by=node&base={d.nodes[0]}&head={d.nodes[1]}").json()
    assert {"driver"} <= {facet["name"] for facet in nodes["environment"]}
    assert {row["answer"] for row in nodes["rows"]} == {"never-compared"}


def test_hostile_text_is_shown_and_does_nothing(site: Site) -> None:
    """A commit title, a parameter and a log line with markup in them come out escaped, in HTML and in data blocks."""
    log = site.html(f"/jobs/{site.demo.jobs[-4]}")
    assert "&lt;b&gt;fused&lt;/b&gt;" in log
    model = v.SearchResults(query="</script><script>alert(1)</script>", hits=())
    page = render.render("search.html", model, path="/search")
    assert "<script>alert" not in page
    graph = v.Graph.model_validate_json(site.http.get("/api/v1/projects/tinygpt/series/1").content)
    titles = tuple("</script><img src=x onerror=alert(1)>" for _ in graph.revisions.title)
    hostile = graph.model_copy(update={"revisions": graph.revisions.model_copy(update={"title": titles})})
    drawn = render.render("graph.html", hostile, path="/x")
    assert "<img" not in drawn
    assert len(re.findall("</script>", drawn)) == len(re.findall("<script", drawn))


def test_the_command_to_repeat_a_run_starts_the_same_process(site: Site) -> None:
    """What the page says to pipe into the child is a specification that the child reads, with the run's parameters."""
    run = site.http.get("/api/v1/runs/1").json()
    lines = run["repeat"].split("\n")
    assert lines[0] == f"git checkout {run['run']['revision']['sha']}"
    words = shlex.split(lines[1])
    assert words[:1] + words[2:] == ["echo", "|", "python", "-m", "groundspeed.plugins.child"]
    spec = ChildSpec.from_json(words[1])
    assert (spec.plugin, dict(spec.params), spec.target) == (run["plugin"], run["params"], "benchmarks.train:make")
