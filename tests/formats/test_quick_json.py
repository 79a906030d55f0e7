"""The quick reader of asv's files gives what the usual one gives, also where NaN stands beside texts that hold it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from groundspeed.service.formats import asv, quick_json
from groundspeed.service.formats.records import Grid
from groundspeed.service.formats.source import of_bytes

TEXTS = ('[1, NaN, "NaN"]', "NaN", "\\", '\\"', '\\\\"NaN', "NaN\\", 'a "b" NaN, ', "", "é NaN")
HEAD = {"commit_hash": "a" * 40, "requirements": {}, "params": {"machine": "m", "NaN": "NaN"}, "env_name": "NaN"}


def items(results: dict[str, Any], head: dict[str, Any], *, usual: bool) -> list[Any]:
    """What is read of a file; ``usual``: its first byte keeps the quick reader from it."""
    columns = ["result", "params", "version", "stats_q_25", "stats_q_75", "stats_repeat", "samples", "duration"]
    text = json.dumps({**head, "result_columns": columns, "results": results, "version": 2})
    found = asv.parse(of_bytes("m/a.json", ("\ufeff" if usual else "").encode() + text.encode()))
    return [item if not isinstance(item, Grid) else {n: getattr(item, n) for n in Grid.__slots__} for item in found]


def test_nan_outside_texts_is_marked_and_texts_stay_as_they_are() -> None:
    document = {text: [text, math.nan, [math.nan, 1.5, text], {"x": math.nan}] for text in TEXTS}
    found, marked = quick_json.loads(json.dumps(document).encode())
    assert marked
    assert found == {text: [text, False, [False, 1.5, text], {"x": False}] for text in TEXTS}
    assert quick_json.loads(b'[1, "NaN", true]') == ([1, "NaN", True], True)
    assert quick_json.loads(b"[1.5, false]") == ([1.5, False], False)
    for other in (b"[NaN, false]", b"[Infinity]", b"[NaNx]", b"[-NaN]", b"\xef\xbb\xbf[1]", b'["\xff"]', b"[1", b""):
        with pytest.raises(quick_json.NotQuick):
            quick_json.loads(other)


@pytest.mark.parametrize(
    "head",
    [{}, {"durations": {"<build>": math.nan}}, {"date": 10**25}, {"params": {"machine": "m", "x": False}}],
    ids=["plain", "nan-in-head", "huge-in-head", "false-in-head"],
)
def test_a_file_says_the_same_whichever_reader_reads_it(head: dict[str, Any]) -> None:
    nan, axis = math.nan, [["1", "NaN", "'\"\\\\'"]]
    results = {
        "time_a": [[1.0, nan, None], axis, "v", [0.9, nan, None], [1.1, nan, None], [5, nan, None], [[1.0, nan], 2], nan],
        "time_b": [[1, 2.0, 3.0], axis, nan, [1, 2, 3], [2, 2**64, nan], [True, nan, 1], [[1.0], None, [nan, 1.0]], 1],
        "time_c": [nan, [], "v"],
        "time_d": [None, [], "v"],
        "time_e": [[nan], [], "v", [nan], [2.0], [3]],
        "time_f": [[1.0, 2.0], [["1", nan]], "v"],
    }  # fmt: skip
    both = [items(results, {**HEAD, **head}, usual=usual) for usual in (False, True)]
    assert len(both[0]) == len(results)
    assert repr(both[0]) == repr(both[1])
