"""The pages of pull requests, with what strangers wrote in them."""

from __future__ import annotations

from pathlib import Path

import httpx

from forge.office import Office
from groundspeed.service.db.engine import Database
from web_server import app, serve


def test_list_and_page_say_what_the_check_says(desk: Office, tmp_path: Path) -> None:
    slower = desk.open(1, title="<script>alert(1)</script> faster")
    desk.answer(slower, head=1.2)
    desk.say(slower, '/groundspeed accept "<b>wanted</b>"')
    strange = desk.open(2, fork=True)
    desk.tell(strange)
    desk.settle()
    with serve(app(Database(desk.db.url), tmp_path / "pages")) as url, httpx.Client(base_url=url, timeout=60) as http:
        listed = http.get("/projects/toy/pulls")
        assert listed.status_code == 200
        assert "<script>alert" not in listed.text
        assert "&lt;script&gt;" in listed.text
        page = http.get("/projects/toy/pulls/1").text
        assert "<b>wanted" not in page
        assert "+20" in page
        assert "/groundspeed run train" in page
        model = http.get("/api/v1/projects/toy/pulls/1").json()
        assert (model["row"]["headline"], model["row"]["conclusion"]) == ("regressed", "neutral")
        assert model["metrics"][0]["ratio"] > 1.15
        waiting = http.get("/projects/toy/pulls/2").text
        assert f"/groundspeed approve {strange.head_sha[:12]}" in waiting
        assert http.get("/projects/toy/pulls/99").status_code == 404
        assert http.get("/api/v1/projects/toy/pulls/99999999999999999999").status_code == 422
