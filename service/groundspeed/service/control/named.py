"""How a task of the control worker is made: an explicit name that nothing else has, bound to our application."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from groundspeed.service.control.app import app
from groundspeed.service.tracing import span

_modules: dict[str, str] = {}


def task(name: str) -> Callable[[Callable[..., Any]], Any]:
    """A traced task. Raises ValueError when another function has the name: Celery would silently keep the first."""

    def made(function: Callable[..., Any]) -> Any:
        mine = f"{function.__module__}.{function.__qualname__}"
        if _modules.setdefault(name, mine) != mine:
            raise ValueError(f"{mine} and {_modules[name]} both want the task name {name!r}: give one another name.")

        @wraps(function)
        def traced(*arguments: Any, **named: Any) -> Any:
            with span(name):
                return function(*arguments, **named)

        return app.task(name=name)(traced)

    return made
