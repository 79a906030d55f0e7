"""Checked-out revisions: worktrees of a bare mirror, cached by slot, whole after any kill.

``<root>/<project>/<sha>-<overlay>/`` holds ``src`` (the worktree), ``env`` (an environment built from this very
tree, if one was) and ``ready.json``, which is written last: a folder without it is thrown away.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from groundspeed.service.wire import v1
from groundspeed.workers.errors import CheckoutFailed
from groundspeed.workers.git import Access, Git, GitFailed, access
from groundspeed.workers.mirror import Mirror
from groundspeed.workers.overlay import inner_path, lay_over, overlay_tree
from groundspeed.workers.settings import Credential

_LFS = (
    "-c", "filter.lfs.clean=git-lfs clean -- %f",
    "-c", "filter.lfs.smudge=git-lfs smudge -- %f",
    "-c", "filter.lfs.process=git-lfs filter-process",
    "-c", "filter.lfs.required=true",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Checkout:
    """A revision on disk. ``git`` names its repository explicitly: the ``.git`` in it is never trusted again."""

    home: Path
    sha: str
    overlay: str
    git: tuple[str, ...]
    fresh: bool

    @property
    def source(self) -> Path:
        return self.home / "src"


class Checkouts:
    """The checkouts of one slot and one level of trust."""

    def __init__(
        self,
        cache: Path,
        slot: int,
        git: Git,
        credentials: Mapping[str, Credential],
        keep: int,
        stop: threading.Event,
    ) -> None:
        self._mirrors = cache / "mirrors"
        self._root = cache / "checkouts" / f"slot{slot}"
        self._git = git
        self._credentials = credentials
        self._keep = keep
        self._stop = stop

    def get(self, job: v1.JobSpec, sha: str) -> Checkout:
        """The revision as it is in the repository, with the tip's benchmarks laid over when the job says so.

        Raises CheckoutFailed in words, with whether another try may help.
        """
        reach = access(job.repo_url, job.credential, self._credentials)
        mirror = Mirror(self._mirrors, reach, self._git, self._stop)
        try:
            with mirror.locked():
                mirror.ensure([sha, job.tip_sha])
                overlay = overlay_tree(mirror, sha, job.tip_sha, job.build)
            home = self._root / _slug(job.project) / f"{sha[:20]}-{overlay[:10] or 'own'}"
            found = self._reuse(home, sha, overlay, mirror, job)
            if found is None:
                found = self._create(home, sha, overlay, mirror, job, reach)
        except GitFailed as error:
            raise CheckoutFailed(f"Commit {sha} cannot be checked out. {error}", transient=error.transient) from error
        except OSError as error:
            raise CheckoutFailed(f"Commit {sha} cannot be checked out: {error}.", transient=True) from error
        self._evict(home)
        return found

    def forget(self, checkout: Checkout) -> None:
        """Remove a checkout for good (untrusted code has had it in its hands)."""
        shutil.rmtree(checkout.home, ignore_errors=True)

    def _reuse(self, home: Path, sha: str, overlay: str, mirror: Mirror, job: v1.JobSpec) -> Checkout | None:
        """The folder put back into its first state (ignored files, such as build products, stay); None: make it."""
        try:
            ready = json.loads((home / "ready.json").read_text(encoding="utf-8"))
            git = (f"--git-dir={ready['git_dir']}", f"--work-tree={home / 'src'}")
            if ready["sha"] != sha or not Path(ready["git_dir"]).is_dir() or ready["options"] != _options(job):
                return None
            self._restore(home / "src", git, sha)
            if overlay:
                lay_over(home / "src", git, mirror, job.tip_sha, job.build.benchmarks)
        except (OSError, ValueError, KeyError, GitFailed):
            return None
        os.utime(home / "ready.json")
        return Checkout(home, sha, overlay, git, fresh=False)

    def _create(self, home: Path, sha: str, overlay: str, mirror: Mirror, job: v1.JobSpec, reach: Access) -> Checkout:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        source = home / "src"
        with mirror.locked():
            mirror.run("worktree", "prune", "--expire", "now")
            # Twice: also over what a killed "worktree add" has left locked.
            mirror.run(
                "worktree", "add", "--quiet", "--force", "--force", "--detach", "--no-checkout", str(source), sha
            )
            git_dir = (source / ".git").read_text(encoding="utf-8").removeprefix("gitdir:").strip()
            git = (f"--git-dir={git_dir}", f"--work-tree={source}")
            self._restore(source, git, sha)
            if job.build.submodules:
                self._submodules(source, mirror, reach)
            if job.build.lfs:
                self._lfs(source, git, mirror, reach, sha)
        if overlay:
            lay_over(source, git, mirror, job.tip_sha, job.build.benchmarks)
        _write_ready(home, {"sha": sha, "git_dir": git_dir, "options": _options(job)})
        return Checkout(home, sha, overlay, git, fresh=True)

    def _restore(self, source: Path, git: tuple[str, ...], sha: str) -> None:
        self._git.run(*git, "reset", "--quiet", "--hard", sha, cwd=source, stop=self._stop)
        self._git.run(*git, "clean", "-ffdq", cwd=source, stop=self._stop)

    def _submodules(self, source: Path, mirror: Mirror, reach: Access) -> None:
        allow = "always" if reach.local else "never"
        options = ("-c", f"protocol.file.allow={allow}", "-c", f"remote.origin.url={reach.url}")
        mirror.run(*options, "submodule", "--quiet", "sync", "--recursive", cwd=source)
        mirror.run(
            *options, "submodule", "--quiet", "update", "--init", "--recursive", "--force", cwd=source, online=True
        )

    def _lfs(self, source: Path, git: tuple[str, ...], mirror: Mirror, reach: Access, sha: str) -> None:
        if shutil.which("git-lfs") is None:
            raise CheckoutFailed(
                "The project keeps files in Git LFS ([build] lfs = true), and git-lfs is not installed on this node."
            )
        url = f"file://{reach.url}" if reach.url.startswith("/") else reach.url
        options = (*_LFS, "-c", f"remote.origin.url={url}", *git)
        mirror.run(*options, "lfs", "fetch", "origin", sha, cwd=source, online=True)
        mirror.run(*options, "lfs", "checkout", cwd=source)

    def _evict(self, used: Path) -> None:
        """Keep the most recently used; a folder that was never finished goes first."""
        homes = [path for path in self._root.glob("*/*") if path.is_dir() and path != used]
        homes.sort(key=_used_at, reverse=True)
        for home in homes[max(self._keep - 1, 0) :]:
            shutil.rmtree(home, ignore_errors=True)


def source_paths(checkout: Checkout, build: v1.BuildSpec) -> tuple[str, ...]:
    """The folders of the checkout that go on sys.path. Raises CheckoutFailed for one that leads out of it."""
    folders = (inner_path(path) for path in build.paths)
    return tuple(str(checkout.source / folder) if folder else str(checkout.source) for folder in folders)


def _options(job: v1.JobSpec) -> list[bool]:
    return [job.build.submodules, job.build.lfs]


def _used_at(home: Path) -> float:
    try:
        return (home / "ready.json").stat().st_mtime
    except OSError:
        return 0.0 if time.time() - home.stat().st_mtime > 3600.0 else time.time()


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:60].strip("-") or "project"


def _write_ready(home: Path, document: Mapping[str, object]) -> None:
    temporary = home / "ready.json.tmp"
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(home / "ready.json")
