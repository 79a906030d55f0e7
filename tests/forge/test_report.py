"""What a pull request is told."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundspeed.service.domain.pulls.report import Report, Row, conclusion
from groundspeed.service.forge.render import LIMIT, MARKER, body, comment, headline

BASE, HEAD, URL = "a" * 40, "b" * 40, "https://speed.example/p/tiny/pull/3"
SLOWER = Row(
    "regressed", "train[batch=8]", "step_time", 0.032, 0.028, 0.037, 0.004, url=URL, repeat="groundspeed run x"
)
SAME = Row("unchanged", "infer", "latency_p50", 0.0004, -0.002, 0.003, 0.005)


def done(*rows: Row, accepted: str = "") -> Report:
    return Report("done", BASE, HEAD, URL, rows, accepted=accepted)


def test_the_first_line_says_verdict_number_and_what_could_have_been_seen() -> None:
    assert headline(done(SLOWER, SAME)) == "1 slower. 2 metrics compared; a change of 0.50 % or more would have shown"


def test_a_row_carries_effect_interval_link_and_one_command_to_repeat() -> None:
    text = comment(done(SLOWER))
    assert text.startswith(MARKER)
    assert "**+3.2 %**" in text
    assert "+2.8 % … +3.7 %" in text
    assert f"]({URL})" in text
    assert "`groundspeed run x`" in text


def test_noise_is_folded_to_a_count() -> None:
    text = comment(done(SLOWER, SAME))
    assert "latency" not in text
    assert "1 unchanged" in text


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (done(SAME), "success"),
        (done(SLOWER), "failure"),
        (done(SLOWER, accepted="more work"), "neutral"),
        (done(), "neutral"),
        (done(Row("never-compared", "x", "y", reason="no baseline")), "neutral"),
        (done(SAME, Row("never-compared", "x", "y", reason="no baseline")), "neutral"),
        (done(SAME, Row("failing", "x", "y", reason="CUDA out of memory")), "failure"),
        (done(SAME, Row("improved", "x", "y", -0.1, -0.12, -0.08)), "success"),
        (Report("approval", BASE, HEAD, URL), "action_required"),
        (Report("nothing-to-measure", BASE, HEAD, URL), "neutral"),
        (Report("running", BASE, HEAD, URL), None),
    ],
)
def test_how_the_check_ends(report: Report, expected: str | None) -> None:
    """Zero compared is never a success, and an improvement never a failure."""
    assert conclusion(report) == expected


def test_nothing_compared_reads_unlike_no_change() -> None:
    assert headline(done()).startswith("Nothing was compared")
    assert headline(done(SAME)).startswith("No change seen")


@given(st.integers(0, 3000), st.text(max_size=300))
def test_the_comment_stays_under_the_limit_and_counts_what_it_leaves_out(count: int, name: str) -> None:
    rows = tuple(
        Row("regressed", f"{name}{i}", name, 0.05, 0.04, 0.06, 0.01, url=URL, culprit=name) for i in range(count)
    )
    text = comment(done(*rows))
    assert len(text) < LIMIT
    shown = text.count("**+5.0 %**")
    more = re.search(r"and (\d+) more", text)
    assert shown + (int(more[1]) if more else 0) == count


def test_hostile_names_stay_text() -> None:
    row = Row("failing", "x|y](http://evil) @everyone <img>", "m", reason="\x1b[31m`boom`\n# title")
    text = body(done(row))
    table = next(line for line in text.splitlines() if "everyone" in line)
    assert "@everyone" not in text
    assert "<img" not in text
    assert table.count("|") == 5
    assert "\n# title" not in text


def test_the_largest_effect_comes_first() -> None:
    small = Row("regressed", "a", "m", 0.01, 0.005, 0.02)
    text = comment(done(small, SLOWER))
    assert text.index("train") < text.index("| a |")
