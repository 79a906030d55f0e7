"""Which tool wrote this: where what tells it comes late, and what a person is told when nothing does."""

from __future__ import annotations

import json

import pytest

from formats.reading import everything
from fuzz import seeds
from groundspeed.service.formats import detect
from groundspeed.service.formats.records import Refused
from groundspeed.service.formats.source import of_bytes


@pytest.mark.parametrize("form", ["mlperf", "go", "llm-serving", "tool-table", "criterion", "superbench", "pyperf"])
def test_what_tells_a_format_may_come_late(form: str) -> None:
    """Behind what a launcher said first, or behind other names of the same JSON."""
    sound = seeds.seed(form).decode()
    if form in seeds.TEXTS:
        late = "Collecting a-package\n" * 5000 + (seeds.MORE[form][0] if form == "llm-serving" else sound)
    else:
        late = json.dumps({"noise": ["x" * 60] * 3000, **seeds.DOCUMENTS[form]})
    assert detect.detect(of_bytes("x", late.encode())).name == form


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[{"what": 1, "ever": {"else": 2}}]', "it is JSON with what, ever, else"),
        ("        │ before │ after │\n        │ sec/op │ sec/op  vs base │\n", "import the two files"),
        ('{"b": {"latency": {"value": 5.0}}}', "Bencher"),
        ("bench_a\n  Instructions:   1,735\n", "Callgrind"),
        ("hello\n", 'its first line is "hello"'),
    ],
)
def test_what_no_format_knows_is_told_by_what_it_is(text: str, words: str) -> None:
    """A refusal shows enough of the file to recognise it, and what to do."""
    with pytest.raises(Refused, match=words):
        everything(text)
