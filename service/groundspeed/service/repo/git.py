"""Running git: argument lists only, no prompt, no configuration of the machine's that could run something."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

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
) -> str:
    """Standard output of a git command, decoded with replacement. ``hold``: descriptors of locks that it keeps.

    Raises :class:`GitFailed`, or :class:`Unavailable` when git is missing or takes longer than ``timeout_s``.
    """
    with _told(arguments, cwd, timeout_s):
        done = subprocess.run(
            _command(arguments),
            cwd=cwd,
            env=_environment(env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            pass_fds=hold,
        )
    if done.returncode != 0:
        raise GitFailed(arguments, done.returncode, done.stderr.decode(errors="replace"))
    return done.stdout.decode("utf-8", "replace")


@contextmanager
def started(*arguments: str, cwd: Path, timeout_s: float) -> Iterator[Callable[[], str]]:
    """Has git run beside what the block does; gives what waits for its standard output, and raises as :func:`git`."""
    with TemporaryFile() as output, TemporaryFile() as errors:
        with _told(arguments, cwd, timeout_s):
            process = subprocess.Popen(
                _command(arguments),
                cwd=cwd,
                env=_environment({}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )

        def said() -> str:
            with _told(arguments, cwd, timeout_s):
                status = process.wait(timeout_s)
            for file in (output, errors):
                file.seek(0)
            if status != 0:
                raise GitFailed(arguments, status, errors.read().decode(errors="replace"))
            return output.read().decode("utf-8", "replace")

        try:
            yield said
        finally:
            process.kill()
            process.wait()


def _command(arguments: Sequence[str]) -> list[str]:
    return ["git", *(word for setting in _SETTINGS for word in ("-c", setting)), *arguments]


@contextmanager
def _told(arguments: Sequence[str], cwd: Path | None, timeout_s: float) -> Iterator[None]:
    """Says in words why git cannot be run, or did not end."""
    try:
        yield
    except FileNotFoundError:
        if cwd is not None and not cwd.is_dir():
            raise Unavailable(f"There is no folder {cwd}.", "Name one that is there.") from None
        raise Unavailable("git is not installed.", "Install git (2.25 or later) and start again.") from None
    except (PermissionError, NotADirectoryError) as error:
        raise Unavailable(f"git cannot be run in {cwd}: {error.strerror}.", "May this user go there?") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"git {arguments[0]} took longer than {timeout_s:.0f} s.",
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
