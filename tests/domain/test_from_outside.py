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


GOOD = line("good", values(120, [(70, 1.1)], 0.01, 1))
X1 = '{"series": "a", "points": [{"x": 1, "values": [1]}'


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (GOOD.encode("utf-16"), "is not UTF-8 text"),
        (b'{"series": "\xff"}', "is not UTF-8 text"),
        (b"\x00\x00", "is not JSON"),
        (b"[" * 50_000, "nested too deeply"),
        (b"{}", "has no 'points'"),
        (b"[]", "holds a list"),
        (f"{X1}, {{}}]}}".encode(), "has no 'x'"),
        (f'{X1}, {{"x": 1, "values": [2]}}]}}'.encode(), "has x = 1 after x = 1"),
        (f'{X1}, {{"x": 0, "values": [2]}}]}}'.encode(), "has x = 0 after x = 1"),
        (f'{X1}, {{"x": "2", "values": [2]}}]}}'.encode(), "has a text for 'x'"),
        (f'{X1}, {{"x": 2.5, "values": [2]}}]}}'.encode(), "it is a whole number"),
        (f'{X1}, {{"x": 1{"0" * 30}, "values": [2]}}]}}'.encode(), "it is a whole number"),
        (f'{X1}, {{"x": 2, "values": 2}}]}}'.encode(), "has a number for 'values'"),
        (f'{X1}, {{"x": 2, "values": [{"9" * 5000}]}}]}}'.encode(), "too many digits"),
        (f'{X1}, {{"x": 2, "values": [1{"0" * 400}]}}]}}'.encode(), "too large"),
        (f'{X1}, {{"x": 2, "values": [true]}}]}}'.encode(), "has true or false in the values of point 1"),
        (f'{X1}], "direction": 2}}'.encode(), "it is -1, 0 or 1"),
        (f'{X1}], "direction": "lower"}}'.encode(), "has a text for 'direction'"),
    ],
)
def test_each_kind_of_bad_line_is_told_by_number_and_the_good_ones_are_answered(data, words):
    """The bad line comes first, so that what follows shows that reading went on."""
    done = CliRunner().invoke(APP, ["detect", "--json"], input=data + b"\n" + GOOD.encode() + b"\n")
    said = done.stderr.splitlines()
    assert done.exit_code == 2
    assert words in said[0]
    assert said[0].startswith("groundspeed: line 1 ")
    if not data.startswith(b"\xff\xfe"):  # UTF-16 has line feeds of its own
        assert [json.loads(row)["series"] for row in done.stdout.splitlines()] == ["good"]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte-order mark"])
def test_line_ends_and_a_byte_order_mark_do_not_matter(ending, mark):
    """What Windows programs write reads the same; empty lines are passed over; no lines are no error."""
    text = mark + (GOOD + ending + ending + GOOD + ending).encode()
    done = CliRunner().invoke(APP, ["detect", "--json"], input=text)
    assert (done.exit_code, done.stderr) == (0, "")
    rows = [json.loads(row) for row in done.stdout.splitlines()]
    assert [[c["x"] for c in row["change_points"]] for row in rows] == [[70], [70]]
    assert CliRunner().invoke(APP, ["detect"], input=mark).exit_code == 0


def test_extreme_values_are_answered():
    """Huge, tiny, negative, mixed and missing numbers, and names that a terminal must not see."""
    rows = [
        line("huge", [1e308, 1e-308, 5e-324] * 20),
        line("below zero", [-1.0 - 0.001 * (i % 3) for i in range(60)] + [-2.0 - 0.001 * (i % 3) for i in range(60)]),
        line("missing", [float("nan")] * 50),
        '{"series": "\\u001b[31m\\ud800\\n", "points": [{"x": -5, "values": [NaN, Infinity, null, 1]}]}',
    ]
    status, out, err = call("detect", "\n".join(rows), "--json")
    assert (status, err) == (0, "")
    found = [json.loads(row) for row in out.splitlines()]
    assert [c["x"] for c in found[1]["change_points"]] == [60]
    assert found[1]["change_points"][0]["kind"] == "improvement"
    assert found[2]["class"] == "unknown"
    assert "\x1b" not in call("detect", rows[3])[1]


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
    for text in ('{"base": [[], []], "head": [[1.0]]}', '{"base": [[-1.0]], "head": [[1.0]]}'):
        assert json.loads(call("gate", text, "--json")[1])["answer"] == "never-compared"


def test_gate_follows_the_direction():
    """Where higher is better, more is an improvement."""
    row = {"base": [[1.0]] * 5, "head": [[1.1]] * 5, "direction": 1}
    assert json.loads(call("gate", json.dumps(row), "--json")[1])["answer"] == "improved"
    assert json.loads(call("gate", json.dumps(row | {"direction": 0}), "--json")[1])["answer"] == "changed"
