"""Running git: argument lists only, no prompt, no configuration of the machine's that could run something."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from groundspeed.service.errors import Unavailable

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "protocol.ext.allow=never",
    "core.fsmonitor=false",
    "safe.directory=*",
    "gc.auto=0",
    "core.useReplaceRefs=false",
)


class GitFailed(Exception):
    """git ended with an error; ``stderr`` is what it said."""

    def __init__(self, arguments: Sequence[str], status: int, stderr: str) -> None:
        super().__init__(f"git {arguments[0]} ended with status {status}: {stderr.strip()}")
        self.stderr = stderr


def git(
    *arguments: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
    hold: Sequence[int] = (),
    long: bool = False,
) -> str:
    """Standard output of a git command, decoded with replacement. ``hold``: descriptors of locks that it keeps.
    ``long``: megabytes are expected, which come through a file in one piece.

    Raises :class:`GitFailed`, or :class:`Unavailable` when git is missing or takes longer than ``timeout_s``.
    """
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    with TemporaryFile() if long else nullcontext() as file:
        done = _run(["git", *settings, *arguments], cwd, env or {}, timeout_s, hold, file)
        if done.returncode != 0:
            raise GitFailed(arguments, done.returncode, done.stderr.decode(errors="replace"))
        if file is not None:
            file.seek(0)
        return (done.stdout if file is None else file.read()).decode("utf-8", "replace")


def _run(
    command: Sequence[str],
    cwd: Path | None,
    env: Mapping[str, str],
    timeout_s: float,
    hold: Sequence[int],
    file: IO[bytes] | None,
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env=_environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if file is None else file,
            stderr=subprocess.PIPE,
            timeout=timeout_s,
            check=False,
            pass_fds=hold,
        )
    except FileNotFoundError:
        if cwd is not None and not cwd.is_dir():
            raise Unavailable(f"There is no folder {cwd}.", "Name one that is there.") from None
        raise Unavailable("git is not installed.", "Install git (2.25 or later) and start again.") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"git {command[1 + 2 * len(_SETTINGS)]} took longer than {timeout_s:.0f} s.",
            "Look at the network, or raise GROUNDSPEED_GIT_TIMEOUT_S.",
        ) from None


_LOCAL = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_PARAMETERS",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NAMESPACE",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
"""What `git rev-parse --local-env-vars` lists."""


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The process's own without what would turn git to another repository (as in a hook), and without prompts."""
    kept = {key: value for key, value in os.environ.items() if key not in _LOCAL}
    kept.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
    return kept | {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", **extra}
