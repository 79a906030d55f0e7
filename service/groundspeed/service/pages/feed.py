"""The Atom feed of a project's regressions."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from groundspeed.service.pages.formats import percent
from groundspeed.service.wire import views as v

_ATOM = "http://www.w3.org/2005/Atom"
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML may hold, not even escaped."""


def atom(shown: v.RegressionList, base_url: str) -> bytes:
    """One entry a regression, newest first; an entry keeps its id, and is updated when its state changes."""
    ET.register_namespace("", _ATOM)
    here = f"{base_url}/projects/{shown.project.slug}/regressions"
    feed = ET.Element(f"{{{_ATOM}}}feed")
    _text(feed, "title", f"Regressions of {shown.project.name}")
    _text(feed, "id", here)
    _text(feed, "updated", max((row.updated_at for row in shown.rows), default=None) or "1970-01-01T00:00:00Z")
    _link(feed, here, "alternate")
    _link(feed, f"{here}.atom", "self")
    for row in shown.rows:
        _entry(feed, row, f"{here}/{row.id}")
    return bytes(ET.tostring(feed, encoding="utf-8", xml_declaration=True))


def _entry(feed: ET.Element, row: v.RegressionRow, address: str) -> None:
    entry = ET.SubElement(feed, f"{{{_ATOM}}}entry")
    _text(entry, "title", row.title or f"{row.kind} {row.id}")
    _text(entry, "id", address)
    _text(entry, "published", row.created_at)
    _text(entry, "updated", row.updated_at)
    _link(entry, address, "alternate")
    author = ET.SubElement(entry, f"{{{_ATOM}}}author")
    _text(author, "name", row.after.author if row.after is not None and row.after.author else "unknown")
    ET.SubElement(entry, f"{{{_ATOM}}}category", {"term": row.state})
    _text(entry, "summary", _summary(row))


def _summary(row: v.RegressionRow) -> str:
    effect = percent(row.worst.ratio) if row.worst is not None and row.worst.ratio is not None else ""
    after = f"{row.after.sha[:10]} {row.after.title}" if row.after is not None else ""
    more = f"one of {row.commits} commits" if row.commits and row.commits > 1 else ""
    return ". ".join(part for part in (row.state, effect, f"{row.series_count} series", after, more) if part)


def _text(parent: ET.Element, name: str, value: object) -> None:
    said = value.isoformat() if hasattr(value, "isoformat") else str(value)
    ET.SubElement(parent, f"{{{_ATOM}}}{name}").text = _FORBIDDEN.sub("\ufffd", said)


def _link(parent: ET.Element, address: str, kind: str) -> None:
    ET.SubElement(parent, f"{{{_ATOM}}}link", {"rel": kind, "href": address})
