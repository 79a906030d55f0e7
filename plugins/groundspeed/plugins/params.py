"""Checks of the parameters given to a plugin. Standard library alone; works on anything that has Param's attributes."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol, cast

from groundspeed.plugins.errors import ParamError
from groundspeed.plugins.spi import ParamValue


class ParamLike(Protocol):
    """The attributes that spi.Param and the wire's ParamSpec have in common."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> Literal["int", "float", "str", "bool"]: ...
    @property
    def default(self) -> ParamValue | None: ...
    @property
    def choices(self) -> tuple[ParamValue, ...]: ...
    @property
    def minimum(self) -> float | None: ...
    @property
    def maximum(self) -> float | None: ...


def resolve(plugin: str, declared: Iterable[ParamLike], given: Mapping[str, Any]) -> dict[str, ParamValue]:
    """The full set of parameters: what was given, checked, with defaults filled in, in the order of declaration.

    A parameter without default that is not given is left out. Raises ParamError naming plugin, field and
    allowed values.
    """
    known = {param.name: param for param in declared}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ParamError(_unknown(plugin, unknown[0], list(known)))
    resolved: dict[str, ParamValue] = {}
    for name, param in known.items():
        if name in given:
            resolved[name] = check(plugin, param, given[name])
        elif param.default is not None:
            resolved[name] = param.default
    return resolved


def check(plugin: str, param: ParamLike, value: Any) -> ParamValue:
    """The value in the parameter's type. Raises ParamError."""
    typed = _typed(param.type, value)
    if typed is None or not _allowed(param, typed):
        raise ParamError(f"plugin {plugin!r}, parameter {param.name!r}: {value!r} is not allowed; use {allowed(param)}")
    return typed


def allowed(param: ParamLike) -> str:
    """In words, what the parameter takes: "one of 'fp32', 'bf16'", "an int from 1 to 8"."""
    if param.choices:
        return "one of " + ", ".join(repr(choice) for choice in param.choices)
    noun = {"int": "an int", "float": "a float", "str": "a string", "bool": "true or false"}[param.type]
    low, high = param.minimum, param.maximum
    if low is not None and high is not None:
        return f"{noun} from {low:g} to {high:g}"
    if low is not None:
        return f"{noun} of at least {low:g}"
    if high is not None:
        return f"{noun} of at most {high:g}"
    return noun


def _typed(kind: str, value: Any) -> ParamValue | None:
    """None when the value is of another type; an int passes for a float, a bool never for a number."""
    if kind == "float" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if math.isfinite(value) else None
    types: dict[str, type] = {"int": int, "str": str, "bool": bool}
    wanted = types.get(kind)
    if wanted is None or not isinstance(value, wanted) or (kind == "int" and isinstance(value, bool)):
        return None
    return cast("ParamValue", value)


def _allowed(param: ParamLike, value: ParamValue) -> bool:
    if param.choices:
        return value in param.choices
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (param.minimum is None or value >= param.minimum) and (param.maximum is None or value <= param.maximum)
    return True


def _unknown(plugin: str, name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    listed = ", ".join(repr(item) for item in known) or "none"
    return f"plugin {plugin!r} has no parameter {name!r}; {hint}its parameters are: {listed}"
