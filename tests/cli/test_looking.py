"""Looking at what is stored from the command line: for people in tables, for programs in JSON, with statuses as promised."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from formats import trees
from groundspeed.cli import instance, main
from groundspeed.service.errors import GroundspeedError, Invalid


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one project of six commits, imported from an asv tree."""
    folder = tmp_path_factory.mktemp("looking")
    shas = trees.repository(folder / "repo", 6)
    trees.write_tree(folder / "results", shas)
    (folder / "shas").write_text("\n".join(shas))
    done = invoke("import", folder / "results", "-p", "demo", "--repo", folder / "repo", "--data", folder / "data",
                  "--no-analyse")  # fmt: skip
    assert done[0] == 0
    return folder / "data"


def shas(data: Path) -> list[str]:
    return (data.parent / "shas").read_text().split()


def invoke(*words: object) -> tuple[int, str]:
    """Exit status and standard output of the whole program."""
    if not main.app.registered_commands or all(c.name != "compare" for c in main.app.registered_commands):
        main._register()
    result = CliRunner().invoke(main.app, [str(w) for w in words])
    if isinstance(result.exception, GroundspeedError):
        raise result.exception
    return result.exit_code, result.stdout


def test_commits_and_one_commit_are_shown(data: Path) -> None:
    """All commits without a name; one with its values, in words and in JSON; names can be chosen."""
    code, text = invoke("show", "--data", data)
    assert code == 0
    assert all(sha[:10] in text for sha in shas(data))
    code, text = invoke("show", shas(data)[-2], "--data", data, "--bench", "time_plain")
    assert code == 0
    assert "suite.Time.time_plain/time" in text
    assert "time_grid" not in text
    page = json.loads(invoke("show", shas(data)[-2], "--json", "--data", data)[1])
    assert page["revision"]["sha"] == shas(data)[-2]
    assert len(page["results"]) > 3


def test_a_history_has_its_points(data: Path) -> None:
    """Points stand beside their commits; JSON holds all of them."""
    code, text = invoke("history", "suite.Time.time_plain/time", "--data", data, "-n", 2)
    assert code == 0
    assert shas(data)[-2][:10] in text
    assert shas(data)[0][:10] not in text
    drawn = json.loads(invoke("history", "suite.Time.time_plain", "--json", "--data", data)[1])
    assert len(drawn["series"][0]["points"]["value"]) == 5  # the last commit did not build


def test_two_commits_are_compared(data: Path) -> None:
    """Every series of either side, with values and ratio; what is chosen is what is listed."""
    first, last = shas(data)[0], shas(data)[-2]
    code, text = invoke("compare", first[:8], last[:9], "--data", data)
    assert code == 0
    assert "suite.Time.time_plain: time" in text
    assert "\x1b[" not in text
    rows = json.loads(invoke("compare", first, last, "--json", "--data", data, "-b", "time_plain")[1])["rows"]
    (row,) = rows
    assert row["effect"]["ratio"] == pytest.approx(row["head"] / row["base"])


def test_what_is_open_and_what_is_left_to_do(data: Path) -> None:
    """No regression was found, analysis is still due, and nobody runs that would do it: each command says so."""
    assert json.loads(invoke("regressions", "--json", "--data", data)[1])["rows"] == []
    code, text = invoke("regressions", "--check", "--data", data)
    assert code == 0
    assert "not searched for changes yet" in text
    assert "not searched for changes yet" in invoke("findings", "demo", "--data", data)[1]
    code, text = invoke("watch", "demo", "--json", "--once", "--data", data)
    assert (code, json.loads(text)["idle"]) == (0, False)
    with pytest.raises(GroundspeedError, match="no Groundspeed runs"):
        invoke("watch", "demo", "--data", data)
    with instance.only_one(data):
        code, text = invoke("watch", "demo", "--timeout", 0, "--data", data)
    assert code == 1
    assert "Not done" in text
    base = ("import", data.parent / "results", "-p", "demo", "--repo", data.parent / "repo")
    assert "They were" not in invoke(*base, "--data", data)[1]  # nothing new; what waited was searched all the same
    assert "not searched" not in invoke("findings", "demo", "--data", data)[1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("show", "feedface"), "no single commit"),
        (("compare", "tip", "feedface"), "no single commit"),
        (("compare", "a/b.json", "c/d.json"), "There is no file a/b.json"),
        (("compare", "nowhere", "tip", "--by", "environment"), "There is no environment"),
        (("history", "nosuch/metric"), "There is no series"),
        (("show", "tip", "--bench", "("), "no regular expression"),
        (("regressions", "77"), "There is no regression 77"),
        (("show", "--project", "other"), "There is no project"),
    ],
)
def test_what_is_not_there_is_said_with_what_to_do(data: Path, words: tuple[str, ...], says: str) -> None:
    """One sentence that names it."""
    with pytest.raises(GroundspeedError, match=says.replace("(", r"\(")):
        invoke(*words, "--data", data)


def hyperfine(path: Path, *seconds: float) -> Path:
    path.write_text(json.dumps({"results": [{"command": "sort", "mean": seconds[0], "times": list(seconds)}]}))
    return path


def test_two_files_are_compared_without_a_store(tmp_path: Path) -> None:
    """Samples of one process decide with a note; --check ends with 1 only when something is worse."""
    a = hyperfine(tmp_path / "a.json", 1.0, 1.01, 0.99, 1.0, 1.02, 1.0, 1.01)
    b = hyperfine(tmp_path / "b.json", 1.3, 1.31, 1.29, 1.3, 1.32, 1.3, 1.31)
    code, text = invoke("compare", a, b, "--check")
    assert code == 1
    assert "1 regressed" in text
    assert "one process" in text
    code, text = invoke("compare", b, a, "--check", "--json")
    (row,) = json.loads(text)["rows"]
    assert (code, row["answer"], row["basis"]) == (0, "improved", "samples")
    assert row["low"] < row["ratio"] < row["high"]
    assert invoke("compare", a, b, "--threshold", 0.5, "--check")[0] == 0
    assert json.loads(invoke("compare", a, a, "--json", "--only-changed")[1])["rows"] == []


def test_repeated_runs_in_folders_are_processes_and_a_missing_side_is_said(tmp_path: Path) -> None:
    """Four files a side are four processes; a benchmark of one side only is never called unchanged."""
    for side, factor in (("base", 1.0), ("head", 0.8)):
        (tmp_path / side).mkdir()
        for k in range(4):
            hyperfine(tmp_path / side / f"{k}.json", factor * (1 + 0.01 * k), factor)
    (tmp_path / "head/extra.csv").write_text("benchmark,value,unit\nnew,1,s\n")
    rows = json.loads(invoke("compare", tmp_path / "base", tmp_path / "head", "--json")[1])["rows"]
    answers = {row["benchmark"]: (row["answer"], row["basis"]) for row in rows}
    assert answers == {"sort": ("improved", "processes"), "new": ("never-compared", "")}
    text = invoke("compare", tmp_path / "base", tmp_path / "head", "--split")[1]
    assert "never-compared (1)" in text
    assert "n/a" in text
    sides = tuple(tmp_path / side / "own.csv" for side in ("base", "head"))
    for path in sides:  # what cannot be read beside what can, until its columns are named
        path.write_text("who,lat\na,1\n")
    text = invoke("compare", *(path.parent for path in sides))[1]
    assert "left out: own.csv:1: no known format" in text
    with pytest.raises(Invalid, match="There is no format nope"):
        invoke("compare", *sides, "--format", "nope")
    text = invoke("compare", *sides, "--map", "benchmark=who", "--map", "metric=lat:s")[1]
    assert "a: lat" in text


def test_values_with_a_spread_and_no_samples(tmp_path: Path) -> None:
    """asv's trees of before samples: the kept quartiles decide; one value alone decides nothing."""
    for name, value in (("a", 1.0), ("b", 1.5)):
        doc = {"commit_hash": "ab" * 20, "requirements": {}, "env_name": "e", "params": {"machine": "m"}, "version": 2,
               "result_columns": ["result", "params", "version", "stats_q_25", "stats_q_75", "stats_repeat"],
               "results": {"b.time_x": [[value], [], "v", [value - 0.01], [value + 0.01], [9]], "b.time_y": [[value], [], "v"]}}  # fmt: skip
        (tmp_path / f"{name}.json").write_text(json.dumps(doc))
    rows = json.loads(invoke("compare", tmp_path / "a.json", tmp_path / "b.json", "--json")[1])["rows"]
    assert {row["benchmark"]: (row["answer"], row["basis"]) for row in rows} == {
        "b.time_x": ("regressed", "spreads"),
        "b.time_y": ("inconclusive", ""),
    }


def test_known_noise_decides_where_each_side_is_one_process() -> None:
    """A step of many times the series' noise is called; one within it is not; unknown noise calls nothing."""
    from groundspeed.cli.comparing import _by_known_noise
    from groundspeed.service.wire.views import CompareRow, Effect, SeriesRef

    series = SeriesRef(id=1, suite="s", benchmark="p", version="1", target=None, metric="time", unit="s", direction=-1,
                       kind="time", gate=True, params={}, hardware="h", noise=0.01)  # fmt: skip
    effect = Effect(ratio=1.2, low=None, high=None, difference=0.2)
    row = CompareRow(series=series, base=1.0, head=1.2, base_count=1, head_count=1, effect=effect, answer="inconclusive",
                     reason="", mde=None, base_values=(1.0,), head_values=(1.2,))  # fmt: skip
    assert _by_known_noise(row).answer == "regressed"
    assert (
        _by_known_noise(row.model_copy(update={"series": series.model_copy(update={"noise": 0.2})})).answer
        == "inconclusive"
    )
    assert (
        _by_known_noise(row.model_copy(update={"series": series.model_copy(update={"noise": None})})).answer
        == "inconclusive"
    )
    faster = row.model_copy(update={"effect": effect.model_copy(update={"ratio": 0.8})})
    assert _by_known_noise(faster).answer == "improved"
    same = row.model_copy(update={"effect": effect.model_copy(update={"ratio": 1.001})})
    assert _by_known_noise(same).answer == "unchanged"


def test_completion_and_colours(tmp_path: Path) -> None:
    """Shells get a completion; a pipe gets no colours, whatever the terminal is called."""
    environ = os.environ | {
        "_GROUNDSPEED_COMPLETE": "complete_bash",
        "COMP_WORDS": "groundspeed comp",
        "COMP_CWORD": "1",
    }
    program = "import sys; sys.argv[0] = 'groundspeed'; from groundspeed.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)
    assert "compare" in done.stdout
    a = hyperfine(tmp_path / "a.json", 1.0, 1.0, 1.0, 1.0, 1.0)
    command = [sys.executable, "-m", "groundspeed.cli", "compare", str(a), str(a)]
    done = subprocess.run(
        command, env=os.environ | {"TERM": "xterm-256color"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
