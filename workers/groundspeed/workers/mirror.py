"""A bare mirror of one repository, shared by all its checkouts; whole after any kill."""

from __future__ import annotations

import hashlib
import re
import shutil
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from groundspeed.workers.errors import CheckoutFailed
from groundspeed.workers.git import Access, Git, GitFailed
from groundspeed.workers.locks import LockTimeout, locked

MANY_PACKS = 40


class Mirror:
    """One folder and its lock. All but ``locked`` is called with the lock held."""

    def __init__(self, root: Path, access: Access, git: Git, stop: threading.Event) -> None:
        slug = re.sub(r"[^A-Za-z0-9]+", "-", access.url.rstrip("/").removesuffix(".git"))[-40:].strip("-")
        self.path = root / f"{slug}-{hashlib.sha256(access.url.encode()).hexdigest()[:12]}.git"
        self._lock_path = self.path.with_suffix(".lock")
        self._access = access
        self._git = git
        self._stop = stop
        self._hold: tuple[int, ...] = ()

    @contextmanager
    def locked(self, wait_s: float = 3600.0) -> Iterator[None]:
        try:
            with locked(self._lock_path, wait_s=wait_s, stop=self._stop) as fd:
                self._hold = (fd,)
                try:
                    self._repair()
                    yield
                finally:
                    self._hold = ()
        except LockTimeout as error:
            raise CheckoutFailed(str(error), transient=True) from error

    def run(self, *arguments: str, cwd: Path | None = None, online: bool = False) -> str:
        """A git command on the mirror (or in ``cwd``); only an ``online`` one is given the credential."""
        where = () if cwd else (f"--git-dir={self.path}",)
        env = self._access.env if online else {}
        return self._git.run(*where, *arguments, cwd=cwd, env=env, hold=self._hold, stop=self._stop)

    def ensure(self, shas: Iterable[str]) -> None:
        """Fetch unless all commits are there. Raises CheckoutFailed."""
        missing = [sha for sha in dict.fromkeys(shas) if not self._has(sha)]
        if not missing:
            return
        try:
            self._fetch("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        except GitFailed as error:
            raise CheckoutFailed(
                f"The repository {self._access.url} cannot be fetched. {error}", transient=error.transient
            ) from error
        for sha in missing:
            self._ensure_one(sha)
        if len(list((self.path / "objects" / "pack").glob("*.pack"))) > MANY_PACKS:
            self.run("repack", "--geometric=2", "-d", "-q")

    def _ensure_one(self, sha: str) -> None:
        """A commit that no branch or tag reaches (a pull request, a rewritten branch) is asked for by its name."""
        try:
            if not self._has(sha):
                self._fetch(sha)
            self.run("update-ref", f"refs/groundspeed/{sha}", sha)
        except GitFailed as error:
            raise CheckoutFailed(
                f"The commit {sha} is not in {self._access.url} (any more), or the server does not hand it out. {error}"
            ) from error

    def _fetch(self, *refspecs: str) -> None:
        self.run(
            "fetch", "--quiet", "--force", "--no-tags", "--no-auto-gc", "--no-write-fetch-head",
            "--no-recurse-submodules", "--", self._access.url, *refspecs, online=True,
        )  # fmt: skip

    def _has(self, sha: str) -> bool:
        return self._git.ok(f"--git-dir={self.path}", "cat-file", "-e", f"{sha}^{{commit}}")

    def _repair(self) -> None:
        """With the lock held, nobody writes: locks and half-received packs are those of the killed."""
        if not (self.path / "HEAD").is_file():
            shutil.rmtree(self.path, ignore_errors=True)
            fresh = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}")
            self._git.run("init", "--quiet", "--bare", "--template=", str(fresh), stop=self._stop)
            fresh.rename(self.path)
        stale = [*self.path.glob("*.lock"), *(self.path / "refs").rglob("*.lock")]
        stale += [*self.path.glob("worktrees/*/*.lock"), *self.path.glob("objects/pack/tmp_*")]
        for path in stale:
            path.unlink(missing_ok=True)
