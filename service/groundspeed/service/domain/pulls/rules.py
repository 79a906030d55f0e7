"""Which pull requests are measured, and whose code is a stranger's. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from groundspeed.service.domain.pulls.forge import Permission

Decision = Literal["run", "approval", "nothing", "draft", "unlabelled"]

KNOWN_AUTHORS = frozenset({"OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR"})
"""Relations to a repository of those who have had code in it before."""
MAINTAINERS: frozenset[Permission] = frozenset({"write", "maintain", "admin"})
"""Permissions with which a stranger's code may be let run, and a regression accepted."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What the rules look at. ``changed``: paths that differ between merge base and head."""

    from_fork: bool
    association: str
    draft: bool
    labels: Collection[str]
    changed: Sequence[str]
    approved: bool
    """A maintainer let this very head run."""


@dataclass(frozen=True, slots=True)
class Rules:
    """From groundspeed.toml of the base branch."""

    paths_ignore: tuple[str, ...] = ()
    drafts: bool = False
    label: str | None = None


def untrusted(*, from_fork: bool, association: str) -> bool:
    """Whether the code is a stranger's: from a fork, or by somebody who has had nothing merged yet."""
    return from_fork or association not in KNOWN_AUTHORS


def decide(candidate: Candidate, rules: Rules, *, lifted: bool = False) -> Decision:
    """What is done about a head. ``lifted``: a maintainer asked for it by command, so only approval can hold it up."""
    if not lifted:
        if candidate.draft and not rules.drafts:
            return "draft"
        if rules.label is not None and rules.label not in candidate.labels:
            return "unlabelled"
        if all(ignored(path, rules.paths_ignore) for path in candidate.changed):
            return "nothing"
    stranger = untrusted(from_fork=candidate.from_fork, association=candidate.association)
    return "approval" if stranger and not candidate.approved else "run"


def ignored(path: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern covers the path: ``**`` any folders, ``*`` within one name; without a slash, at any depth.

    >>> ignored("docs/a/b.rst", ["docs/**"]), ignored("a/README.md", ["*.md"]), ignored("src/a.py", ["docs/**"])
    (True, True, False)
    """
    name = path.rsplit("/", 1)[-1]
    return any(_compiled(p).fullmatch(path if "/" in p else name) for p in patterns)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern.lstrip("/"))
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(words.get(part, re.escape(part)) for part in parts), re.DOTALL)
