"""Whether an object keeps the plugin contract, in words. Used by the registry on load and by the contract test kit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from groundspeed.plugins import params as parameters
from groundspeed.plugins.errors import ParamError
from groundspeed.plugins.spi import Direction, Kind, Metric, Needs, Param

_NAME = re.compile(r"^[a-z][a-z0-9_.-]{0,99}$")
_TIMINGS = {"stepped": ("prepare", "derive"), "self-timed": ("run",)}


def problems(plugin: Any, offered_as: str | None = None) -> list[str]:
    """All that is wrong with the plugin's declaration; empty: nothing. Never runs a benchmark."""
    found = list(_identity(plugin, offered_as))
    found += _methods(plugin)
    if found:
        return found
    found += _params(tuple(plugin.params))
    found += _metrics(plugin)
    if not isinstance(plugin.needs, Needs) and not hasattr(plugin.needs, "devices"):
        found.append("`needs` must be a spi.Needs")
    return found


def _identity(plugin: Any, offered_as: str | None) -> Iterable[str]:
    for attribute in ("name", "version", "description"):
        if not isinstance(getattr(plugin, attribute, None), str):
            yield f"`{attribute}` must be a string"
    name = getattr(plugin, "name", "")
    if isinstance(name, str) and not _NAME.match(name):
        yield f"`name` {name!r} must be lower-case letters, digits, '_', '.' or '-'"
    if offered_as is not None and name != offered_as:
        yield f"`name` is {name!r} but the entry point is called {offered_as!r}"
    if getattr(plugin, "version", None) == "":
        yield "`version` must not be empty"
    for attribute in ("params", "needs"):
        if not hasattr(plugin, attribute):
            yield f"`{attribute}` is missing"


def _methods(plugin: Any) -> Iterable[str]:
    timing = getattr(plugin, "timing", None)
    if timing not in _TIMINGS:
        yield f"`timing` is {timing!r} and must be 'stepped' or 'self-timed'"
        return
    for method in (*_TIMINGS[timing], "metrics"):
        if not callable(getattr(plugin, method, None)):
            yield f"a {timing} plugin needs the method `{method}`"


def _params(declared: tuple[Param, ...]) -> Iterable[str]:
    seen: set[str] = set()
    for param in declared:
        if param.name in seen:
            yield f"parameter {param.name!r} is declared twice"
        seen.add(param.name)
        if param.type not in {"int", "float", "str", "bool"}:
            yield f"parameter {param.name!r} has the unknown type {param.type!r}"
        elif param.default is not None:
            try:
                parameters.check("", param, param.default)
            except ParamError:
                yield f"parameter {param.name!r}: its default {param.default!r} is not {parameters.allowed(param)}"


def _metrics(plugin: Any) -> Iterable[str]:
    declared: tuple[Metric, ...] = tuple(plugin.metrics())
    if not declared:
        yield "`metrics()` declares nothing"
    seen: set[str] = set()
    for metric in declared:
        if metric.name in seen:
            yield f"metric {metric.name!r} is declared twice"
        seen.add(metric.name)
        if not metric.unit:
            yield f"metric {metric.name!r} has no unit (use '1' for a pure number)"
        if metric.direction not in set(Direction):
            yield f"metric {metric.name!r}: direction must be -1, 0 or 1"
        if metric.kind not in set(Kind):
            yield f"metric {metric.name!r}: unknown kind {metric.kind!r}"
        if metric.clock not in {"wall", "device", "cycles", "cpu", "none"}:
            yield f"metric {metric.name!r}: unknown clock {metric.clock!r}"
