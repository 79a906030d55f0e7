"""What is shown was written by anybody: no escape sequence of theirs reaches the terminal."""

from __future__ import annotations

import io
import sqlite3
from pathlib import Path

import pytest
from rich.text import Text

from groundspeed.cli import edge, output
from groundspeed.service.errors import Invalid
from groundspeed.service.usecases import exporting

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


def test_a_disk_that_is_full_is_not_called_a_fault_of_ours(tmp_path: Path) -> None:
    """A database that may not grow, as the edge tells it; a mistake in our own SQL stays ours."""
    connection = sqlite3.connect(tmp_path / "small.db")
    connection.execute("create table t (x)")
    connection.execute("pragma max_page_count = 3")
    with pytest.raises(sqlite3.OperationalError) as full:
        connection.execute("insert into t values (zeroblob(100000))")
    text = edge.explain(full.value)
    assert "database or disk is full" in text
    assert "fault of Groundspeed" not in text
    with pytest.raises(sqlite3.ProgrammingError) as ours:
        connection.execute("insert into t values (?)", ())
    assert "fault of Groundspeed" in edge.explain(ours.value)
    connection.close()


def test_an_export_that_fails_leaves_the_file_of_before(tmp_path: Path) -> None:
    kept = tmp_path / "out.csv"
    kept.write_text("before")
    with pytest.raises(UnicodeEncodeError), exporting.whole(kept) as part:
        part.write_text("half\ud800", encoding="utf-8")
    assert kept.read_text() == "before"
    with exporting.whole(kept) as part:
        part.write_text("new")
    assert kept.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]
