"""How parameters are written for people, on pages, in tables and in exports alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def value(given: Any) -> str:
    """As configurations write it: true, not True."""
    return str(given).lower() if isinstance(given, bool) else str(given)


def params(given: Mapping[str, Any]) -> str:
    """batch_size=8, precision=fp32; empty where there are none."""
    return ", ".join(f"{name}={value(one)}" for name, one in given.items())
