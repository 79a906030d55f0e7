"""A suite's parameters against what its plugin declares, and the points that its axes span. Pure."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence

from groundspeed.service.config.checks import near
from groundspeed.service.config.model import MeasureSection, ProjectConfig, SuiteSection
from groundspeed.service.errors import Invalid
from groundspeed.service.wire.v1 import BenchmarkSpec, ParamSpec, PluginSpec, Scalar

MAX_POINTS = 200
_KEY_LENGTH = 200


def benchmarks(config: ProjectConfig, suite: SuiteSection, plugin: PluginSpec) -> tuple[BenchmarkSpec, ...]:
    """One specification for each point of the suite's axes, parameters checked and defaults filled in.

    Raises :class:`Invalid` naming the suite, the plugin, the field and what it takes.
    """
    if plugin.needs.target and suite.target is None:
        raise Invalid(
            f"Suite {suite.name!r}: plugin {plugin.name!r} needs a target.",
            'Add target = "package.module:factory", naming what is to be measured.',
        )
    axes = {name: value if isinstance(value, tuple) else (value,) for name, value in suite.params.items()}
    count = math.prod(len(values) for values in axes.values())
    if not 1 <= count <= MAX_POINTS:
        what = "an empty list" if count == 0 else f"{count} combinations of parameters"
        raise Invalid(f"Suite {suite.name!r} has {what}.", f"Give lists that span 1 to {MAX_POINTS} combinations.")
    limits = _limits(config.measure) | _limits(suite.measure)
    specs = []
    for values in itertools.product(*axes.values()):
        given = dict(zip(axes, values, strict=True))
        params = resolve(suite.name, plugin, given)
        shown = {name: params[name] for name in given}
        specs.append(
            BenchmarkSpec(
                key=key(shown, plugin.name),
                plugin=plugin.name,
                target=suite.target,
                params=params,
                limits=limits,
                replicates=suite.replicates,
            )
        )
    if len({spec.key for spec in specs}) < len(specs):
        raise Invalid(f"Suite {suite.name!r} names the same combination twice.", "Give each value of a list once.")
    return tuple(specs)


def resolve(suite: str, plugin: PluginSpec, given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """What was given, in the declared types, with defaults filled in, in the order of declaration."""
    declared = {param.name: param for param in plugin.params}
    for name in given:
        if name not in declared:
            hint = near(name, list(declared)) if declared else "It has none."
            raise Invalid(f"Suite {suite!r}: plugin {plugin.name!r} has no parameter {name!r}.", hint)
    found: dict[str, Scalar] = {}
    for name, param in declared.items():
        if name in given:
            found[name] = _checked(suite, plugin.name, param, given[name])
        elif param.default is not None:
            found[name] = param.default
    return found


def key(params: Mapping[str, Scalar], fallback: str) -> str:
    """``batch_size=8,precision=fp32``; the plugin's name when nothing was given; long ones end in a digest."""
    text = ",".join(f"{name}={_text(value)}" for name, value in params.items()) or fallback
    if len(text) <= _KEY_LENGTH:
        return text
    return f"{text[: _KEY_LENGTH - 13]}~{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def allowed(param: ParamSpec) -> str:
    """What a parameter takes, in words."""
    if param.choices:
        return "one of " + ", ".join(_quoted(choice) for choice in param.choices)
    noun = {"int": "a whole number", "float": "a number", "str": "a string", "bool": "true or false"}[param.type]
    bounds: Sequence[str] = [
        *([f"at least {param.minimum:g}"] if param.minimum is not None else []),
        *([f"at most {param.maximum:g}"] if param.maximum is not None else []),
    ]
    return f"{noun}{' of ' if bounds else ''}{' and '.join(bounds)}"


def _checked(suite: str, plugin: str, param: ParamSpec, value: Scalar) -> Scalar:
    typed = _typed(param.type, value)
    if typed is None or not _within(param, typed):
        raise Invalid(
            f"Suite {suite!r}: plugin {plugin!r} does not take {param.name} = {_quoted(value)}.",
            f"It takes {allowed(param)}.",
        )
    return typed


def _typed(kind: str, value: Scalar) -> Scalar | None:
    """The value in its declared type; None when it is of another: true is no number, 8 is a number but 8.5 no int."""
    if isinstance(value, bool):
        return value if kind == "bool" else None
    if kind == "float" and isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    if kind == "int":
        return value if isinstance(value, int) else None
    return value if kind == "str" and isinstance(value, str) else None


def _within(param: ParamSpec, value: Scalar) -> bool:
    if param.choices and value not in param.choices:
        return False
    if isinstance(value, bool | str):
        return True
    low = param.minimum if param.minimum is not None else -math.inf
    high = param.maximum if param.maximum is not None else math.inf
    return low <= value <= high


def _limits(section: MeasureSection) -> dict[str, float | int | bool]:
    return {name: value for name, value in section.model_dump().items() if value is not None}


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _quoted(value: Scalar) -> str:
    return f'"{value}"' if isinstance(value, str) else _text(value)
