"""The tasks of the benchmark queues: wake the node, which then asks the service."""

from __future__ import annotations

from typing import Protocol

from groundspeed.service.wire.hints import RUN_JOB
from groundspeed.workers.app import app


class Wakeable(Protocol):
    def wake(self, job_id: int | None) -> None: ...

    def shutdown(self) -> None: ...


_bound: list[Wakeable] = []


def bind(node: Wakeable) -> None:
    """The node of this process, set once by the entry point."""
    _bound[:] = [node]


def shut_down() -> bool:
    """Have the node stop; whether there is one."""
    for node in _bound:
        node.shutdown()
    return bool(_bound)


@app.task(name=RUN_JOB)  # type: ignore[untyped-decorator]
def run_job(job_id: int, pool: str = "") -> None:  # noqa: ARG001 - the pool chose the queue
    """A job may be waiting. Delivered late, twice or never, this does no harm."""
    for node in _bound:
        node.wake(job_id)
