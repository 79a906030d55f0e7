"""Where a repository lies: checked before git ever sees it."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from pathlib import Path

from groundspeed.service.addresses import apart
from groundspeed.service.errors import Invalid
from groundspeed.service.repo.git import GitFailed, git

_SCHEMES = frozenset({"https", "http", "ssh", "git", "file"})
_SCP = re.compile(r"^(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?!/)[^\s:][^\s]*$")


def canonical(location: str) -> str:
    """A URL as it is, or the absolute path of the repository's top folder.

    Raises :class:`Invalid` for anything that is neither, that carries a password, or that is no git repository.
    """
    location = location.strip()
    if not location or location.startswith("-") or any(ord(c) < 32 for c in location):
        raise Invalid(f"{location!r} is no repository.", "Give a path or a URL (https://, ssh:// or git@host:path).")
    if "://" in location:
        return _url(location)
    if _SCP.match(location) and not os.path.exists(location):  # noqa: PTH110 - this one never raises
        return location
    return _folder(location)


def mirror_name(url: str) -> str:
    """Name of the folder that mirrors ``url``: readable, and unique by its digest."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", url.rstrip("/").rsplit("/", 1)[-1].rsplit(":", 1)[-1]).strip("-.")
    return f"{readable.removesuffix('.git')[:40] or 'repository'}-{hashlib.sha256(url.encode()).hexdigest()[:12]}.git"


def authorization(url: str, secret: str) -> dict[str, str]:
    """Environment that gives ``secret`` to git for the host of ``url`` alone; it never stands in an argument."""
    parts = apart(url)
    if parts.scheme not in {"https", "http"}:
        return {}
    user_secret = secret if ":" in secret else f"x-access-token:{secret}"
    value = base64.b64encode(user_secret.encode()).decode()
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.{parts.scheme}://{parts.netloc}/.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {value}",
    }


def _url(location: str) -> str:
    parts = apart(location)
    if not parts.netloc and not parts.path:
        raise Invalid(f"{location[:200]!r} is no URL.", "Give one like https://host/owner/name, or a path.")
    if parts.scheme not in _SCHEMES:
        allowed = ", ".join(sorted(_SCHEMES))
        raise Invalid(f"A repository cannot be reached by {parts.scheme}://.", f"Use one of {allowed}, or a path.")
    if parts.password is not None:
        raise Invalid(
            "The repository's URL holds a password.",
            "Leave it out and name a credential, whose value stands in GROUNDSPEED_CREDENTIAL_<NAME>.",
        )
    if parts.scheme == "file":
        return _folder(parts.path)
    return location


def _folder(location: str) -> str:
    try:
        path = Path(location).expanduser().absolute()
        there = path.is_dir()
    except (OSError, RuntimeError) as error:  # not to be looked at, too long, the home of nobody
        why = getattr(error, "strerror", None) or str(error)
        raise Invalid(
            f"{location[:200]!r} cannot be looked at: {why}.", "Give a path that this user may read."
        ) from None
    if not there:
        raise Invalid(f"{path} is not a folder.", "Give the path of a git repository, or a URL.")
    try:
        if git("rev-parse", "--is-bare-repository", cwd=path).strip() == "true":
            return git("rev-parse", "--absolute-git-dir", cwd=path).strip()
        return git("rev-parse", "--show-toplevel", cwd=path).rstrip("\n")
    except GitFailed as error:
        if "dubious ownership" in error.stderr:
            raise Invalid(
                f"{path} belongs to another user, and git refuses to read it.",
                f"Run: git config --global --add safe.directory {path}",
            ) from None
        raise Invalid(
            f"{path} is not a git repository.", "Give the path of one, or start one there with: git init"
        ) from None
