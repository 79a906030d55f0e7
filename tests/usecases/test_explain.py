"""Any point of a stored series is explained in words, by the names that people use, on every way in."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import numpy as np
import pytest
from sqlalchemy import update
from typer.testing import CliRunner

from groundspeed.cli import main as cli
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Conflict, Invalid, NotFound
from groundspeed.service.usecases import explain, naming
from groundspeed.service.usecases.analyse import analyse_dirty
from web_server import app, serve
from world import NOW, World, run, samples, sha

LATER = NOW + timedelta(hours=1)


@pytest.fixture
def world(sqlite_database: Database) -> World:
    """Sixty commits, slower from the thirtieth on; the fortieth ran out of memory, the fiftieth was never measured."""
    world = World(sqlite_database)
    world.commits(60)
    rng = np.random.default_rng(5)
    for x in range(60):
        if x == 40:
            world.report(world.attempt(world.job(world.revisions[x])), run(outcome="oom", samples=[]))
        elif x != 50:
            world.measure(world.revisions[x], time=(1.2 if x >= 30 else 1.0) * float(np.exp(0.003 * rng.normal())))
    with world.db.transaction() as session:
        session.execute(update(t.Revision).where(t.Revision.id == world.revisions[30]).values(tags=["v1.4"]))
    analyse_dirty(world.db, LATER)
    return world


def words(world: World, commit: str, series: str = "train/time") -> str:
    return " ".join(explain.explain(world.db, series, commit).sentences)


def test_each_kind_of_point_has_its_words(world: World) -> None:
    flagged = words(world, "v1.4")
    assert "It is a regression" in flagged
    assert "standard errors" in flagged
    assert "It belongs to regression 1 (train: time +" in flagged
    quiet = words(world, sha("True-10"))
    assert "No step begins here" in quiet
    assert "Were there a step, it would be of" in quiet
    assert f"The next one after it is at commit {sha('True-30')[:10]}" in quiet
    assert "has no number: oom. That is not the same as no change." in words(world, sha("True-40")[:8])
    assert "was not measured. That is not the same as no change." in words(world, sha("True-50"))
    assert words(world, "tip") == words(world, sha("True-59"))
    assert explain.explain(world.db, "1", "v1.4").flagged
    assert not explain.explain(world.db, "train/time/b=1", "tip").flagged


def test_a_withdrawn_suspicion_and_a_gates_verdict_are_told(world: World) -> None:
    head = world.add(t.Revision(project_id=world.project, sha="abcd" * 10, committed_at=NOW, title="Faster"))
    job = world.job([world.revisions[0], head])
    world.add(
        t.Verdict(
            job_id=job, series_id=1, base_revision_id=world.revisions[0], head_revision_id=head, answer="improved",
            ratio=0.9, ratio_low=0.89, ratio_high=0.91, mde=0.02, pairs=5, detail={"method": "t"},
        )
    )  # fmt: skip
    [said] = explain.explain(world.db, "1", "abcd").sentences
    assert said.startswith(f"Gate against {sha('True-0')[:12]} (job {job}): Improved: head over base is -10.00%")
    with world.db.transaction() as session:
        session.execute(update(t.ChangePoint).values(state="withdrawn"))
    assert "withdrawn: more measurements did not bear it out" in words(world, "v1.4")


NAMES_OF_NOTHING = [
    ("99", "tip", "no series '99'"),
    ("99999999999999999999", "tip", "no series"),
    ("train/speed", "tip", "suite/metric"),
    ("train/time/b=2", "tip", "no series"),
    ("train/time", "ffffffff", "no single commit"),
    ("train/time", "0", "four or more characters"),
    ("train/time", "%_'\\", "no single commit"),
]


def test_names_that_name_nothing_are_told(world: World) -> None:
    for series, commit, says in NAMES_OF_NOTHING:
        with pytest.raises(NotFound) as raised:
            explain.explain(world.db, series, commit)
        assert says in str(raised.value)


def test_a_name_of_several_series_lists_them(world: World) -> None:
    world.report(world.attempt(world.job(world.revisions[0], ("b=2",))), run("b=2", samples=[samples("time", 1.0)]))
    with pytest.raises(Conflict, match=r"1: train/time/b=1 on H200 \(tiny\); 2: train/time/b=2"):
        explain.explain(world.db, "train/time", "tip")
    assert explain.explain(world.db, "train/time/b=2", "tip").series_id == 2
    with pytest.raises(Invalid, match="SERIES@COMMIT"):
        naming.split("train/time")


@pytest.fixture
def api(world: World, tmp_path: Path) -> Iterator[httpx.Client]:
    with serve(app(Database(world.db.url), tmp_path / "data")) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client


def test_the_api_and_the_command_line_say_the_same(
    world: World, api: httpx.Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reply = api.get("/api/v1/projects/tiny/explain", params={"series": "train/time", "commit": "v1.4"})
    assert reply.status_code == 200, reply.text
    assert reply.json()["flagged"] is True
    assert " ".join(reply.json()["sentences"]) == words(world, "v1.4")
    assert api.get("/api/v1/projects/tiny/explain", params={"series": "x", "commit": "tip"}).status_code == 404
    assert api.get("/api/v1/projects/tiny/explain", params={"series": "1"}).status_code == 422
    monkeypatch.setenv("GROUNDSPEED_DATABASE_URL", world.db.url)
    cli._register()
    said = CliRunner().invoke(cli.app, ["explain", "train/time@v1.4", "--data", str(tmp_path / "d")])
    assert said.exit_code == 0, said.output
    for sentence in reply.json()["sentences"]:
        assert sentence in said.stdout
    assert f"commit {sha('True-30')[:12]} Commit 30" in said.stdout


def test_bisections_over_the_api(world: World, api: httpx.Client) -> None:
    """The flagged step's two ends lie next to each other: there is nothing between, and it needs only the ends."""
    began = api.post("/api/v1/projects/tiny/bisections", json={"series": "train/time"})
    assert began.status_code == 201, began.text
    assert (began.json()["outcome"], began.json()["left"], began.json()["created"]) == ("open", 0, True)
    assert "Both ends are measured first" in began.json()["words"]
    number = began.json()["request_id"]
    jobs = [job for job in world.all(t.Job) if job.request_id == number]
    assert [(job.reason, job.spec["benchmarks"][0]["replicates"]) for job in jobs] == [("bisect", 2), ("bisect", 2)]
    again = api.post("/api/v1/projects/tiny/bisections", json={"series": "1"})
    assert (again.json()["request_id"], again.json()["created"]) == (number, False)
    assert api.get(f"/api/v1/bisections/{number}").json() == again.json()
    assert api.get("/api/v1/bisections/99").status_code == 404
    for body, says in (
        ({"series": "1", "good": sha("True-3")}, "Only one end"),
        ({"series": "1", "good": sha("True-9"), "bad": sha("True-3")}, "does not come before"),
        ({"series": "1", "good": sha("True-3"), "bad": "ffffffff"}, "no single commit"),
        ({"series": "1", "replicates": 0}, "replicates"),
    ):
        reply = api.post("/api/v1/projects/tiny/bisections", json=body)
        assert reply.status_code in {404, 422}, reply.text
        assert says in reply.text
