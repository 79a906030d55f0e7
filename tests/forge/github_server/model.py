"""What the fake GitHub knows, and how it describes it: the fields that matter, named as GitHub names them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


def stamp(at: datetime | None = None) -> str:
    return (at or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Pull:
    number: int
    head_sha: str
    head_ref: str
    base_sha: str
    base_ref: str = "main"
    title: str = "A change"
    author: str = "ann"
    association: str = "MEMBER"
    fork: str = ""
    """Full name of the fork that it comes from; empty: the repository itself."""
    state: str = "open"
    merged: bool = False
    draft: bool = False
    labels: list[str] = field(default_factory=list)
    updated_at: str = field(default_factory=stamp)


@dataclass
class Repo:
    id: int
    full_name: str
    clone_url: str = ""
    private: bool = False
    installation: int = 77
    pulls: dict[int, Pull] = field(default_factory=dict)
    permissions: dict[str, str] = field(default_factory=dict)
    """Role by user; others have read."""
    comments: dict[int, dict[str, Any]] = field(default_factory=dict)
    said: list[dict[str, Any]] = field(default_factory=list)
    """Comments of people, oldest first."""
    reactions: dict[int, list[str]] = field(default_factory=dict)
    checks: dict[int, dict[str, Any]] = field(default_factory=dict)
    check_log: list[tuple[int, str, str | None, str]] = field(default_factory=list)
    """(id, status, conclusion, title) of every write."""
    statuses: list[dict[str, Any]] = field(default_factory=list)
    issues: dict[int, dict[str, Any]] = field(default_factory=dict)
    hooks: list[dict[str, Any]] = field(default_factory=list)

    def describe(self) -> dict[str, Any]:
        owner, name = self.full_name.split("/")
        return {
            "id": self.id, "name": name, "full_name": self.full_name, "private": self.private,
            "owner": {"login": owner, "id": self.id * 10, "type": "Organization"}, "fork": False,
            "clone_url": self.clone_url or f"https://github.example/{self.full_name}.git", "default_branch": "main",
            "html_url": f"https://github.example/{self.full_name}",
        }  # fmt: skip

    def describe_pull(self, pull: Pull) -> dict[str, Any]:
        head = self.describe()
        if pull.fork:
            owner, name = pull.fork.split("/")
            head = head | {"id": self.id + 1_000_000, "full_name": pull.fork, "name": name, "fork": True}
            head["owner"] = {"login": owner, "id": 5, "type": "User"}
        return {
            "number": pull.number, "state": pull.state, "title": pull.title, "draft": pull.draft,
            "merged": pull.merged, "user": {"login": pull.author, "id": 4, "type": "User"},
            "author_association": pull.association, "labels": [{"name": label} for label in pull.labels],
            "head": {"sha": pull.head_sha, "ref": pull.head_ref, "repo": head},
            "base": {"sha": pull.base_sha, "ref": pull.base_ref, "repo": self.describe()},
            "updated_at": pull.updated_at, "created_at": pull.updated_at,
        }  # fmt: skip

    def verdict_comments(self) -> list[dict[str, Any]]:
        """Our comments with a verdict, oldest first."""
        return [one for one in self.comments.values() if one["body"].startswith("<!-- groundspeed")]

    def replies(self) -> list[str]:
        return [one["body"] for one in self.comments.values() if not one["body"].startswith("<!-- groundspeed")]
