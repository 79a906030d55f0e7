"""What is said: the built-in text or a channel's own, the JSON for programs, the escaping of each place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from groundspeed.service.errors import Invalid
from groundspeed.service.usecases.notifications.delivery import Batch, Item

TITLES = {
    "regression": "Regression", "improvement": "Improvement", "change": "Change", "recovered": "Recovered",
    "again": "Back again", "over": "No longer ignored", "assigned": "Assigned", "test": "Test",
}  # fmt: skip
BUILT_IN = """\
{% for item in items %}
{{ item.headline }}
{% if item.commit %}  {{ item.commit }}{% if item.commits > 1 %} (one of {{ item.commits }} commits){% endif %}

{% endif %}
{% if item.assignee %}  assigned to {{ item.assignee }}
{% endif %}
{% if item.why %}  {{ item.why }}
{% endif %}
  {{ item.url }}
{% endfor %}
"""
EXAMPLE: Mapping[str, Any] = {
    "project": "example",
    "actor": "groundspeed",
    "why": "",
    "regression": {
        "id": 0, "kind": "regression", "state": "new", "cause": "code", "title": "train: step_time +16.0 %",
        "series_count": 1, "commits": 1, "assignee": "", "note": "", "link": "",
        "after": {"sha": "0" * 40, "title": "This is a test, nothing has happened", "author": "Groundspeed"},
        "before": None, "worst": {"ratio": 1.16, "low": 1.15, "high": 1.17, "difference": None}, "worst_series": None,
    },
}  # fmt: skip
LONGEST = 60_000
_MISTAKES = (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError, MemoryError)
"""What a template can make Python raise."""
_environment = SandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)


def facts_of(item: Item, base_url: str) -> dict[str, Any]:
    """What a template may use of one thing, all of it text and numbers."""
    facts = item.facts or EXAMPLE
    row = facts["regression"]
    after = row.get("after") or {}
    title = TITLES.get(item.event, item.event)
    commit = f"{after['sha'][:10]} {after['title']} ({after['author']})" if after else ""
    return {
        "event": item.event,
        "title": title,
        "headline": _line(f"{title} in {facts['project']}: {row['title'] or row['kind']}"),
        "project": facts["project"],
        "commit": _line(commit),
        "commits": row.get("commits") or 1,
        "state": row["state"],
        "cause": row["cause"],
        "assignee": _line(row.get("assignee", "")),
        "actor": _line(facts.get("actor", "")),
        "why": _line(facts.get("why", "")),
        "url": f"{base_url}/projects/{facts['project']}/regressions/{row['id']}",
        "regression": row,
    }


def text(batch: Batch, base_url: str) -> str:
    """The whole message as plain text. Raises :class:`Invalid` when the channel's own template fails."""
    return render(batch.template or BUILT_IN, [facts_of(item, base_url) for item in batch.items])


def render(template: str, items: Sequence[Mapping[str, Any]]) -> str:
    """The letter, cut at ``LONGEST`` characters; ``items`` are not empty. Raises Invalid for a template that fails."""
    try:
        made = _environment.from_string(template).render(items=items, item=items[0], count=len(items))
    except (TemplateError, *_MISTAKES) as error:
        raise Invalid(f"The template fails: {error}", "docs/notifications.md says what it may use.") from None
    return made.strip()[:LONGEST]


def check(template: str) -> None:
    """Raises :class:`Invalid` for a template that fails with a made-up regression."""
    if template:
        render(template, [facts_of(Item("test", {}), "https://example.org")])


def subject(batch: Batch, base_url: str) -> str:
    """One line for the head of an e-mail."""
    first = facts_of(batch.items[0], base_url)["headline"]
    return f"{len(batch.items)} findings: {first}, …"[:200] if len(batch.items) > 1 else str(first)[:200]


def for_programs(batch: Batch, base_url: str) -> dict[str, Any]:
    """The body of a webhook, version 1: fields are added, never taken away."""
    return {
        "version": 1,
        "delivery": batch.number,
        "events": [
            {
                "event": item.event,
                "project": (item.facts or EXAMPLE)["project"],
                "actor": (item.facts or EXAMPLE).get("actor", ""),
                "why": (item.facts or EXAMPLE).get("why", ""),
                "url": facts_of(item, base_url)["url"],
                "regression": (item.facts or EXAMPLE)["regression"],
            }
            for item in batch.items
        ],
    }


def for_slack(batch: Batch, base_url: str) -> dict[str, Any]:
    """The body of a Slack-compatible webhook: no text of a commit can mention anybody, or become a link of its own."""
    said = text(batch, base_url).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": said.replace("@", "@\u200b"), "unfurl_links": False}


def _line(value: str) -> str:
    """Without line breaks and other control characters, so that nothing can pretend to be another line."""
    return "".join(c if c.isprintable() else " " for c in str(value))[:300]
