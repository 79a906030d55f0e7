"""The final table says for each cause what it did, how sure that is, and what it rests on."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from groundspeed.cli import answer
from groundspeed.service.usecases.findings import Commit, Counts, Finding, Findings, Member

MEMBER = Member(1, "training", "step_time", {}, "CPU", "s", -1, 1.2, 1.15, 1.25, 0.010, 0.012, 0.002, confirmed=True)
COMMIT = Commit("a" * 40, "Report the loss after each update", "Ada", 7)
FINDING = Finding(1, "regression", True, "new", "code", "train", COMMIT, replace(COMMIT, sha="b" * 40, position=6), 1, (MEMBER,))  # fmt: skip
COUNTS = Counts(commits=20, runs=60, failures=0, series=9, outcomes={"ok": 60})


def shown(found: Findings) -> str:
    out = Console(width=200, no_color=True, file=io.StringIO())
    out.print(answer.render(found))
    return out.file.getvalue()  # type: ignore[attr-defined]


def test_a_row_has_commit_effect_interval_and_levels() -> None:
    text = shown(Findings("p", (FINDING,), COUNTS))
    for piece in (
        "worse",
        "aaaaaaaaa",
        "Report the loss",
        "training: step_time",
        "+20.0 %",
        "+15.0 % … +25.0 %",
        "10 ms → 12 ms",
        "confirmed",
    ):
        assert piece in text
    assert "20 commits, 60 benchmark processes, 9 series." in text


def test_more_metrics_of_one_cause_stand_under_it_without_naming_it_again() -> None:
    second = replace(MEMBER, metric="memory", unit="B", before=3.2e6, after=4e6, ratio=None, difference=8e5)
    text = shown(Findings("p", (replace(FINDING, members=(MEMBER, second)),), COUNTS))
    assert text.count("aaaaaaaaa") == 1
    assert "3.2 MB → 4 MB" in text
    assert "+8e+05 B" in text


def test_a_range_and_a_doubt_are_said() -> None:
    text = shown(Findings("p", (replace(FINDING, confirmed=False, suspects=4),), COUNTS))
    assert "provisional, or one of the 3 before it" in text


def test_an_empty_table_says_what_it_rests_on() -> None:
    text = shown(Findings("p", (), replace(COUNTS, failures=2)))
    assert "No change of performance was found (20 commits, 60 benchmark processes, 9 series, 2 failed)." in text


def test_where_all_failed_the_reason_stands_and_no_word_of_no_change() -> None:
    counts = replace(COUNTS, series=0, failures=60, outcomes={"failed": 60}, reasons={"no module named model": 60})
    text = shown(Findings("p", (), counts))
    assert "No change" not in text
    assert "Nothing could be measured (20 commits, 60 benchmark processes, 0 series, 60 failed)" in text
    assert "failed: no module named model (60 times)" in text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0123, "s", "12.3 ms"),
        (2.0, "s", "2 s"),
        (3.4e-7, "s", "340 ns"),
        (17.67e6, "B", "17.67 MB"),
        (12.5, "1", "12.5 1"),
        (0.0, "s", "0 s"),
    ],
)
def test_quantities_are_readable(value: float, unit: str, text: str) -> None:
    assert answer.quantity(value, unit) == text
