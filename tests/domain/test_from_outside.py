"""``groundspeed detect`` and ``groundspeed gate`` on files that come from anywhere."""

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from domain_series import values
from groundspeed.cli.detect import detect
from groundspeed.cli.gate import gate

APP = typer.Typer()
APP.command()(detect)
APP.command()(gate)


def call(command, text, *more, path=None):
    """Run the command; returns (status, what it printed, what it said on standard error)."""
    done = CliRunner().invoke(APP, [command, *([str(path)] if path else []), *more], input=text)
    return done.exit_code, done.stdout, done.stderr


def line(name, y, **more):
    points = [{"x": i, "values": [float(v), float(v) * 1.001] if v == v else []} for i, v in enumerate(y)]  # noqa: PLR0124
    return json.dumps({"series": name, "unit": "s", "direction": -1, "points": points, **more})


def test_detect_prints_a_json_line_a_series_and_refuses_bad_lines_by_number(tmp_path):
    """Good lines are answered in order, each bad one is told by number, and the status is 2."""
    text = "\n".join(
        [
            line("step", values(120, [(70, 1.1)], 0.01, 1)),
            "not JSON",
            line("flat", values(120, (), 0.01, 2)),
            '{"series": "bad", "points": [{"x": 1, "values": ["fast"]}]}',
            '{"series": "order", "points": [{"x": 2, "values": [1]}, {"x": 1, "values": [1]}]}',
            '{"series": "none", "points": []}',
        ]
    )
    path = tmp_path / "series.jsonl"
    path.write_text(text)
    status, out, err = call("detect", "", "--json", path=path)
    assert status == 2
    rows = [json.loads(row) for row in out.splitlines()]
    assert [r["series"] for r in rows] == ["step", "flat", "none"]
    (change,) = rows[0]["change_points"]
    assert change["x"] == 70
    assert change["interval"][0] < 1.1 < change["interval"][1]
    assert change["provisional"] is False
    assert rows[0]["class"] == "steady"
    assert rows[1]["change_points"] == []
    assert [f"line {n} " in err for n in (1, 2, 3, 4, 5, 6)] == [False, True, False, True, True, False]
    assert "Traceback" not in err
    status, again, _ = call("detect", line("step", values(120, [(70, 1.1)], 0.01, 1)), "--json")
    assert (status, json.loads(again)) == (0, rows[0])


def test_a_missing_file_is_one_clear_sentence(tmp_path):
    """No traceback, and a status that scripts see."""
    args = [sys.executable, "-m", "groundspeed.cli", "detect", str(tmp_path / "nowhere.jsonl")]
    done = subprocess.run(args, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 2
    assert "nowhere.jsonl" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("factor", "answer"), [(1.05, "regressed"), (0.95, "improved"), (1.0, "unchanged")])
def test_gate_answers_from_standard_input(factor, answer):
    """Answer, effect, interval and MDE of six pairs."""
    base = values(6, (), 0.001, 3)
    head = values(6, (), 0.001, 4) * factor
    row = {"base": [[v] for v in base], "head": [[v] for v in head], "pairs": True, "threshold": 0.01}
    status, out, err = call("gate", json.dumps(row), "--json")
    assert (status, err) == (0, "")
    told = json.loads(out)
    assert told["answer"] == answer
    assert told["interval"][0] <= told["effect"] <= told["interval"][1]
    assert 0 < told["mde"] < 0.02
    assert call("gate", json.dumps(row), "--check")[0] == (1 if answer == "regressed" else 0)


@pytest.mark.parametrize(
    "text",
    [
        '{"base": 3, "head": []}',
        '{"base": [[1]]}',
        '{"base": [[1]], "head": [["x"]]}',
        "[]",
        '{"base": [], "head": [], "threshold": "x"}',
    ],
)
def test_gate_refuses_what_it_can_not_read(text):
    """Each says its line number, what is wrong, and nothing else."""
    status, out, err = call("gate", text, "--json")
    assert (status, out) == (2, "")
    assert "line 1 " in err
    assert "Traceback" not in err


def test_gate_with_an_empty_side_was_never_compared():
    """No data is not no change."""
    status, out, _ = call("gate", '{"base": [], "head": [[1.0]]}', "--json")
    assert (status, json.loads(out)["answer"]) == (0, "never-compared")
