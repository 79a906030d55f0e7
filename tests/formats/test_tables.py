"""Tables as spreadsheets, scripts and people write them."""

from __future__ import annotations

import pytest

from formats.reading import everything
from groundspeed.service.formats import csv_table, detect
from groundspeed.service.formats.records import Record, Skipped
from groundspeed.service.formats.source import of_bytes


@pytest.mark.parametrize(
    ("text", "encoding", "values"),
    [
        ("\ufeffbenchmark;value;unit;commit\nb;1,5;ms;abcdef1\nb;1.234,5;ms;abcdef2\n", "utf-8", [0.0015, 1.2345]),
        ("sep=;\nbenchmark;value;unit\nb;0,25;s\n", "utf-8", [0.25]),
        ("benchmark\tvalue\tunit\nb\t2.5\ts\n", "utf-16", [2.5]),
        ("# made by a script, on 2024-01-02\n# commit; x\nbenchmark|value|unit\nb|3|s\n", "utf-8", [3.0]),
        ('#benchmark,value,unit\r\nb,"1,234.5",s\r\n', "utf-8", [1234.5]),
    ],
)  # fmt: skip
def test_tables_as_spreadsheets_and_scripts_write_them(text: str, encoding: str, values: list[float]) -> None:
    """Other delimiters, a byte order mark, decimal commas, remarks before the header."""
    document = of_bytes("t.csv", text.encode(encoding))
    assert detect.detect(document).name == "csv"
    records, skipped = everything(text, "t.csv", encoding)
    assert ([r.value for r in records], skipped) == (pytest.approx(values), [])


def test_a_decimal_comma_is_never_guessed_into_another_number() -> None:
    """In a table cut by commas "1,5" is no number until somebody says what it is."""
    text = 'name,t\nb,"1,5"\n'
    plain = csv_table.parse_mapping(["benchmark=name", "metric=t:s"])
    (skipped,) = csv_table.parse(of_bytes("t.csv", text.encode()), plain)
    assert isinstance(skipped, Skipped)
    assert "decimal=comma" in skipped.reason
    said = csv_table.parse_mapping(["benchmark=name", "metric=t:s", "decimal=comma"])
    (record,) = csv_table.parse(of_bytes("t.csv", text.encode()), said)
    assert isinstance(record, Record)
    assert record.value == 1.5
    for wrong in ("delimiter=ab", "decimal=x"):
        with pytest.raises(ValueError, match="is no"):
            csv_table.parse_mapping(["metric=t", wrong])
