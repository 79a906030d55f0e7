"""What types alone cannot say: unique names, references that lead somewhere, paths that stay inside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import PurePosixPath

from croniter import CroniterBadDateError, croniter

from groundspeed.service.config.model import ProjectConfig

_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Mistake:
    """``path`` leads to the key that is wrong; ``message`` says what is, and what would be right."""

    path: tuple[str | int, ...]
    message: str


def mistakes(config: ProjectConfig) -> list[Mistake]:
    """All of them, in the order of the file's sections."""
    return [*_paths(config), *_suites(config), *_schedules(config), *_renames(config)]


def _renames(config: ProjectConfig) -> Iterator[Mistake]:
    """A name that goes on cannot still be there, nor go on as two, nor in a ring."""
    names = [suite.name for suite in config.suite]
    seen: set[tuple[str, str]] = set()
    for index, one in enumerate(config.rename):
        if one.suite and one.suite not in names:
            yield Mistake(("rename", index, "suite"), f"there is no suite {one.suite!r}. {near(one.suite, names)}")
        if not one.suite and one.before in names:
            yield Mistake(("rename", index, "before"), f"suite {one.before!r} is still there: it was not renamed")
        if (one.suite, one.before) in seen or one.before == one.after:
            yield Mistake(("rename", index, "before"), f"{one.before!r} can have one other name, and only one")
        seen.add((one.suite, one.before))
    for index, one in enumerate(config.rename):
        if (one.suite, one.after) in seen:
            yield Mistake(
                ("rename", index, "after"), f"{one.after!r} was renamed as well: name the one it is called now"
            )


def near(word: str, known: list[str]) -> str:
    """``" Did you mean 'x'?"`` for the nearest known word, else the list of what is known."""
    close = get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Known are: {', '.join(sorted(known))}."


def _paths(config: ProjectConfig) -> Iterator[Mistake]:
    for index, path in enumerate(config.build.paths):
        if not _stays_inside(path):
            yield _outside(("build", "paths", index), path)
    if config.build.benchmarks and not _stays_inside(config.build.benchmarks):
        yield _outside(("build", "benchmarks"), config.build.benchmarks)


def _outside(where: tuple[str | int, ...], path: str) -> Mistake:
    return Mistake(where, f"{path!r} must be a folder inside the repository, given relative")


def _stays_inside(path: str) -> bool:
    pure = PurePosixPath(path)
    return bool(path) and not pure.is_absolute() and ".." not in pure.parts


def _suites(config: ProjectConfig) -> Iterator[Mistake]:
    seen: set[str] = set()
    for index, suite in enumerate(config.suite):
        if suite.name in seen:
            yield Mistake(("suite", index, "name"), f"a second suite named {suite.name!r}: names must be unique")
        seen.add(suite.name)
        for name, value in suite.params.items():
            if isinstance(value, tuple) and not value:
                yield Mistake(("suite", index, "params", name), "an empty list runs nothing: give at least one value")
            elif isinstance(value, tuple) and len(set(map(repr, value))) < len(value):
                yield Mistake(("suite", index, "params", name), "the list holds a value twice")


def _wrong_cron(text: str) -> str:
    """Why this is no time that comes again, the same whoever works it out; empty: it is one."""
    fields = text.split()
    alias = len(fields) == 1 and text.startswith("@")
    at_random = any(re.match(r"[rh](\W|$)", field, re.IGNORECASE) for field in fields)
    if not (alias or len(fields) == 5) or at_random or not croniter.is_valid(text):
        return "is no cron expression (minute hour day month weekday, such as '0 3 * * *')"
    try:
        croniter(text, _SOME_DAY).get_next()
    except CroniterBadDateError:
        return "never comes: there is no such day"
    return ""


def _schedules(config: ProjectConfig) -> Iterator[Mistake]:
    suites = [suite.name for suite in config.suite]
    seen: set[str] = set()
    for index, schedule in enumerate(config.schedule):
        if schedule.name in seen:
            yield Mistake(
                ("schedule", index, "name"), f"a second schedule named {schedule.name!r}: names must be unique"
            )
        seen.add(schedule.name)
        if why := _wrong_cron(schedule.cron):
            yield Mistake(("schedule", index, "cron"), f"{schedule.cron!r} {why}")
        for place, name in enumerate(schedule.suites):
            if name not in suites:
                yield Mistake(("schedule", index, "suites", place), f"no suite is named {name!r}. {near(name, suites)}")
        if schedule.revision == "reference" and config.project.reference is None:
            yield Mistake(
                ("schedule", index, "revision"), "'reference' needs project.reference, the commit or tag to measure"
            )
