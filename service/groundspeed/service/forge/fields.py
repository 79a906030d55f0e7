"""Reading fields out of JSON that a stranger wrote, with the path in every complaint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from groundspeed.service.domain.pulls.events import Malformed

__all__ = ["Fields", "Malformed"]


class Fields:
    """A JSON object at a path."""

    def __init__(self, value: Any, path: str = "payload") -> None:
        if not isinstance(value, Mapping):
            raise Malformed(f"{path} is {_kind(value)}, an object was expected")
        self._value = value
        self._path = path

    def has(self, name: str) -> bool:
        return self._value.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        value = self._value.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise Malformed(f"{self._path}.{name} is {_kind(value)}, text was expected")
        # JSON can name half characters and NUL, which no database holds.
        return value.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\ufffd")

    def number(self, name: str) -> int:
        value = self._value.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
            raise Malformed(f"{self._path}.{name} is {_kind(value)}, a number was expected")
        return value

    def flag(self, name: str) -> bool:
        return self._value.get(name) is True

    def inner(self, name: str) -> Fields:
        return Fields(self._value.get(name), f"{self._path}.{name}")

    def inner_or_none(self, name: str) -> Fields | None:
        return self.inner(name) if self.has(name) else None

    def items(self, name: str) -> list[Fields]:
        value = self._value.get(name)
        if value is None:
            return []
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise Malformed(f"{self._path}.{name} is {_kind(value)}, a list was expected")
        return [Fields(item, f"{self._path}.{name}[{i}]") for i, item in enumerate(value)]


def _kind(value: Any) -> str:
    if value is None:
        return "missing"
    return {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list"}.get(
        type(value), "an object"
    )
