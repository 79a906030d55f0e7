"""Untrusted code runs in bubblewrap: namespaces of its own, no network but loopback, and only the files it needs.

A run sees the system's libraries, the stack's Python and torch layer, the staged plugins and its environment (all
read-only), its checkout, its scratch folder and its compile caches. A build may write its environment and, when
GROUNDSPEED_WORKER_PACKAGE_INDEX is set, reaches that index through a relay and nothing else. Where no sandbox works,
untrusted code is refused with the reason.
"""

from __future__ import annotations

import functools
import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from groundspeed.workers.process import Command
from groundspeed.workers.stack import Stack

RELAY = Path(__file__).with_name("relay.py")
NAME = "bubblewrap"
PROXY_PORT = 3128
_USER = "65534"
_SYSTEM = ("/usr", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ssl", "/etc/ca-certificates")
_SYSTEM_MORE = ("/etc/alternatives", "/etc/localtime", "/etc/nsswitch.conf", "/opt/rocm", "/sys/devices/system")
_MERGED = ("/bin", "/sbin", "/lib", "/lib64", "/lib32")
_DEVICES = ("/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm*", "/dev/kfd", "/dev/dri")
_RLIMITS = {"RLIMIT_NOFILE": 8192, "RLIMIT_FSIZE": 16 << 30, "RLIMIT_MEMLOCK": 64 << 20}
_TMPFS_BYTES = 4 << 30


@functools.cache
def available() -> tuple[str, str]:
    """Name of the working sandbox; and, when it is empty, why there is none and what to do. Tried once."""
    program = shutil.which("bwrap")
    if program is None:
        return "", "bubblewrap is not installed on this node (the package bubblewrap)"
    try:
        done = subprocess.run(
            [program, *_base(network=False), "--", "/bin/sh", "-c", "exit 0"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            env={"PATH": "/usr/bin:/bin"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        return "", f"bubblewrap cannot be run: {error}"
    if done.returncode != 0:
        return "", (
            f"bubblewrap does not work on this node ({done.stderr.strip()[-300:]}): allow unprivileged user "
            "namespaces, or, in a container, run it with a seccomp profile that permits them"
        )
    return NAME, ""


@dataclass(frozen=True, slots=True)
class Confinement:
    """Wraps the commands of one untrusted job. ``proxy``: socket of the way to the package index, if there is one."""

    stack: Stack
    memory_limit_bytes: int
    proxy: Path | None = None

    def for_build(self, command: Command) -> Command:
        """May write the checkout and the environment being built."""
        environment = Path(command.env["VIRTUAL_ENV"])
        read = [self.stack.layer, *_targets(self.stack.layer), *_targets(environment / "pip"), Path(sys.base_prefix)]
        env = {**command.env, "PIP_NO_CACHE_DIR": "1"}
        argv = command.argv
        if self.proxy is not None:
            read += [RELAY, self.proxy]
            address = f"http://127.0.0.1:{PROXY_PORT}"
            env |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), address)
            argv = (
                str(environment / "bin" / "python"),
                "-I",
                "-S",
                str(RELAY),
                str(self.proxy),
                str(PROXY_PORT),
                *argv,
            )
        return self._wrap(replace(command, argv=argv, env=env), read, [command.cwd, environment])

    def for_run(self, command: Command, *, read: Iterable[Path], write: Iterable[Path]) -> Command:
        """``read`` and ``write``: what this run needs besides the stack."""
        shared = [self.stack.layer, *_targets(self.stack.layer), *read]
        return self._wrap(command, shared, write)

    def _wrap(self, command: Command, read: Iterable[Path], write: Iterable[Path]) -> Command:
        # By its own path: the command's PATH is the sandbox's, and need not lead to where this worker found it.
        arguments = [shutil.which("bwrap") or "bwrap", *_base(network=False), *self._python()]
        for path in dict.fromkeys(read):
            arguments += ["--ro-bind", str(path), str(path)]
        for path in write:
            arguments += ["--bind", str(path), str(path)]
        arguments += ["--remount-ro", "/", "--chdir", str(command.cwd), "--", *command.argv]
        return replace(
            command,
            argv=tuple(arguments),
            env={**_without_home(command.env), "HOME": "/tmp", "TMPDIR": "/tmp"},  # noqa: S108 - the sandbox's own
            rlimits={**_RLIMITS, **command.rlimits},
            memory_limit_bytes=command.memory_limit_bytes or self.memory_limit_bytes,
            memory_always=True,
        )

    def _python(self) -> list[str]:
        """The interpreter's own installation, unless it is the system's."""
        prefix = self.stack.base_prefix
        return [] if prefix.is_relative_to("/usr") else ["--ro-bind", str(prefix), str(prefix)]


def _base(*, network: bool) -> list[str]:
    arguments = [
        "--die-with-parent", "--new-session",
        "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
        *([] if network else ["--unshare-net"]),
        "--uid", _USER, "--gid", _USER, "--hostname", "sandbox", "--cap-drop", "ALL",
        "--proc", "/proc", "--dev", "/dev", "--size", str(_TMPFS_BYTES), "--tmpfs", "/tmp",  # noqa: S108 - as above
        "--size", str(_TMPFS_BYTES), "--tmpfs", "/dev/shm",  # noqa: S108 - as above
    ]  # fmt: skip
    for path in (*_SYSTEM, *_SYSTEM_MORE):
        arguments += ["--ro-bind-try", path, path]
    for path in _MERGED:
        if Path(path).is_symlink():
            arguments += ["--symlink", str(Path(path).readlink()), path]
        else:
            arguments += ["--ro-bind-try", path, path]
    devices = [device for pattern in _DEVICES for device in glob.glob(pattern)]  # noqa: PTH207 - patterns, not paths
    for device in devices:
        arguments += ["--dev-bind", device, device]
    if devices:
        arguments += ["--ro-bind", "/sys", "/sys"]
    return arguments


def _targets(folder: Path) -> list[Path]:
    """What the links in a folder (and one level below) point to, each once."""
    links = [p for p in (*folder.glob("*"), *folder.glob("*/*")) if p.is_symlink() and not p.parent.is_symlink()]
    return [Path(os.path.realpath(link)) for link in links]


def _without_home(env: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in env.items() if k not in {"HOME", "XDG_CACHE_HOME", "HF_HOME", "USER", "LOGNAME", "SHELL"}}
