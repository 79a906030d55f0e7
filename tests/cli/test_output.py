"""What is shown was written by anybody: no escape sequence of theirs reaches the terminal."""

from __future__ import annotations

import io

import pytest
from rich.text import Text

from groundspeed.cli import edge, output
from groundspeed.service.errors import Invalid

HOSTILE = "title\x1b[2J\x1b]0;owned\x07\r\x9b31m\udce9"


def test_escapes_of_others_are_taken_out_and_our_colours_stay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = output.console()
    out.file = io.StringIO()
    out.print(output.table((HOSTILE,), ((HOSTILE,),)))
    out.print(HOSTILE, markup=False)
    out.print(Text(HOSTILE))
    text = out.file.getvalue()
    assert text.count("title") == 4
    assert "\x1b[1m" in text  # the bold heading
    for part in ("\x1b[2J", "\x1b]", "\x07", "\r", "\x9b", "\udce9"):
        assert part not in text
    edge.complain(edge.explain(Invalid(f"No commit {HOSTILE}.", "")))
    assert "\x1b" not in capsys.readouterr().err
