"""Bare mirrors in the data folder: made once, fetched again, safe against processes that do it at the same time."""

from __future__ import annotations

import fcntl
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from groundspeed.service.errors import Invalid, Unavailable
from groundspeed.service.repo.git import GitFailed, git
from groundspeed.service.repo.location import authorization, canonical, mirror_name
from groundspeed.service.repo.reader import Repository

_DAMAGE = re.compile(
    r"bad object|corrupt|object file .* is empty|missing (blob|tree|commit)|not a git repository: '|unable to read|"
    r"bad ref|invalid object|did not send all necessary objects|cannot lock ref",
    re.IGNORECASE,
)
_REASONS = ("fatal:", "error:", "ERROR:", "ssh:", "remote: error")


@dataclass(frozen=True, slots=True)
class Mirrors:
    """``root`` holds one bare repository per URL; ``credentials`` are tokens by name."""

    root: Path
    credentials: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 600.0

    def open(self, url: str, credential: str | None = None, *, fetch: bool = True) -> Repository:
        """The mirror of ``url``, made when there is none, brought up to date when ``fetch``.

        Raises :class:`Invalid` when the URL is no repository or is a shallow clone, :class:`Unavailable` when it
        cannot be reached now.
        """
        url = canonical(url)
        path = self.root / mirror_name(url)
        env = self._env(url, credential)
        with self._locked(path) as hold:
            if not (path / "HEAD").is_file():
                self._clone(url, path, env, hold)
            elif fetch:
                self._fetch_or_clone(url, path, env, hold)
        repository = Repository(url, path)
        if git(f"--git-dir={path}", "rev-parse", "--is-shallow-repository").strip() == "true":
            shutil.rmtree(path, ignore_errors=True)
            raise Invalid(
                f"{url} is a shallow clone: the history to be measured is not there.",
                "Complete it with: git fetch --unshallow",
            )
        return repository

    def bring(self, url: str, credential: str | None, refspec: str) -> bool:
        """Fetch one more thing that is no branch or tag (a pull request's head) into the mirror, which must exist.

        False: the repository has no such ref. Raises as :meth:`open`.
        """
        url = canonical(url)
        path = self.root / mirror_name(url)
        env = self._env(url, credential)
        with self._locked(path) as hold:
            try:
                git(f"--git-dir={path}", "fetch", "--quiet", "--no-tags", "--no-auto-gc", "--", url, f"+{refspec}",
                    env=env, timeout_s=self.timeout_s, hold=hold)  # fmt: skip
            except GitFailed as error:
                if "find remote ref" in error.stderr or "not our ref" in error.stderr:
                    return False
                raise _in_words(url, error.stderr) from None
        return True

    def _env(self, url: str, credential: str | None) -> dict[str, str]:
        if credential is None:
            return {}
        secret = self.credentials.get(credential.lower())
        if secret is None:
            raise Invalid(
                f"The credential {credential!r} is not known to the service.",
                f"Set GROUNDSPEED_CREDENTIAL_{credential.upper()} (or …_FILE) for the service and start it again.",
            )
        return authorization(url, secret)

    @contextmanager
    def _locked(self, path: Path) -> Iterator[tuple[int, ...]]:
        """Gives the lock's descriptor. A git that outlives us holds it too, so what lies there is nobody's any more."""
        self.root.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            for left in (*path.glob("*.lock"), *(path / "refs").rglob("*.lock"), *path.glob("objects/pack/tmp_*")):
                left.unlink(missing_ok=True)
            for folder in self.root.glob(f".clone-{path.name}-*"):
                shutil.rmtree(folder, ignore_errors=True)
            yield (handle.fileno(),)

    def _clone(self, url: str, path: Path, env: Mapping[str, str], hold: tuple[int, ...]) -> None:
        """Into a temporary name first: a mirror is whole or absent. It takes the place of one that was damaged."""
        temporary = Path(tempfile.mkdtemp(prefix=f".clone-{path.name}-", dir=self.root))
        try:
            self._remote(url, "clone", "--quiet", "--mirror", "--", url, str(temporary / "git"), env=env, hold=hold)
            if path.exists():
                path.rename(temporary / "damaged")
            (temporary / "git").rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _fetch_or_clone(self, url: str, path: Path, env: Mapping[str, str], hold: tuple[int, ...]) -> None:
        """A mirror that lost objects (power or disk went away at a bad moment) is made anew."""
        try:
            self._fetch(url, path, env, hold)
        except (Invalid, Unavailable) as error:
            if not _DAMAGE.search(error.title):
                raise
            self._clone(url, path, env, hold)

    def _fetch(self, url: str, path: Path, env: Mapping[str, str], hold: tuple[int, ...]) -> None:
        """Branches, tags and HEAD (which in a person's own clone may be detached)."""
        at = f"--git-dir={path}"
        head = self._remote(url, "ls-remote", "--symref", "--", url, "HEAD", env=env, hold=hold).split("\n")[:-1]
        refs = [
            "+refs/heads/*:refs/heads/*",
            "+refs/tags/*:refs/tags/*",
            *(["+HEAD:refs/groundspeed/head"] if head else []),
        ]
        self._remote(url, at, "fetch", "--quiet", "--prune", "--no-auto-gc", "--", url, *refs, env=env, hold=hold)
        if head and head[0].startswith("ref: "):
            git(at, "symbolic-ref", "HEAD", head[0].split("\t")[0].removeprefix("ref: "))
        elif head:
            git(at, "update-ref", "--no-deref", "HEAD", "refs/groundspeed/head")

    def _remote(self, url: str, *arguments: str, env: Mapping[str, str], hold: tuple[int, ...]) -> str:
        try:
            return git(*arguments, env=env, timeout_s=self.timeout_s, hold=hold)
        except GitFailed as error:
            raise _in_words(url, error.stderr) from None


def _in_words(url: str, stderr: str) -> Invalid | Unavailable:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()] or ["no reason given"]
    said = next((line for line in lines if line.startswith(_REASONS)), lines[-1])
    low = stderr.lower()
    if "authentication failed" in low or "could not read username" in low or "permission denied" in low:
        return Invalid(
            f"{url} does not let the service in ({said}).",
            "Name a credential for the project and set GROUNDSPEED_CREDENTIAL_<NAME>, or give ssh a key.",
        )
    if "does not appear to be a git repository" in low or "not found" in low or "does not exist" in low:
        return Invalid(f"{url} is not a git repository ({said}).", "Correct the path or URL.")
    return Unavailable(f"{url} could not be read ({said}).", "It is tried again; look at the network and the URL.")
