"""A project's configuration at a commit, checked against what can be measured."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlmodel import Session

from groundspeed.service import config as configs
from groundspeed.service.config.checks import Mistake, near
from groundspeed.service.config.model import ProjectConfig, SuiteSection
from groundspeed.service.errors import ConfigError, Invalid, NotFound
from groundspeed.service.repo import Repository
from groundspeed.service.usecases import catalogue, parameters
from groundspeed.service.wire import v1

FILE_NAME = "groundspeed.toml"


@dataclass(frozen=True, slots=True)
class CheckedSuite:
    """A suite whose parameters are right, as benchmarks of one job."""

    suite: SuiteSection
    plugin: v1.PluginSpec
    benchmarks: tuple[v1.BenchmarkSpec, ...]


class NoWorkerYet(Exception):
    """A plugin that nobody offers so far: what names it waits."""

    def __init__(self, plugin: str) -> None:
        super().__init__(
            f"no worker offers plugin {plugin!r}. Install its package beside a worker, and start that worker anew"
        )


def at(repo: Repository, sha: str) -> ProjectConfig:
    """The configuration at a commit; raises :class:`ConfigError` when it is missing or wrong."""
    try:
        text = repo.read(sha, FILE_NAME)
    except NotFound:
        raise ConfigError(
            f"{repo.url} has no {FILE_NAME} at {sha[:12]}.",
            "Write one with `groundspeed init`, and commit it.",
        ) from None
    return configs.load(text, f"{sha[:12]}:{FILE_NAME}")


def check(session: Session, config: ProjectConfig, wanted: Iterable[str] = ()) -> list[CheckedSuite]:
    """The suites asked for (all by default), ready to become jobs.

    Raises :class:`Invalid` for a suite, plugin or parameter that cannot be right, :class:`NoWorkerYet` for a plugin
    that may still come with a worker.
    """
    suites = _chosen(config, list(wanted))
    plugins = catalogue.known(session, (suite.plugin for suite in suites))
    checked = []
    for suite in suites:
        plugin = plugins.get(suite.plugin)
        if plugin is None:
            raise _unknown(session, suite)
        checked.append(CheckedSuite(suite, plugin, parameters.benchmarks(config, suite, plugin)))
    return checked


def misfits(config: ProjectConfig, offered: Mapping[str, v1.PluginSpec]) -> tuple[list[Mistake], list[str]]:
    """Suites that cannot be right, and plugins that are not known here, with what ``offered`` and this release know."""
    plugins = {**catalogue.shipped(), **{name: spec for name, spec in offered.items() if spec.error is None}}
    wrong, unknown = [], []
    for index, suite in enumerate(config.suite):
        plugin = plugins.get(suite.plugin)
        if plugin is None and _slip(suite.plugin, list(plugins)):
            hint = near(suite.plugin, list(plugins))
            wrong.append(Mistake(("suite", index, "plugin"), f"there is no plugin {suite.plugin!r}. {hint}"))
        elif plugin is None:
            unknown.append(suite.plugin)
        else:
            try:
                parameters.benchmarks(config, suite, plugin)
            except Invalid as error:
                key = "params" if suite.params else "plugin"
                wrong.append(Mistake(("suite", index, key), f"{error.title} {error.advice}".strip()))
    return wrong, unknown


def _slip(name: str, names: list[str]) -> bool:
    """Whether a name is nearly a known one; "acme-kernel" beside a built-in "kernel" is somebody's own."""
    return bool(difflib.get_close_matches(name, names, 1, 0.8))


def _chosen(config: ProjectConfig, wanted: list[str]) -> list[SuiteSection]:
    by_name = {suite.name: suite for suite in config.suite}
    for name in wanted:
        if name not in by_name:
            raise Invalid(f"{FILE_NAME} has no suite {name!r}.", near(name, list(by_name)))
    return [by_name[name] for name in wanted] or list(config.suite)


def _unknown(session: Session, suite: SuiteSection) -> Exception:
    """An error when the name is nearly that of a known plugin; any other may still come with a worker."""
    names = catalogue.names(session)
    hint = near(suite.plugin, names)
    if _slip(suite.plugin, names):
        return Invalid(
            f"Suite {suite.name!r}: no worker offers plugin {suite.plugin!r}.",
            f"{hint} A plugin of your own is offered once its package is installed beside a worker.",
        )
    return NoWorkerYet(suite.plugin)
