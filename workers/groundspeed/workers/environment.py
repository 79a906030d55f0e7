"""The isolated environment of a build, layered over the node's own torch and cached by what it is made from.

A venv without pip, whose ``.pth`` file puts the stack's torch layer *after* its own packages: what the build brings
wins, what it does not bring comes from the node, and nothing else of the node is seen. Pip runs in the venv's own
Python from a staged copy, sees torch as installed, and is held to the node's versions by a constraint file.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from groundspeed.service.wire import v1
from groundspeed.workers.checkout import Checkout
from groundspeed.workers.dependencies import dependency_key, unmet, unmet_requirement
from groundspeed.workers.errors import BuildFailed, JobError
from groundspeed.workers.locks import locked
from groundspeed.workers.process import Command, Ended
from groundspeed.workers.stack import Stack, is_gpu_name, requirements
from groundspeed.workers.variables import with_python

RunCommand = Callable[[Command], Ended]
_PTH = "zz-groundspeed-stack.pth"
_VENV_LIMIT_S = 120.0
_WEATHER = re.compile(
    r"Temporary failure in name resolution|NewConnectionError|ConnectTimeout|Read timed out|Connection (refused|reset|"
    r"broken|aborted)|50[0234] Server Error|No space left on device|Could not resolve host"
)


class BuildInterrupted(JobError):
    """The network or the disk, not the revision: another try may help."""

    transient = True


@dataclass(frozen=True, slots=True)
class Environment:
    """A venv ready for use. ``packages``: what the build itself resolved, by name."""

    home: Path
    packages: Mapping[str, str]

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    def facets(self) -> tuple[v1.Facet, ...]:
        return tuple(
            v1.Facet(layer="build", name=f"package.{name}", value=version) for name, version in self.packages.items()
        )


class Environments:
    """All environments of one level of trust."""

    def __init__(self, cache: Path, stack: Stack, keep: int, stop: threading.Event) -> None:
        self._root = cache / "environments"
        self._stack = stack
        self._keep = keep
        self._stop = stop
        self._in_use: dict[Path, int] = {}
        self._guard = threading.Lock()

    @contextmanager
    def use(
        self, build: v1.BuildSpec, checkout: Checkout, variables: Mapping[str, str], run: RunCommand
    ) -> Iterator[Environment]:
        """The environment for this revision, built unless it is there; kept from eviction until the block ends.

        Raises BuildFailed (a result of the revision), BuildInterrupted, Stopped.
        """
        home, own = self._place(build, checkout)
        with self._guard:
            self._in_use[home] = self._in_use.get(home, 0) + 1
        try:
            lock = checkout.home / "env.lock" if own else self._root / f"{home.name}.lock"
            with locked(lock, wait_s=build.timeout_s, stop=self._stop):
                environment = self._ready(home) or self._build(home, build, checkout, variables, run)
            self._evict()
            yield environment
        finally:
            with self._guard:
                self._in_use[home] -= 1

    def _place(self, build: v1.BuildSpec, checkout: Checkout) -> tuple[Path, bool]:
        """Where the environment stands, and whether it belongs to this checkout alone."""
        if not build.install:
            return self._root / f"empty-{self._stack.key}", False
        key = dependency_key(build.install, checkout.source)
        if key is None:
            return checkout.home / f"env-{self._digest(build, 'tree')}", True
        return self._root / self._digest(build, key), False

    def _digest(self, build: v1.BuildSpec, content: str) -> str:
        parts = [self._stack.key, content, build.allow_torch, sorted(build.env.items()), build.install]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]

    def _ready(self, home: Path) -> Environment | None:
        try:
            packages = json.loads((home / "ready.json").read_text(encoding="utf-8"))["packages"]
        except (OSError, ValueError, KeyError):
            return None
        os.utime(home / "ready.json")
        return Environment(home, packages)

    def _build(
        self, home: Path, build: v1.BuildSpec, checkout: Checkout, variables: Mapping[str, str], run: RunCommand
    ) -> Environment:
        if not build.allow_torch and (words := unmet(self._stack, checkout.source, build.install)):
            raise BuildFailed(words)
        shutil.rmtree(home, ignore_errors=True)
        own_torch = build.allow_torch and bool(build.install)
        try:
            site = self._create(home, layered=not own_torch)
            self._install(home, build, checkout, variables, run)
        except OSError as error:
            raise BuildInterrupted(f"The environment {home} cannot be made: {error}.") from error
        packages = installed(site)
        if not own_torch:
            self._check(site, packages)
        _write_ready(home, packages)
        return Environment(home, packages)

    def _create(self, home: Path, *, layered: bool) -> Path:
        """An empty venv; returns its folder of packages."""
        home.parent.mkdir(parents=True, exist_ok=True)
        argv = [str(self._stack.executable), "-m", "venv", "--without-pip", "--symlinks", str(home)]
        try:
            subprocess.run(argv, capture_output=True, text=True, timeout=_VENV_LIMIT_S, check=True)
        except subprocess.CalledProcessError as error:
            words = f"{error.stdout}{error.stderr}".strip()[-500:] or error
            raise BuildInterrupted(f"The environment {home} cannot be made: {words}") from error
        except subprocess.TimeoutExpired as error:
            raise BuildInterrupted(f"The environment {home} cannot be made: {error}") from error
        site = next((home / "lib").glob("python*/site-packages"))
        if layered:
            (site / _PTH).write_text(f"{self._stack.layer}\n", encoding="utf-8")
        pip = home / "bin" / "pip"
        pip.write_text('#!/bin/sh\nexec "${0%/*}/python" -m pip "$@"\n', encoding="ascii")
        pip.chmod(0o755)
        (home / "pip").mkdir()
        (home / "pip" / "pip").symlink_to(_pip_folder())
        (home / "constraints.txt").write_text(self._stack.constraints() if layered else "", encoding="utf-8")
        return site

    def _install(
        self, home: Path, build: v1.BuildSpec, checkout: Checkout, variables: Mapping[str, str], run: RunCommand
    ) -> None:
        env = with_python(variables, home) | {
            "PYTHONPATH": str(home / "pip"),
            "PYTHONNOUSERSITE": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INPUT": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
            "PIP_CONSTRAINT": str(home / "constraints.txt"),
            "UV_CONSTRAINT": str(home / "constraints.txt"),
            **build.env,
        }
        deadline = time.monotonic() + build.timeout_s
        for command in build.install:
            ended = run(
                Command(
                    argv=("/bin/sh", "-c", command),
                    cwd=checkout.source,
                    env=env,
                    wall_s=max(deadline - time.monotonic(), 0.0),
                )
            )
            if not ended.ok:
                raise self._failure(command, ended, build)

    def _failure(self, command: str, ended: Ended, build: v1.BuildSpec) -> JobError:
        log = "\n".join(text for text in (ended.stdout_tail, ended.stderr_tail) if text)
        if ended.cause == "wall":
            return BuildFailed(f"the build took longer than {build.timeout_s:g} s, in: {command}", log_tail=log)
        if _WEATHER.search(log):
            return BuildInterrupted(f"The build could not finish: {command} failed for want of network or disk. {log}")
        conflict = re.search(r"^.*?(\S+ \S+) depends on ((?:torch|triton|nvidia-|cuda-)[^\n]*)", log, re.MULTILINE)
        if conflict and self._stack.torch:
            words = f"{conflict[1]} requires {conflict[2].strip()}, and this node offers torch {self._stack.torch}"
            return BuildFailed(f"{words}; {command} failed", log_tail=log)
        if ended.cause == "memory":
            return BuildFailed(f"the build ran out of memory, in: {command}", log_tail=log)
        return BuildFailed(f"{command} ended with status {ended.status}", log_tail=log)

    def _check(self, site: Path, packages: Mapping[str, str]) -> None:
        """The build has brought nothing of torch's family, and the node satisfies all that it has brought."""
        brought = sorted(name for name in packages if is_gpu_name(name))
        if brought:
            listed = ", ".join(f"{name} {packages[name]}" for name in brought)
            raise BuildFailed(
                f"the build installed {listed}, and this project leaves torch, CUDA and NCCL to the node (torch "
                f"{self._stack.torch or 'not installed'}): drop it from the requirements, or set allow_torch = true"
            )
        for distribution in importlib.metadata.distributions(path=[str(site)]):
            where = f"{distribution.metadata['Name']} {distribution.version}"
            for requirement in requirements(distribution.requires or []):
                if words := unmet_requirement(self._stack, where, requirement):
                    raise BuildFailed(words)

    def _evict(self) -> None:
        """Keep the most recently used of those that nobody uses just now."""
        with self._guard:
            unused = [p for p in self._root.glob("*") if p.is_dir() and not self._in_use.get(p)]
            unused.sort(key=_used_at, reverse=True)
            for home in unused[self._keep :]:
                shutil.rmtree(home, ignore_errors=True)


def installed(site: Path) -> dict[str, str]:
    """What stands in a folder of packages, by canonical name."""
    found = importlib.metadata.distributions(path=[str(site)])
    return dict(sorted((canonicalize_name(d.metadata["Name"]), d.version) for d in found if d.metadata["Name"]))


def _pip_folder() -> Path:
    import importlib.util

    spec = importlib.util.find_spec("pip")
    if spec is None or spec.origin is None:
        raise JobError("The worker's own environment has no pip, which builds need: python -m ensurepip")
    return Path(spec.origin).parent


def _used_at(home: Path) -> float:
    try:
        return (home / "ready.json").stat().st_mtime
    except OSError:
        return 0.0


def _write_ready(home: Path, packages: Mapping[str, str]) -> None:
    temporary = home / "ready.json.tmp"
    with temporary.open("w", encoding="utf-8") as file:
        json.dump({"packages": packages}, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(home / "ready.json")
