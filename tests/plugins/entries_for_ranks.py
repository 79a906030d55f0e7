"""What the ranks of tests run."""

from __future__ import annotations

from groundspeed.plugins.distributed import sweep


def every_collective(context):
    """The sweep of each collective, one after the other."""
    for name in sweep.COLLECTIVES:
        context.payload["collective"] = name
        sweep.entry(context)
