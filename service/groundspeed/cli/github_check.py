"""What is missing between GitHub and the service, one finding after the other, each with what to do."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from groundspeed.service.control import wiring
from groundspeed.service.domain.pulls.forge import ForgeRefused, ForgeUnavailable
from groundspeed.service.forge.manifest import WEBHOOK_PATH, lacking_events, lacking_permissions
from groundspeed.service.forge.signature import sign

if TYPE_CHECKING:
    from groundspeed.service.forge.github import GitHubForge
    from groundspeed.service.settings import Settings
    from groundspeed.service.usecases.pulls.standing import Standing

_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class Finding:
    ok: bool
    words: str


def examine(settings: Settings, known: Standing) -> list[Finding]:
    """All findings; what cannot be asked is a finding too."""
    found = [_secret(settings), _own_webhook(settings)]
    forge: Any = wiring.forge(settings)
    if forge is None:
        words = "No credentials: `groundspeed github setup` makes an App, or set GROUNDSPEED_GITHUB_TOKEN."
        return [*found, Finding(ok=False, words=words)]
    found += _asked(lambda: _app(settings, forge)) if forge.is_app else []
    found += _projects(settings, forge, known)
    found += [Finding(ok=False, words=f"GitHub refused: {reason}") for reason in known.refused]
    for state in ("failed", "malformed"):
        if count := known.deliveries.get(state):
            found.append(Finding(ok=False, words=f"{count} deliveries are {state}: the service's log says why."))
    return found


def _secret(settings: Settings) -> Finding:
    count = len(settings.github_webhook_secrets)
    if not count:
        return Finding(ok=False, words="No webhook secret: set GROUNDSPEED_GITHUB_WEBHOOK_SECRET, or all are refused.")
    return Finding(ok=True, words=f"{count} webhook secret{'s are' if count > 1 else ' is'} set")


def _own_webhook(settings: Settings) -> Finding:
    """A signed ping to the address that GitHub is to use: is it reached, and has the service the same secret."""
    url = settings.base_url + WEBHOOK_PATH
    body = json.dumps({"zen": "Is anybody there?", "asked": uuid.uuid4().hex}).encode()
    secret = (settings.github_webhook_secrets or ("",))[0]
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "ping",
        "X-GitHub-Delivery": str(uuid.uuid4()),
        "X-Hub-Signature-256": sign(body, secret),
    }
    try:
        status = httpx.post(url, content=body, headers=headers, timeout=10).status_code
    except httpx.HTTPError as error:
        return Finding(
            ok=False, words=f"{url} cannot be reached ({error}): is it running, and GROUNDSPEED_PUBLIC_URL right?"
        )
    if status == _UNAUTHORIZED:
        return Finding(ok=False, words=f"{url} answers, with another webhook secret than the one that is set here.")
    if status != httpx.codes.ACCEPTED:
        return Finding(ok=False, words=f"{url} answers {status}: something else listens there.")
    return Finding(ok=True, words=f"{url} takes deliveries signed with the secret")


def _asked(ask: Callable[[], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(ask())
    except (ForgeRefused, ForgeUnavailable) as error:
        return [Finding(ok=False, words=f"GitHub: {error}")]


def _app(settings: Settings, forge: GitHubForge) -> Iterator[Finding]:
    about = forge.installation()
    yield Finding(ok=True, words=f"GitHub knows the App as {about.get('name')}")
    permissions = lacking_permissions(dict(about.get("permissions") or {}))
    yield _complete("permissions", permissions, "Give them on the App's page; its owners then accept them")
    yield _complete("events", lacking_events(list(about.get("events") or ())), "Subscribe to them on the App's page")
    hook = forge.hook()
    wanted = settings.base_url + WEBHOOK_PATH
    if hook.get("url") != wanted:
        yield Finding(ok=False, words=f"The App sends its webhooks to {hook.get('url') or 'nowhere'}, not to {wanted}.")
    else:
        yield Finding(ok=True, words=f"The App sends its webhooks to {wanted}")
    bad = [d for d in forge.hook_deliveries() if not 200 <= int(d.get("status_code") or 0) < 300]
    if any(d.get("status_code") == _UNAUTHORIZED for d in bad):
        yield Finding(
            ok=False, words="GitHub's latest deliveries were refused (401): the App has another webhook secret."
        )
    elif bad:
        said = bad[0].get("status") or bad[0].get("status_code")
        yield Finding(ok=False, words=f"{len(bad)} of GitHub's latest deliveries did not arrive ({said}).")


def _complete(what: str, lacking: list[str], advice: str) -> Finding:
    if lacking:
        return Finding(ok=False, words=f"The App lacks the {what} {', '.join(lacking)}. {advice}.")
    return Finding(ok=True, words=f"The App has the {what} that are needed")


def _projects(settings: Settings, forge: GitHubForge, known: Standing) -> list[Finding]:
    if not known.linked:
        words = "No project is linked to a repository on GitHub: groundspeed github link PROJECT OWNER/NAME"
        return [Finding(ok=False, words=words)]
    found: list[Finding] = []
    for one in known.linked:
        if one.state != "active":
            found.append(Finding(ok=False, words=f"{one.full_name} is {one.state}: install the App on it again."))
            continue
        found += _asked(lambda name=one.full_name: _repository(settings, forge, name))  # type: ignore[misc]
    return found


def _repository(settings: Settings, forge: GitHubForge, name: str) -> Iterator[Finding]:
    forge.repository(name)
    yield Finding(ok=True, words=f"{name} can be read")
    if forge.is_app:
        granted = dict(forge.installation_of(name).get("permissions") or {})
        if lacking := lacking_permissions(granted):
            yield Finding(ok=False, words=f"On {name} the App was not given {', '.join(lacking)}: accept them there.")
        return
    wanted = settings.base_url + WEBHOOK_PATH
    if not any((hook.get("config") or {}).get("url") == wanted for hook in forge.hooks_of(name)):
        yield Finding(ok=False, words=f"{name} has no webhook to {wanted}: add one with the secret, sending JSON.")
