"""Finding and calling the factory of the project under test.

``target = "package.module:factory"``. The factory is called with those of the plugin's parameters, and of ``device``,
``rank`` and ``world_size``, that its signature names; one that takes ``**kwargs`` gets all of them. So a factory asks
for what it can vary and need not know the rest.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from groundspeed.plugins.spi import Context, Unsupported


def resolve(target: str) -> Callable[..., Any]:
    """The factory. Raises Unsupported when module or attribute is not there in this revision.

    What the module itself raises while it is imported, an ImportError of something else included, goes through.
    """
    module_name, _, path = target.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise Unsupported(f"target {target!r}: there is no module {error.name!r} in this revision") from error
        raise
    for part in path.split("."):
        if not hasattr(found, part):
            raise Unsupported(f"target {target!r}: module {module_name!r} has no {path!r} in this revision")
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"target {target!r} is {type(found).__name__}, not something that can be called")
    return found  # type: ignore[no-any-return]


def origin(factory: Callable[..., Any]) -> str:
    """Where a factory is ("package.module:factory"), as another process of this benchmark would find it."""
    return f"{factory.__module__}:{factory.__qualname__}"


def make(context: Context) -> Any:
    """What the target's factory returns for this context. Raises Unsupported when the suite names no target."""
    if context.target is None:
        raise Unsupported('this suite needs target = "package.module:factory" in groundspeed.toml')
    offered: dict[str, Any] = {
        **context.params,
        "device": context.device,
        "rank": context.rank,
        "world_size": context.world_size,
    }
    return context.target(**accepted(context.target, offered))


def accepted(factory: Callable[..., Any], offered: dict[str, Any]) -> dict[str, Any]:
    """Those of ``offered`` that the factory's signature takes by name."""
    parameters = inspect.signature(factory).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return offered
    takes = {p.name for p in parameters if p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY}}
    return {name: value for name, value in offered.items() if name in takes}


def part(made: Any, name: str, default: Any = None) -> Any:
    """Attribute or item ``name`` of what a factory returned."""
    if isinstance(made, dict):
        return made.get(name, default)
    return getattr(made, name, default)
