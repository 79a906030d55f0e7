"""Results in the formats that other tools read: CSV, OpenMetrics, github-action-benchmark JSON, Atom. Records in,
text out.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from groundspeed.service.formats.records import Record

CSV_COLUMNS = (
    "benchmark", "version", "params", "metric", "unit", "direction", "kind", "value", "spread", "count", "outcome",
    "commit",
    "committed_at", "measured_at", "machine", "environment", "tool",
)  # fmt: skip
_LABEL = re.compile(r"[^a-zA-Z0-9_]")


def csv_lines(records: Iterable[Record]) -> Iterator[str]:
    """A header, then one line a record. A cell that a spreadsheet would run as a formula gets an apostrophe before
    it.
    """
    yield _csv_row(CSV_COLUMNS)
    for record in records:
        origin = record.origin
        yield _csv_row([
            record.benchmark, record.version, json.dumps(dict(record.params), sort_keys=True) if record.params else "",
            record.metric.name, record.metric.unit, record.metric.direction, record.metric.kind,
            "" if record.value is None else repr(record.value), repr(record.spread), record.count, record.outcome,
            origin.commit, _iso(origin.committed_at), _iso(origin.measured_at),
            origin.machine.name or origin.machine.cpu_model,
            "; ".join(f"{f.name}={f.value}" for f in origin.environment), origin.tool,
        ])  # fmt: skip


def _csv_row(cells: Iterable[object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow([_harmless(str(cell)) for cell in cells])
    return buffer.getvalue().rstrip("\r\n")


def _harmless(text: str) -> str:
    risky = text[:1] in {"=", "@", "\t", "\r"} or (
        text[:1] in {"+", "-"} and not re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", text)
    )
    return f"'{text}" if risky else text


def _iso(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).isoformat()


def openmetrics_lines(project: str, newest: Iterable[Record]) -> Iterator[str]:
    """The newest value of every series as a gauge, with its time; ends with the mark that the format asks for."""
    yield "# TYPE groundspeed_result gauge"
    yield "# HELP groundspeed_result Newest result of a series, in the unit that its label names."
    seen: set[str] = set()
    for record in newest:
        if record.value is None:
            continue
        labels = {
            "project": project,
            "benchmark": record.benchmark,
            "metric": record.metric.name,
            "unit": record.metric.unit,
        }
        machine = record.origin.machine
        labels["hardware"] = machine.gpu_model or machine.cpu_model or machine.name
        labels |= {f"param_{_LABEL.sub('_', str(k))}": str(v) for k, v in record.params.items()}
        text = ",".join(f'{k}="{_label(v)}"' for k, v in labels.items() if v)
        if text not in seen:
            seen.add(text)
            moment = record.origin.measured_at
            yield f"groundspeed_result{{{text}}} {record.value!r}" + (f" {moment.timestamp():.3f}" if moment else "")
    yield "# EOF"


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def github_action(records: Iterable[Record], url: str, now: datetime) -> dict[str, Any]:
    """A history as github-action-benchmark keeps it: one list for each direction, one entry for each commit in it."""
    entries: dict[str, dict[str, dict[str, Any]]] = {}
    for record in records:
        if record.value is None:
            continue
        tool = "customBiggerIsBetter" if record.metric.direction > 0 else "customSmallerIsBetter"
        origin = record.origin
        at = origin.measured_at or origin.committed_at or now
        commit = {
            "id": origin.commit, "message": origin.title, "timestamp": _iso(origin.committed_at or at), "url": "",
            "author": {"name": origin.author}, "committer": {"name": origin.author},
        }  # fmt: skip
        run = entries.setdefault(tool, {}).setdefault(
            origin.commit, {"commit": commit, "date": int(at.timestamp() * 1000), "tool": tool, "benches": []}
        )
        params = ", ".join(f"{k}={v}" for k, v in record.params.items())
        bench = {
            "name": f"{record.benchmark}{f' ({params})' if params else ''} {record.metric.name}",
            "value": record.value,
            "unit": record.metric.unit,
        }
        if record.spread:
            bench["range"] = f"± {record.spread:g}"
        run["benches"].append(bench)
    return {
        "lastUpdate": int(now.timestamp() * 1000),
        "repoUrl": url,
        "entries": {tool: list(runs.values()) for tool, runs in entries.items()},
    }


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One thing that happened: ``identity`` stays the same for ever, so that a reader shows it once."""

    identity: str
    title: str
    updated: datetime
    text: str
    link: str = ""


def atom(title: str, identity: str, entries: Iterable[FeedEntry], now: datetime) -> str:
    """An Atom feed (RFC 4287)."""
    parts = [
        '<?xml version="1.0" encoding="utf-8"?>', '<feed xmlns="http://www.w3.org/2005/Atom">',
        f"<title>{_xml(title)}</title>", f"<id>{_xml(identity)}</id>", f"<updated>{_iso(now)}</updated>",
        "<author><name>Groundspeed</name></author>",
    ]  # fmt: skip
    for entry in entries:
        link = f"<link href={quoteattr(entry.link)}/>" if entry.link else ""
        parts.append(
            f"<entry><title>{_xml(entry.title)}</title><id>{_xml(entry.identity)}</id><updated>{_iso(entry.updated)}</updated>"
            f'{link}<content type="text">{_xml(entry.text)}</content></entry>'
        )
    return "\n".join([*parts, "</feed>", ""])


def _xml(text: str) -> str:
    return escape(re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text))
