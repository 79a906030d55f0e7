"""One run of an asv suite on one revision, through asv's own code."""

from __future__ import annotations

import ast
import contextlib
import itertools
import logging
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundspeed.plugins.spi import ParamValue, Unsupported

Progress = Callable[[str], None]
_BUILD_OPTIONS = (
    "pythons", "matrix", "exclude", "include", "environment_type", "build_command", "install_command",
    "uninstall_command",
    "conda_channels", "conda_environment_file", "env_dir", "install_timeout", "build_cache_size", "wheel_cache_size",
)  # fmt: skip
"""Options that say how asv builds; they have no effect when the job's own build is measured."""
_READ_BY_ATTRIBUTE = {
    "version", "build_cache_size", "wheel_cache_size", "$schema", "repo_subdir", "default_benchmark_timeout",
    "conda_environment_file",
    "regressions_first_commits", "regressions_thresholds", "show_commit_url", "hash_length", "dvcs", "launch_method",
    "plugins",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Point:
    """One benchmark at one point of its parameters: samples, or why there are none ("failed", "skipped")."""

    name: str
    kind: str
    unit: str
    version: str
    params: Mapping[str, ParamValue]
    samples: tuple[float, ...]
    outcome: str = "ok"


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the suite's parameters ask for."""

    conf: str
    bench: str
    environment: str
    env_name: str
    quick: bool
    launch: str
    env_dir: str


class _Tell(logging.Handler):
    """asv's own messages are the proof of life; a benchmark that hangs is silent, and asv's timeout ends it."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(logging.INFO)
        self._progress = progress
        self.trouble = ""
        """asv tells what went wrong in its log, and raises something shorter."""

    def emit(self, record: logging.LogRecord) -> None:
        text = str(record.msg).strip()
        self._progress(text[:300])
        if record.levelno >= logging.ERROR and text:
            self.trouble = f"{self.trouble}\n{text}"[-2000:]


def run(root: Path, wishes: Wishes, progress: Progress) -> Iterator[Point]:
    """All points of the suite in the checkout ``root``. Raises :class:`Unsupported` naming what cannot be honoured."""
    from asv import util
    from asv.benchmarks import Benchmarks
    from asv.plugin_manager import plugin_manager
    from asv.repo import get_repo
    from asv.results import Results
    from asv.runner import run_benchmarks

    conf = load(root, wishes, progress)
    handler = _Tell(progress)
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)
    try:
        for plugin in conf.plugins:
            plugin_manager.import_plugin(plugin)
        commit = _commit(root)
        repo = get_repo(conf)
        environments = _environments(conf, wishes)
        for environment in environments:
            _prepare(environment, conf, repo, commit)
            benchmarks = Benchmarks.discover(conf, repo, [environment], [commit], regex=wishes.bench or None)
            if not benchmarks:
                raise Unsupported(f"asv finds no benchmark that matches {wishes.bench!r} in {conf.benchmark_dir}")
            results = Results.unnamed()
            run_benchmarks(
                benchmarks, environment, results, show_stderr=True, quick=wishes.quick, record_samples=True,
                launch_method=wishes.launch,
            )  # fmt: skip
            extra = {"environment": environment.name} if wishes.environment == "asv" and len(environments) > 1 else {}
            yield from _points(benchmarks, results, extra)
    except util.UserError as error:
        raise Unsupported(f"asv says: {error}{handler.trouble}") from error
    finally:
        logging.getLogger().removeHandler(handler)


def load(root: Path, wishes: Wishes, progress: Progress) -> Any:
    """The configuration object of asv, with paths made absolute and this checkout as the repository.

    Raises :class:`Unsupported` for an option that neither asv nor this plugin knows, by name.
    """
    from asv import util
    from asv.config import Config

    path = root / wishes.conf
    try:
        raw = util.load_json(str(path), Config.api_version, js_comments=True)
        conf = Config.from_json(dict(raw))
    except (util.UserError, OSError, ValueError) as error:
        raise Unsupported(f"{wishes.conf} is no asv configuration: {error}") from error
    known = set(Config().__dict__) | _READ_BY_ATTRIBUTE
    strange = sorted(set(raw) - known)
    if strange:
        raise Unsupported(f"{wishes.conf} has options that asv does not know: {', '.join(strange)}")
    if wishes.environment == "build":
        replaced = [name for name in _BUILD_OPTIONS if raw.get(name)]
        if replaced:
            progress(f"the job's own build is measured: {', '.join(replaced)} of {wishes.conf} have no effect")
    folder = path.parent
    conf.benchmark_dir = str((folder / conf.benchmark_dir).resolve())
    conf.results_dir = str(Path(wishes.env_dir) / "results")
    conf.html_dir = str(Path(wishes.env_dir) / "html")
    conf.env_dir = str(Path(wishes.env_dir) / "env")
    conf.project = conf.project or root.name
    # The revision is in this checkout: nothing has to be fetched, and asv finds the very commit that is measured.
    conf.repo = str(root)
    conf.dvcs = "git"
    conf.branches = ["HEAD"]
    Path(wishes.env_dir).mkdir(parents=True, exist_ok=True)
    os.chdir(wishes.env_dir)
    return conf


def _commit(root: Path) -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unsupported(f"{root} is no git checkout: asv measures commits")
    return done.stdout.strip()


def _environments(conf: Any, wishes: Wishes) -> Sequence[Any]:
    from asv.environment import ExistingEnvironment, get_environments

    if wishes.environment == "build":
        return [ExistingEnvironment(conf, sys.executable, {}, {})]
    found = [e for e in get_environments(conf, None) if wishes.env_name in {"", e.name}]
    if not found:
        names = ", ".join(e.name for e in get_environments(conf, None, verbose=False))
        raise Unsupported(f"asv can make no environment {wishes.env_name!r} here; it could make: {names or 'none'}")
    return found


def _prepare(environment: Any, conf: Any, repo: Any, commit: str) -> None:
    """Create the environment and install the revision in it, by the commands of asv.conf.json."""
    from asv import util

    if environment.tool_name == "existing":
        # asv starts the same Python for each benchmark: what this process finds by sys.path, that one must find too.
        # asv takes what PYTHONPATH names out of sys.path again, even the standard library, unless its own is set.
        os.environ["PYTHONPATH"] = os.environ["ASV_PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        return
    with contextlib.chdir(conf.env_dir) if Path(conf.env_dir).is_dir() else contextlib.nullcontext():
        try:
            environment.create()
            environment.install_project(conf, repo, commit)
        except util.ProcessError as error:
            raise RuntimeError(f"asv could not build {commit[:8]}: {error}") from error


def _points(benchmarks: Any, results: Any, extra: Mapping[str, ParamValue]) -> Iterator[Point]:
    for name in sorted(results.get_all_result_keys()):
        described = benchmarks[name]
        axes = described["params"]
        values = results.get_result_value(name, axes)
        samples = results.get_result_samples(name, axes)
        names = described.get("param_names") or [f"param{i + 1}" for i in range(len(axes))]
        for i, point in enumerate(itertools.product(*axes)):
            params = {"benchmark": name, **extra, **{n: value_of(v) for n, v in zip(names, point, strict=True)}}
            value = values[i]
            failed = value is None or (isinstance(value, float) and math.isnan(value))
            raw = () if failed else tuple(samples[i] or ()) if samples and samples[i] else (float(value),)
            outcome = "ok" if not failed else "failed" if value is None else "skipped"
            version = str(described.get("version", ""))[:16]
            yield Point(name, described["type"], str(described.get("unit", "")), version, params, raw, outcome)


def value_of(text: str) -> ParamValue:
    """The value whose repr asv keeps, when it is text, a number or a truth value; else the text."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, bool | int | float | str) and repr(value) == text else text
