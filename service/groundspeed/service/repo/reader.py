"""A repository's history read through a bare mirror: commits, positions, ranges, files at a revision."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from groundspeed.service.errors import Invalid, NotFound
from groundspeed.service.repo.git import GitFailed, git

_FORMAT = "%H%x00%P%x00%an%x00%at%x00%ct%x00%s"
_FIELDS = 6
_SHA = re.compile(r"^[0-9a-f]{40}([0-9a-f]{24})?$")


@dataclass(frozen=True, slots=True)
class Commit:
    """``position`` counts first parents from the root (0) where that is known."""

    sha: str
    parents: tuple[str, ...]
    author: str
    authored_at: datetime
    committed_at: datetime
    title: str
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Repository:
    """A mirror on disk. ``url`` is where it comes from, for messages. Nothing here goes to the network."""

    url: str
    path: Path

    def resolve(self, name: str) -> str:
        """The commit that ``name`` (sha, branch, tag, ``main~3``) stands for; raises :class:`Invalid`."""
        if not name or name.startswith("-") or any(ord(c) <= 32 for c in name):
            raise Invalid(f"{name!r} is no commit.", "Give a sha, a branch or a tag.")
        try:
            return self._git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").strip()
        except GitFailed:
            raise Invalid(
                f"{self.url} has no commit {name!r}.", "Look at it with `git log`; is it pushed, and spelled as there?"
            ) from None

    def _named(self, name: str) -> str:
        """A whole commit name as it is (the command that is given it finds out), anything else resolved."""
        return name if is_sha(name) else self.resolve(name)

    def has(self, sha: str) -> bool:
        """Whether the commit is here, on whatever branch or none."""
        try:
            self.resolve(sha)
        except Invalid:
            return False
        return True

    def branch_tip(self, branch: str) -> str:
        """The newest commit of a branch; raises :class:`Invalid` naming the branches there are."""
        try:
            return self.resolve(f"refs/heads/{branch}")
        except Invalid:
            known = self.branches()
            found = f"It has {', '.join(known[:8])}." if known else "It has no commit yet: commit something first."
            raise Invalid(f"{self.url} has no branch {branch!r}.", found) from None

    def branches(self) -> list[str]:
        return _lines(self._git("for-each-ref", "--format=%(refname:strip=2)", "refs/heads"))

    def head_branch(self) -> str | None:
        """The branch that HEAD names; None when it is detached."""
        try:
            return self._git("symbolic-ref", "--quiet", "HEAD").strip().removeprefix("refs/heads/")
        except GitFailed:
            return None

    def history(self, tip: str, limit: int) -> list[Commit]:
        """The newest ``limit`` first parents of ``tip``, newest first, with positions."""
        commits = self._log("--first-parent", f"--max-count={limit}", tip)
        last = int(self._git("rev-list", "--count", "--first-parent", tip)) - 1
        return [replace(commit, position=last - i) for i, commit in enumerate(commits)]

    def since(self, base: str, tip: str) -> list[Commit]:
        """First parents of ``tip`` that ``base`` does not reach, oldest first, with positions counted along ``tip``."""
        commits = self._log("--first-parent", tip, f"^{base}")
        last = int(self._git("rev-list", "--count", "--first-parent", tip)) - 1
        return [replace(commit, position=last - i) for i, commit in enumerate(commits)][::-1]

    def range(self, text: str) -> list[Commit]:
        """The commits of ``a..b`` (after a, up to b, along first parents) or of one name, oldest first.

        Raises :class:`Invalid` when a side is unknown or nothing lies between.
        """
        if ".." not in text:
            return self._log("--max-count=1", self.resolve(text))
        left, _, right = text.partition("...") if "..." in text else text.partition("..")
        base, tip = self.resolve(left.strip() or "HEAD"), self.resolve(right.strip() or "HEAD")
        if "..." in text:
            base = self.merge_base(base, tip) or base
        commits = self.since(base, tip)
        if not commits:
            turned = (
                f" {right}..{left} is not empty: turn it round." if self._log("--max-count=1", base, f"^{tip}") else ""
            )
            raise Invalid(f"The range {text} is empty.{turned}", "A range a..b holds the commits after a, up to b.")
        return commits

    def commit(self, sha: str) -> Commit:
        return self._log("--max-count=1", self.resolve(sha))[0]

    def merge_base(self, one: str, other: str) -> str | None:
        """The nearest commit that both reach; None when they have none."""
        try:
            return self._git("merge-base", self._named(one), self._named(other)).strip()
        except GitFailed:
            return None

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether ``old`` is reached from ``new``; false when either is not here."""
        try:
            self._git("merge-base", "--is-ancestor", self.resolve(old), self.resolve(new))
        except (GitFailed, Invalid):
            return False
        return True

    def on_a_branch(self, sha: str) -> bool:
        """Whether a branch or tag of the repository reaches the commit: somebody who may write there put it in."""
        out = self._git("for-each-ref", "--count=1", "--format=%(refname)", "--contains", self._named(sha),
                        "refs/heads", "refs/tags")  # fmt: skip
        return bool(out.strip())

    def changed(self, base: str, head: str) -> list[str]:
        """Paths that differ between two commits; of a renamed file both names."""
        out = self._git("diff", "--name-only", "--no-renames", "-z", self._named(base), self._named(head), "--")
        return [path for path in out.split("\0") if path]

    def read(self, sha: str, path: str, max_bytes: int = 2_000_000) -> str:
        """A text file at a revision; raises :class:`NotFound` when it is not there, :class:`Invalid` when too large."""
        name = f"{self._named(sha)}:{path}"
        try:
            if int(self._git("cat-file", "-s", name)) > max_bytes:
                raise Invalid(f"{path} at {sha[:12]} is larger than {max_bytes} bytes.", "Is it the right file?")
            return self._git("cat-file", "blob", name)
        except GitFailed:
            raise NotFound(f"{self.url} has no file {path} at {sha[:12]}.", "Is it committed?") from None

    def tags(self) -> dict[str, list[str]]:
        """Names of tags by the commit they stand for."""
        found: dict[str, list[str]] = {}
        lines = self._git("for-each-ref", "--format=%(objectname) %(*objectname) %(refname:strip=2)", "refs/tags")
        for line in _lines(lines):
            tag, peeled, name = line.split(" ", 2)
            found.setdefault(peeled or tag, []).append(name)
        return found

    def _log(self, *arguments: str) -> list[Commit]:
        out = self._git("log", "-z", f"--format={_FORMAT}", "--no-show-signature", *arguments, "--")
        fields = out.split("\0")
        rows = [fields[i : i + _FIELDS] for i in range(0, len(fields) - _FIELDS + 1, _FIELDS)]
        return [_commit(row) for row in rows]

    def _git(self, *arguments: str) -> str:
        return git(f"--git-dir={self.path}", *arguments)


def _commit(row: list[str]) -> Commit:
    sha, parents, author, authored, committed, title = row
    return Commit(sha.strip(), tuple(parents.split()), author, _time(authored), _time(committed), title)


def _lines(text: str) -> list[str]:
    """Names of branches may have what Unicode calls ends of lines and spaces in them."""
    return [line for line in text.split("\n") if line]


def _time(seconds: str) -> datetime:
    """Dates in commits are anyone's to invent: one that no calendar holds becomes the epoch."""
    try:
        return datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def is_sha(text: str) -> bool:
    """Whether ``text`` is a whole commit name."""
    return bool(_SHA.match(text))
