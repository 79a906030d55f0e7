"""A stranger's text in Markdown and on one line."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundspeed.service.forge.escape import code, markdown, visible


@pytest.mark.parametrize(
    "text",
    [
        "@everyone",
        "<img src=x onerror=alert(1)>",
        "[a](javascript:1)",
        "![x](http://t)",
        "| a |",
        "# h",
        ":bug:",
        "#1",
        "a_b_",
        "http://evil",
    ],
)
def test_nothing_special_is_left_in_markdown(text: str) -> None:
    escaped = markdown(text)
    without = re.sub(r"&#\d+;", "", escaped)
    assert not set(without) & set("\\`*_{}[]()#+|<>~@:!&")


def test_terminal_sequences_and_direction_overrides_vanish() -> None:
    assert visible("a\x1b[31mred\x1b[0m\x1b]0;title\x07\u202egnp\u2066.exe\x00") == "aredgnp.exe"


def test_a_megabyte_is_cut_to_one_short_line() -> None:
    assert len(visible("x\n" * 500_000)) == 120


@given(st.text(max_size=200))
def test_code_has_no_line_break_and_cannot_be_closed_from_inside(text: str) -> None:
    out = code(text)
    assert "\n" not in out
    if out:
        fence = re.match(r"`+", out)
        assert fence is not None
        inner = out[len(fence[0]) : -len(fence[0])]
        assert all(len(run) < len(fence[0]) for run in re.findall(r"`+", inner))
