"""The device layer as the worker uses it: devices, environment facets and findings, read without touching CUDA."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from groundspeed.plugins.device.base import Facet
from groundspeed.service.wire import v1
from groundspeed.workers import system
from groundspeed.workers.logs import logger


def findings() -> tuple[str, ...]:
    """What should take this node out of use, in words; empty: clean."""
    return tuple(str(finding) for finding in _ask("hygiene"))


def environment() -> tuple[Facet, ...]:
    """Facets of node and devices."""
    return system.merge(_ask("environment_facets"), system.basic_facets())


def devices() -> tuple[v1.DeviceSpec, ...]:
    return tuple(
        v1.DeviceSpec(
            index=int(device.index),
            uuid=str(device.uuid),
            model=str(device.model),
            memory_bytes=int(getattr(device, "memory_bytes", 0)),
            facts=dict(getattr(device, "facts", {})),
        )
        for device in _ask("devices")
    )


def _ask(question: str) -> Iterable[Any]:
    """One function of groundspeed.plugins.device; a driver that fails is told and costs no job."""
    function: Callable[[], Iterable[Any]] | None = getattr(
        importlib.import_module("groundspeed.plugins.device"), question, None
    )
    if function is None:
        return ()
    try:
        return tuple(function())
    except Exception as error:  # noqa: BLE001 - vendor libraries raise what they like; unknown is an answer
        logger.warning("the device layer cannot tell %s: %s", question, error)
        return ()
