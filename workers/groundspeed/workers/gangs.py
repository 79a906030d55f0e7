"""A job of several nodes as one of them sees it."""

from __future__ import annotations

from groundspeed.service.wire import v1

TELL_S = 30.0
"""How long a node whose build failed waits for rank 0 to end the job."""


def follows(job: v1.JobSpec) -> bool:
    """Whether this node takes part without reporting."""
    return job.gang is not None and job.gang.rank > 0


def variables(gang: v1.GangSpec | None) -> dict[str, str]:
    """The meeting place as torchrun names it, so that scripts written for it find it."""
    if gang is None:
        return {}
    return {
        "MASTER_ADDR": gang.host,
        "MASTER_PORT": str(gang.port),
        "GROUP_RANK": str(gang.rank),
        "GROUP_WORLD_SIZE": str(len(gang.nodes)),
        "NODE_RANK": str(gang.rank),
        "NNODES": str(len(gang.nodes)),
    }


def told(gang: v1.GangSpec) -> str:
    nodes = ", ".join(gang.nodes)
    return f"Rank {gang.rank} of {len(gang.nodes)} nodes ({nodes}), which meet at {gang.host}:{gang.port}"
