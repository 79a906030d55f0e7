"""Reading a small file, as the tests of the formats do."""

from __future__ import annotations

import json
from typing import Any

from groundspeed.service.formats import detect
from groundspeed.service.formats.records import Record, Skipped
from groundspeed.service.formats.source import of_bytes

SHA = "ab" * 20


def read(content: Any, form: str, name: str = "x") -> list[Record]:
    """Records of what is detected as ``form``, of which nothing is skipped."""
    text = content if isinstance(content, str) else json.dumps(content)
    document = of_bytes(name, text.encode())
    assert detect.detect(document).name == form
    items = list(detect.parse(document))
    assert not [i for i in items if isinstance(i, Skipped)], items
    return [i for i in items if isinstance(i, Record)]


def figures(records: list[Record]) -> list[tuple[str, str, float | None]]:
    """Benchmark, metric and value to six digits."""
    return [(r.benchmark, r.metric.name, None if r.value is None else float(f"{r.value:.6g}")) for r in records]


def everything(content: Any, name: str = "x", encoding: str = "utf-8") -> tuple[list[Record], list[str]]:
    """Records and the reasons for what was skipped."""
    text = content if isinstance(content, str) else json.dumps(content)
    items = list(detect.parse(of_bytes(name, text.encode(encoding))))
    return [i for i in items if isinstance(i, Record)], [i.reason for i in items if isinstance(i, Skipped)]
