"""The project's own collective, made by its target in each rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groundspeed.plugins import targets
from groundspeed.plugins.distributed.rank import RankContext
from groundspeed.plugins.distributed.sweep import Operation
from groundspeed.plugins.spi import WrongResult


def own_operation(payload: Mapping[str, Any], size: int, context: RankContext) -> Operation:
    """What the target makes of ``bytes``, ``rank`` and ``world_size``: a callable that does the operation once, or
    ``run`` with, if wanted, ``verify``, which raises AssertionError or returns False where the result is not right, and
    ``reset``. Raises TypeError.
    """
    factory = targets.resolve(payload["target"])
    offered = {**payload, "bytes": size, "device": context.device, "rank": context.rank}
    made = factory(**targets.accepted(factory, {**offered, "world_size": context.world_size}))
    run, stated = targets.part(made, "run") or made, targets.part(made, "verify")
    if not callable(run):
        raise TypeError(f"the collectives target returned {type(made).__name__}; it must return a callable, or `run`")

    def verify() -> None:
        try:
            right = stated() if stated is not None else True
        except AssertionError as error:
            raise WrongResult(f"{payload['target']} on rank {context.rank}: {error}") from error
        if right is False:
            raise WrongResult(f"{payload['target']} on rank {context.rank}: the result is not right")

    return Operation(run, verify, targets.part(made, "reset") or (lambda: None))
