"""Lay the benchmark folder of the request's tip over older code, so that one benchmark measures all commits."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

from groundspeed.service.wire import v1
from groundspeed.workers.errors import CheckoutFailed
from groundspeed.workers.git import GitFailed
from groundspeed.workers.mirror import Mirror


def overlay_tree(mirror: Mirror, sha: str, tip_sha: str, build: v1.BuildSpec) -> str:
    """Identity of the folder to be laid over; empty when the revision's own is right.

    Raises CheckoutFailed when the tip has no such folder.
    """
    folder = inner_path(build.benchmarks)
    if build.source != "tip" or folder is None or sha == tip_sha:
        return ""
    try:
        tree = mirror.run("rev-parse", "--verify", "--quiet", f"{tip_sha}:{folder}")
    except GitFailed as error:
        raise CheckoutFailed(
            f"The benchmark folder {build.benchmarks!r} ([build] benchmarks) is not in commit {tip_sha[:12]}."
        ) from error
    try:
        own = mirror.run("rev-parse", "--verify", "--quiet", f"{sha}:{folder}")
    except GitFailed:
        own = ""
    return "" if own == tree else tree


def lay_over(source: Path, git: tuple[str, ...], mirror: Mirror, tip_sha: str, benchmarks: str) -> None:
    """Replace the folder in the checkout. ``git``: options that name the checkout's repository and work tree."""
    folder = inner_path(benchmarks)
    assert folder is not None
    _clear(source, folder)
    mirror.run("--literal-pathspecs", *git, "checkout", "--quiet", "--force", tip_sha, "--", str(folder), cwd=source)


def inner_path(text: str) -> PurePosixPath | None:
    """A folder inside the checkout, None for none. Raises CheckoutFailed for one that leads out of it."""
    if not text or text == ".":
        return None
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or path.parts[0] == ".git":
        raise CheckoutFailed(f"The folder {text!r} does not lie inside the repository.")
    return path


def _clear(source: Path, folder: PurePosixPath) -> None:
    """Remove the old folder without ever following a link out of the checkout."""
    place = source
    for part in folder.parts:
        place /= part
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            place.unlink()
            return
    if place.is_dir():
        shutil.rmtree(place)
