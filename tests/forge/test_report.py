"""What a pull request is told."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from groundspeed.service.domain.kernels.told import Told, ToldRow
from groundspeed.service.domain.pulls.report import Report, Row, conclusion
from groundspeed.service.forge.render import LIMIT, MARKER, body, comment, headline, marks

BASE, HEAD, URL = "a" * 40, "b" * 40, "https://speed.example/p/tiny/pull/3"
SLOWER = Row(
    "regressed", "train[batch=8]", "step_time", 0.032, 0.028, 0.037, 0.004, url=URL, repeat="groundspeed run x"
)
SAME = Row("unchanged", "infer", "latency_p50", 0.0004, -0.002, 0.003, 0.005)


def told(name: str) -> Told:
    """Of one kernel of that name, which replaced another."""
    row = ToldRow("replaced", name, name, name, "24 launches a step, 120 µs → 131 µs each", 2e-3, 3e-3, 24, 24, 0.9)
    return Told("told", "Kernels of a step take 2.00 → 3.00 ms.", 2e-3, 3e-3, (row,))


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


@settings(deadline=None)
@given(st.integers(0, 3000), st.text(max_size=300))
def test_the_comment_stays_under_the_limit_and_counts_what_it_leaves_out(count: int, name: str) -> None:
    rows = tuple(
        Row("regressed", f"{name}{i}", name, 0.05, 0.04, 0.06, 0.01, url=URL, kernels=told(name)) for i in range(count)
    )
    text = comment(done(*rows))
    assert len(text) < LIMIT
    shown = text.count("**+5.0 %**")
    more = re.search(r"and (\d+) more", text)
    assert shown + (int(more[1]) if more else 0) == count


HOSTILE = "x|y](http://evil) @everyone <img>"


def test_hostile_names_stay_text() -> None:
    row = Row("failing", HOSTILE, "m", reason="\x1b[31m`boom`\n# title")
    text = body(done(row))
    table = next(line for line in text.splitlines() if "everyone" in line)
    assert "@everyone" not in text
    assert "<img" not in text
    assert table.count("|") == 5
    assert "\n# title" not in text


def test_a_kernel_is_named_and_its_name_is_nothing_but_code() -> None:
    """As a forge's own renderer reads it: a table of one row, and the name in it only inside of code."""
    text = body(done(replace(SLOWER, kernels=told(f"``{HOSTILE}\n# title``"))))
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert "in place of" in html
    assert "24 launches a step, 120 µs → 131 µs each" in html
    assert "90 %" in html
    outside = re.sub("<code>.*?</code>", "", html)
    (mark,) = marks(done(replace(SLOWER, kernels=told("norm\nkernel"))))
    assert mark["message"] == "step_time: +3.2 %, mostly norm kernel"
    for part in ("everyone", "evil", "img", "<h1>"):
        assert part not in outside
    assert html.count("<tr>") == 4, "two tables of one row each"


def test_kernels_of_many_benchmarks_are_counted() -> None:
    rows = [replace(SLOWER, benchmark=f"b{i}", kernels=told("k")) for i in range(5)]
    text = comment(done(*rows))
    assert text.count("Kernels of a step take") == 3
    assert "and of 2 more benchmarks" in text


def test_the_largest_effect_comes_first() -> None:
    small = Row("regressed", "a", "m", 0.01, 0.005, 0.02)
    text = comment(done(small, SLOWER))
    assert text.index("train") < text.index("| a |")
