"""The GitHub App that Groundspeed needs, and the way in which GitHub makes it: a manifest, a page, a code, a key."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from groundspeed.service.errors import Invalid, Unavailable

PERMISSIONS = {
    "checks": "write",
    "contents": "read",
    "issues": "write",
    "merge_queues": "read",
    "metadata": "read",
    "pull_requests": "write",
}
EVENTS = ("check_run", "check_suite", "issue_comment", "merge_group", "pull_request", "push", "repository")
WEBHOOK_PATH = "/webhooks/github"
_RANKS = {"": 0, "read": 1, "write": 2, "admin": 3}


@dataclass(frozen=True, slots=True)
class NewApp:
    """What GitHub hands out once: keep ``pem`` and ``webhook_secret`` where only the service reads them."""

    id: str
    name: str
    url: str
    pem: str
    webhook_secret: str


def web_url(api_url: str) -> str:
    """Where people go: https://github.com, or the Enterprise Server of the API's address."""
    parts = urlsplit(api_url)
    return "https://github.com" if parts.hostname == "api.github.com" else f"{parts.scheme}://{parts.netloc}"


def manifest(public_url: str, redirect_url: str, name: str) -> dict[str, Any]:
    """The App as GitHub is asked to make it."""
    return {
        "name": name,
        "url": public_url,
        "hook_attributes": {"url": public_url + WEBHOOK_PATH, "active": True},
        "redirect_url": redirect_url,
        "public": False,
        "default_permissions": PERMISSIONS,
        "default_events": list(EVENTS),
    }


def page(web: str, organization: str, state: str, found: dict[str, Any]) -> str:
    """A page whose one button sends the manifest to GitHub, which asks its reader to confirm."""
    where = f"{web}/organizations/{organization}/settings/apps/new" if organization else f"{web}/settings/apps/new"
    value = html.escape(json.dumps(found), quote=True)
    return (
        "<!doctype html><meta charset=utf-8><title>Groundspeed: make the GitHub App</title>"
        "<body style='font:16px system-ui;max-width:40em;margin:4em auto'>"
        f"<h1>Make the GitHub App</h1><p>GitHub shows what is asked for, and makes the App when you confirm.</p>"
        f"<form method=post action='{html.escape(where)}?state={html.escape(state)}'>"
        f"<input type=hidden name=manifest value='{value}'><button>Go on to GitHub</button></form>"
    )


def convert(api_url: str, code: str) -> NewApp:
    """Exchange the code that GitHub sent back for the App's credentials; it works once, within the hour."""
    try:
        answer = httpx.post(
            f"{api_url}/app-manifests/{code}/conversions",
            headers={"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"},
            timeout=30,
        )
    except httpx.HTTPError as error:
        raise Unavailable(f"GitHub cannot be reached: {error}.", "Try again; the code is good for an hour.") from None
    if answer.status_code != httpx.codes.CREATED:
        raise Invalid(f"GitHub did not take the code ({answer.status_code}).", "Begin again: groundspeed github setup.")
    found = answer.json()
    return NewApp(
        str(found["id"]), str(found["name"]), str(found["html_url"]), str(found["pem"]), str(found["webhook_secret"])
    )


def lacking_permissions(granted: dict[str, Any]) -> list[str]:
    """``checks: write`` for each permission that is missing or too small."""
    return [
        f"{name}: {wanted}"
        for name, wanted in PERMISSIONS.items()
        if _RANKS.get(str(granted.get(name, "")), 0) < _RANKS[wanted] and name != "merge_queues"
    ]


def lacking_events(subscribed: list[Any]) -> list[str]:
    """Events that GitHub does not send; those about a merge queue are needed only where one is used."""
    return [name for name in EVENTS if name not in subscribed and name != "merge_group"]
