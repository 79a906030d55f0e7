"""What must be true of a person's own repository before its commits are measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from groundspeed.service.errors import Invalid

if TYPE_CHECKING:
    from groundspeed.service.repo import Mirrors
    from groundspeed.service.settings import Settings


def mirrors(settings: Settings) -> Mirrors:
    """The service's mirrors, shared with the processes that run."""
    from groundspeed.service.control.wiring import mirrors as wired

    return wired(settings)


def checked(place: str, *, allow_dirty: bool = False) -> str:
    """The repository's top folder, or the URL as it is.

    Raises Invalid when it is no repository, or has changes that no commit holds: what is measured would not be what
    lies there.
    """
    from groundspeed.service.repo.git import git
    from groundspeed.service.repo.location import canonical

    where = canonical(place)
    if "://" in where or not Path(where).is_dir() or not (Path(where) / ".git").exists():
        return where
    changed = git("status", "--porcelain", "--untracked-files=no", cwd=Path(where)).splitlines()
    if changed and not allow_dirty:
        files = ", ".join(line[3:] for line in changed[:3]) + (" and more" if len(changed) > 3 else "")
        raise Invalid(
            f"{where} has changes that are not committed ({files}), and commits are what is measured.",
            "Commit or stash them, or pass --allow-dirty to measure the commits without them.",
        )
    return where
