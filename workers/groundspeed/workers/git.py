"""The git command: own configuration only, a credential only for the host it belongs to, and an end in any case."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from groundspeed.workers.errors import CheckoutFailed, Stopped, WorkerError
from groundspeed.workers.output import harmless
from groundspeed.workers.settings import Credential

# Objects arrive in whole packs (unpackLimit), so that a killed fetch leaves a commit either complete or absent.
_CONFIG = """[safe]
\tdirectory = *
[core]
\thooksPath = /dev/null
\tfsmonitor = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[fetch]
\tunpackLimit = 1
[transfer]
\tunpackLimit = 1
[advice]
\tdetachedHead = false
[protocol "ext"]
\tallow = never
[credential]
\thelper =
"""
# Git asks: Username for 'https://host': / Password for 'https://user@host': and gets an answer for a listed host only.
_ASKPASS = """#!/bin/sh
for site in $GROUNDSPEED_GIT_SITES; do
  scheme=${site%%://*}; host=${site#*://}
  case "$1" in
    "Username for '$scheme://$host': "|"Username for '$scheme://"*"@$host': ") printf '%s\\n' "$GROUNDSPEED_GIT_USERNAME"; exit 0;;
    "Password for '$scheme://$host': "|"Password for '$scheme://"*"@$host': ") printf '%s\\n' "$GROUNDSPEED_GIT_PASSWORD"; exit 0;;
  esac
done
exit 1
"""  # noqa: E501 - a shell pattern does not break
_PASSED = re.compile(r"^(PATH|LANG|LC_\w+|TZ|TMPDIR|\w*_proxy|\w*_PROXY|SSL_CERT_\w+|GIT_SSL_CAINFO)$")
_PERMANENT = re.compile(
    r"Authentication failed|could not read Username|not found|does not exist|does not appear to be a git repository|"
    r"Permission denied|Repository not found|not our ref|unable to read askpass|unknown revision|pathspec",
    re.IGNORECASE,
)


class GitFailed(WorkerError):
    """``transient``: the network or the server, not the request."""

    def __init__(self, message: str, *, transient: bool) -> None:
        super().__init__(message)
        self.transient = transient


@dataclass(frozen=True, slots=True)
class Access:
    """How git may reach one repository: environment for the git process alone."""

    url: str
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def local(self) -> bool:
        """Whether the repository is a folder of this machine."""
        return self.url.startswith(("/", "./", "../", "file://"))


def access(url: str, name: str | None, credentials: Mapping[str, Credential]) -> Access:
    """Raises CheckoutFailed for a credential that this worker does not have."""
    if name is None:
        return Access(url)
    if name not in credentials:
        raise CheckoutFailed(
            f"The project's repository needs the credential {name!r}, which this worker does not have: add it to "
            "GROUNDSPEED_CREDENTIALS (or GROUNDSPEED_CREDENTIAL_<NAME>) of the worker."
        )
    credential = credentials[name]
    env: dict[str, str] = {}
    if credential.password is not None:
        env["GROUNDSPEED_GIT_USERNAME"] = credential.username
        env["GROUNDSPEED_GIT_PASSWORD"] = credential.password.get_secret_value()
        env["GROUNDSPEED_GIT_SITES"] = " ".join(_sites(url, credential.hosts))
    if credential.ssh_key is not None:
        env["GIT_SSH_COMMAND"] = f"ssh -i '{credential.ssh_key}' -o IdentitiesOnly=yes -o BatchMode=yes"
    return Access(url, env)


def _sites(url: str, hosts: tuple[str, ...]) -> list[str]:
    parts = urlsplit(url)
    own = [f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"] if parts.scheme in {"http", "https"} else []
    return own + [host if "://" in host else f"https://{host}" for host in hosts]


class Git:
    """Runs git with a home of its own."""

    def __init__(self, home: Path, timeout_s: float) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._home = home
        self._timeout_s = timeout_s
        self._config = home / "gitconfig"
        self._askpass = home / "askpass"
        self._config.write_text(_CONFIG, encoding="ascii")
        self._askpass.write_text(_ASKPASS, encoding="ascii")
        self._askpass.chmod(0o700)

    def run(
        self,
        *arguments: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        hold: Sequence[int] = (),
        stop: threading.Event | None = None,
    ) -> str:
        """Standard output, stripped. ``hold``: lock descriptors that the git process is to hold as well.

        Raises GitFailed with git's own words, and Stopped.
        """
        process = subprocess.Popen(
            ["git", *arguments],
            cwd=cwd or self._home,
            env=self._environment(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=hold,
            start_new_session=True,
        )
        output, errors = self._wait(process, arguments, stop)
        if process.returncode != 0:
            words = harmless(errors.decode("utf-8", "replace")).strip()[-2000:]
            raise GitFailed(f"git {_shown(arguments)} failed: {words}", transient=not _PERMANENT.search(words))
        return output.decode("utf-8", "replace").strip()

    def ok(self, *arguments: str, cwd: Path | None = None) -> bool:
        """Whether the command succeeds."""
        try:
            self.run(*arguments, cwd=cwd)
        except GitFailed:
            return False
        return True

    def _environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        passed = {name: value for name, value in os.environ.items() if _PASSED.match(name)}
        return {
            **passed,
            "LC_ALL": "C",
            "HOME": str(self._home),
            "GIT_CONFIG_GLOBAL": str(self._config),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": str(self._askpass),
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
            **extra,
        }

    def _wait(
        self, process: subprocess.Popen[bytes], arguments: Sequence[str], stop: threading.Event | None
    ) -> tuple[bytes, bytes]:
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return process.communicate(timeout=0.25)
            except subprocess.TimeoutExpired:
                stopped = stop is not None and stop.is_set()
                if not stopped and time.monotonic() < deadline:
                    continue
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if stopped:
                raise Stopped("shutdown")
            raise GitFailed(f"git {_shown(arguments)} took longer than {self._timeout_s:g} s", transient=True)


def _shown(arguments: Sequence[str]) -> str:
    """The subcommand and what follows, without the options before it."""
    words = list(arguments)
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] in {"-c", "-C"} else words[1:]
    return " ".join(words[:4])
