"""A campaign on its page, as a page to print, as CSV, and decided about from there."""

from __future__ import annotations

import csv
import io

from .conftest import Site


def test_the_page_says_why_it_is_held_and_what_each_node_has(site: Site) -> None:
    page = site.html("/campaigns/driver-580")
    assert "gpu-01: it came back with settings lost" in page
    assert "fabric: bus_bandwidth is 9.4% worse there" in page
    assert "gpu1 (GPU-1) is 8.0% worse than its peers in gemm: throughput (compute), before and after alike." in page
    assert "Before the &lt;move&gt; to CUDA 13" in page
    assert "Go on to the next phase" in page


def test_the_page_to_print_stands_alone(site: Site) -> None:
    reply = site.http.get("/campaigns/driver-580/report.html")
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert "<script" not in reply.text
    assert 'href="' not in reply.text
    assert "a million samples" in reply.text


def test_the_csv_has_a_line_for_each_metric_node_and_device(site: Site) -> None:
    rows = list(csv.DictReader(io.StringIO(site.http.get("/api/v1/campaigns/driver-580/report.csv").text)))
    kinds = [row["kind"] for row in rows]
    assert (kinds.count("metric"), kinds.count("device")) == (2, 1)
    assert kinds.count("node") == len(site.http.get("/api/v1/fleet").json()["nodes"])


def test_an_unknown_campaign_is_said_with_those_there_are(site: Site) -> None:
    reply = site.http.get("/campaigns/none")
    assert reply.status_code == 404
    assert "There are: driver-580" in reply.text
    assert site.http.get("/api/v1/campaigns/none").json()["type"] == "not-found"


def test_a_decision_that_cannot_be_is_refused_in_words(site: Site) -> None:
    path = "/api/v1/campaigns/driver-580/decide"
    reply = site.http.post(path, json={"action": "resume"})
    assert (reply.status_code, reply.json()["title"]) == (409, "Campaign 'driver-580' is held, not aborted.")
    assert site.http.post(path, json={"action": "dance"}).status_code == 422
    foreign = site.http.post(
        "/campaigns/driver-580", data={"action": "abort"}, headers={"origin": "http://evil.example"}
    )
    assert foreign.status_code == 403


def test_a_campaign_is_begun_from_the_page_or_refused_in_words(site: Site) -> None:
    assert 'action="/campaigns"' in site.html("/campaigns")
    form = {"name": "nccl-tree", "project": site.demo.slug, "change": "env.NCCL_ALGO=Tree"}
    for wrong, status, words in (
        ({"change": "nothing"}, 422, "Write NAME=VALUE"),
        ({"waves": "all"}, 422, "Write shares with commas"),
        ({"where": "rack"}, 422, "Write NAME=VALUE"),
        ({"hook": "reboot"}, 422, "There is no hook"),
        ({"project": "none"}, 404, "none"),
        ({"canary": "0"}, 422, "canary"),
    ):
        reply = site.http.post("/campaigns", data=form | wrong, headers={"origin": site.url})
        assert (reply.status_code, words in reply.text) == (status, True), (wrong, reply.status_code, reply.text[-600:])
    foreign = site.http.post("/campaigns", data=form, headers={"origin": "http://evil.example"})
    assert foreign.status_code == 403


def test_wrong_campaigns_are_refused_by_the_api(site: Site) -> None:
    body = {"name": "x", "project": "tinygpt", "wanted": {"gpu.driver": "580"}}
    for wrong in ({"wanted": {}}, {"waves": [2]}, {"canary": 0}, {"hold": "maybe"}, {"surprise": 1}):
        assert site.http.post("/api/v1/campaigns", json=body | wrong).status_code == 422, wrong
    reply = site.http.post("/api/v1/events", json={"title": "BIOS changed", "node": "nope"})
    assert (reply.status_code, reply.json()["title"]) == (404, "There is no node nope.")


def test_code_or_environment_is_told_of_each_step_of_a_regression(site: Site) -> None:
    path = f"/api/v1/projects/{site.demo.slug}/regressions"
    rows = [row for number in site.demo.regressions for row in site.http.get(f"{path}/{number}/cause").json()["rows"]]
    assert rows
    assert all(row["reason"] for row in rows)
    assert site.http.get(f"{path}/99999/cause").status_code == 404
