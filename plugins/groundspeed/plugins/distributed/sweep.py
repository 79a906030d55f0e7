"""The inside of the collectives plugin: one collective over a sweep of sizes, measured and checked in each rank.

Sizes and factors are those of nccl-tests (doc/PERFORMANCE.md): ``algbw = bytes / time``, ``busbw = algbw * factor``,
with ``bytes`` the whole buffer of the collective (for all_gather, reduce_scatter and all_to_all the sum over ranks).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from groundspeed.plugins.distributed.rank import RankContext
from groundspeed.plugins.spi import WrongResult

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv")
SAMPLE_S = 2e-2
"""A sample holds as many operations as fill this: of two alone, what begins and ends a row showed (1 % at 1 GiB)."""
MAX_PER_SAMPLE = 50
"""In-place sums grow with every operation: between resets two rows of two ranks must stay far from overflow."""

ALIGNED_BYTES = 512
"""Where a buffer may begin: as an allocator gives them, so that none is copied by a slower kernel."""

QUEUE_AHEAD, QUEUE_MARGIN_S = 2.0, 5e-4
"""The device waits so many times as long as the host took to queue a row, and a little more: hosts wander."""
FASTEST_CLOCK_HZ = 2e9
"""The waiting kernel counts cycles: a slower device waits longer, which does no harm."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One collective on buffers of its own.

    ``run`` does it once, on the next of its buffers, so that none is found in the device's cache (nccl-tests moves on
    through its buffers too); ``reset`` makes the buffers fit to be timed again (in-place sums grow) and is not timed;
    ``verify`` runs it on known values and raises WrongResult when any rank's result is not right.
    """

    run: Callable[[], object]
    verify: Callable[[], None]
    reset: Callable[[], object]


class Row(NamedTuple):
    """One row of operations. ``late``: the device began on it before the host had queued it whole, and may have waited
    for the host in it.
    """

    seconds: float
    """Of one operation."""
    late: bool = False
    begin_s: float = 0.0
    """On ``time.perf_counter``, which the processes of one host share; with ``took_s`` it joins a sample to the
    conditions that it was taken under.
    """
    took_s: float = 0.0


Timed = Callable[[Operation, int, RankContext], Callable[[], Row]]
"""For an operation and how many make a row: what measures one row."""


def bus_factor(collective: str, world_size: int) -> float:
    """Bus bandwidth over algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md)."""
    share = (world_size - 1) / world_size
    factors = {"all_reduce": 2 * share, "all_gather": share, "reduce_scatter": share, "all_to_all": share}
    return factors.get(collective, 1.0)


def sizes(minimum: int, maximum: int, factor: int) -> list[int]:
    """minimum, minimum x factor, … up to and including maximum."""
    found = [minimum]
    while found[-1] * factor <= maximum:
        found.append(found[-1] * factor)
    return found


def entry(context: RankContext) -> None:
    """Emits a ``point`` for each size: seconds of one operation, one value a sample, and which of them a late host is
    part of.
    """
    payload = context.payload
    for size in sizes(payload["min_bytes"], payload["max_bytes"], payload["factor"]):
        context.emit("progress", at=f"{payload['collective']} of {size} bytes", measures=True)
        if payload.get("fault") is not None:
            _plant(payload["fault"], context.rank, size)
        with allocated(payload, size, context) as operation:
            operation.verify()
            rows = measure(operation, context, payload)
            operation.verify()
            del operation  # its buffers are given back before their pool is
        columns = {name: [getattr(row, name) for row in rows] for name in Row._fields}
        context.emit("point", bytes=size, **columns)


def _plant(fault: dict[str, Any], rank: int, size: int) -> None:
    """A fault for tests: {"kind": "hang", "wrong" or the name of a signal, "rank": …, "bytes": …}."""
    if fault["rank"] == rank and fault["bytes"] == size:
        if fault["kind"] == "hang":
            time.sleep(3600)
        if fault["kind"].startswith("SIG"):
            os.kill(os.getpid(), signal.Signals[fault["kind"]])
        if fault["kind"] == "wrong":
            raise WrongResult(f"planted wrong value at {size} bytes")


@contextlib.contextmanager
def allocated(payload: Mapping[str, Any], size: int, context: RankContext) -> Iterator[Operation]:
    """The operation with buffers as tensors usually have them ("plain"), or ("registered") in memory that NCCL
    allocated and knows, so that devices of one host read each other's buffers without a copy in between.
    """
    if payload["buffers"] == "plain":
        yield build(payload, size, context)
        return
    import torch
    import torch.distributed as dist

    group: Any = dist.group.WORLD
    backend = group._get_backend(torch.device("cuda"))  # noqa: SLF001 - torch gives no other way to NCCL's allocator
    pool = torch.cuda.MemPool(backend.mem_allocator)
    with torch.cuda.use_mem_pool(pool):
        operation = build(payload, size, context)
    backend.register_mem_pool(pool)
    yield operation
    # Only where all went well: a rank that failed ends, and waiting for the device could wait for a dead peer.
    torch.cuda.synchronize()
    backend.deregister_mem_pool(pool)
    del operation


def _nothing() -> None:
    """The buffers stay as they are."""


def build(payload: Mapping[str, Any], size: int, context: RankContext) -> Operation:
    """On buffers filled with values whose result is known in every rank; the target's own where there is one."""
    if payload.get("target"):
        from groundspeed.plugins.distributed.own import own_operation

        return own_operation(payload, size, context)
    return _BUILDERS[payload["collective"]](Shape.of(payload, size, context))


@dataclass(frozen=True, slots=True)
class Shape:
    """``copies`` buffers of ``count`` elements."""

    world: int
    rank: int
    count: int
    copies: int
    dtype: Any
    device: str

    @classmethod
    def of(cls, payload: Mapping[str, Any], size: int, context: RankContext) -> Shape:
        """As many buffers as ``rotate_bytes`` hold with what lies between them, at least one; each of a whole number of
        elements that all ranks can share evenly, at least one element a rank.
        """
        import torch

        dtype, world = getattr(torch, payload["dtype"]), context.world_size
        count = max(1, size // dtype.itemsize // world) * world
        copies = max(1, payload["rotate_bytes"] // (_apart(count, dtype) * dtype.itemsize))
        return cls(world, context.rank, count, copies, dtype, context.device)

    def full(self, count: int, value: float) -> Any:
        """(copies, count) elements; each copy begins where an allocation could."""
        import torch

        apart = count if self.copies == 1 else _apart(count, self.dtype)
        return torch.full((self.copies, apart), value, dtype=self.dtype, device=self.device)[:, :count]

    def operation(
        self,
        run: Callable[..., object],
        verify: Callable[..., None],
        *buffers: Any,
        reset: Callable[[], object] = _nothing,
    ) -> Operation:
        """``run`` and ``verify`` take one copy of each of the buffers: the next one each time."""
        turn = itertools.cycle(range(self.copies))

        def on_next(function: Callable[..., Any]) -> Callable[[], Any]:
            def call() -> Any:
                number = next(turn)
                return function(*(buffer[number] for buffer in buffers))

            return call

        return Operation(on_next(run), on_next(verify), reset)

    def expect(self, tensor: Any, value: float, what: str) -> None:
        wrong = int((tensor != value).sum())
        if wrong:
            first = float(tensor[(tensor != value).nonzero()[0]])
            raise WrongResult(
                f"{what} on rank {self.rank}: {wrong} of {tensor.numel()} values wrong; {first} ≠ {value}"
            )


def _apart(count: int, dtype: Any) -> int:
    """Elements from the beginning of one buffer of ``count`` to that of the next."""
    step: int = ALIGNED_BYTES // dtype.itemsize
    return math.ceil(count / step) * step


def _all_reduce(shape: Shape) -> Operation:
    import torch
    import torch.distributed as dist

    buffers = shape.full(shape.count, 0)
    source = torch.rand(buffers.shape, device=shape.device).to(shape.dtype)

    def verify(buffer: Any) -> None:
        buffer.fill_(shape.rank + 1)
        dist.all_reduce(buffer)
        shape.expect(buffer, shape.world * (shape.world + 1) / 2, "all_reduce")

    return shape.operation(dist.all_reduce, verify, buffers, reset=lambda: buffers.copy_(source))


def _all_gather(shape: Shape) -> Operation:
    import torch.distributed as dist

    part = shape.count // shape.world

    def verify(whole: Any, mine: Any) -> None:
        whole.zero_()
        dist.all_gather_into_tensor(whole, mine)
        for source in range(shape.world):
            shape.expect(whole[source * part : (source + 1) * part], source + 1, "all_gather")

    whole, mine = shape.full(shape.count, 0), shape.full(part, shape.rank + 1)
    return shape.operation(dist.all_gather_into_tensor, verify, whole, mine)


def _reduce_scatter(shape: Shape) -> Operation:
    import torch.distributed as dist

    def verify(mine: Any, whole: Any) -> None:
        mine.zero_()
        dist.reduce_scatter_tensor(mine, whole)
        shape.expect(mine, shape.world * (shape.world + 1) / 2, "reduce_scatter")

    mine, whole = shape.full(shape.count // shape.world, 0), shape.full(shape.count, shape.rank + 1)
    return shape.operation(dist.reduce_scatter_tensor, verify, mine, whole)


def _broadcast(shape: Shape) -> Operation:
    import torch.distributed as dist

    def run(buffer: Any) -> object:
        return dist.broadcast(buffer, src=0)

    def verify(buffer: Any) -> None:
        buffer.fill_(7 if shape.rank == 0 else 0)
        run(buffer)
        shape.expect(buffer, 7, "broadcast")

    return shape.operation(run, verify, shape.full(shape.count, 0))


def _all_to_all(shape: Shape) -> Operation:
    import torch.distributed as dist

    part = shape.count // shape.world

    def verify(got: Any, sent: Any) -> None:
        got.zero_()
        dist.all_to_all_single(got, sent)
        for source in range(shape.world):
            shape.expect(got[source * part : (source + 1) * part], source + 1, "all_to_all")

    got, sent = shape.full(shape.count, 0), shape.full(shape.count, shape.rank + 1)
    return shape.operation(dist.all_to_all_single, verify, got, sent)


def _send_recv(shape: Shape) -> Operation:
    """Every rank sends to the next and receives from the one before, at once."""
    import torch.distributed as dist

    after, before = (shape.rank + 1) % shape.world, (shape.rank - 1) % shape.world

    def run(got: Any, sent: Any) -> None:
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, after), dist.P2POp(dist.irecv, got, before)]):
            work.wait()

    def verify(got: Any, sent: Any) -> None:
        got.zero_()
        run(got, sent)
        shape.expect(got, before + 1, "send_recv")

    return shape.operation(run, verify, shape.full(shape.count, 0), shape.full(shape.count, shape.rank + 1))


_BUILDERS: dict[str, Callable[[Shape], Operation]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "broadcast": _broadcast,
    "all_to_all": _all_to_all,
    "send_recv": _send_recv,
}


def measure(operation: Operation, context: RankContext, payload: Mapping[str, Any]) -> list[Row]:
    """One row a sample; all ranks take the same number of operations and samples."""
    timed = way_of_timing(context.device, payload["launch"])
    repeat(operation, 3)
    once = agree(timed(operation, 3, context)().seconds, context)
    per_sample = max(2, min(MAX_PER_SAMPLE, math.ceil(SAMPLE_S / max(once, 1e-7))))
    sample = timed(operation, per_sample, context)
    begin = time.perf_counter()
    sample()
    takes_s = agree(max(time.perf_counter() - begin, once * per_sample), context)
    count = max(5, min(payload["samples"], int(payload["seconds_per_size"] / takes_s)))
    return late_on_any([_when(sample) for _ in range(count)], context)


def _when(sample: Callable[[], Row]) -> Row:
    begin = time.perf_counter()
    return sample()._replace(begin_s=begin, took_s=time.perf_counter() - begin)


def way_of_timing(device: str, launch: str) -> Timed:
    """As asked on CUDA (and ROCm, which torch calls so); on other accelerators launched one by one."""
    kind = device.partition(":")[0]
    return TIMED[launch] if kind == "cuda" else host_timed if kind == "cpu" else event_timed


def agree(seconds: float, context: RankContext) -> float:
    """The slowest rank's figure, the same in all ranks."""
    import torch
    import torch.distributed as dist

    value = torch.tensor([seconds], dtype=torch.float32, device=context.device)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return float(value.item())


def late_on_any(rows: list[Row], context: RankContext) -> list[Row]:
    """A rank whose host was late holds up the others in the same row, which they cannot see by themselves."""
    import torch
    import torch.distributed as dist

    late = torch.tensor([row.late for row in rows], dtype=torch.int32, device=context.device)
    dist.all_reduce(late, op=dist.ReduceOp.MAX)
    return [row._replace(late=bool(one)) for row, one in zip(rows, late.tolist(), strict=True)]


def repeat(operation: Operation, repeats: int) -> None:
    for _ in range(repeats):
        operation.run()


def host_timed(operation: Operation, repeats: int, _context: RankContext) -> Callable[[], Row]:
    """By the host's clock, for a CPU."""
    import torch.distributed as dist

    def sample() -> Row:
        operation.reset()
        dist.barrier()
        begin = time.perf_counter()
        repeat(operation, repeats)
        return Row((time.perf_counter() - begin) / repeats)

    return sample


def event_timed(operation: Operation, repeats: int, context: RankContext) -> Callable[[], Row]:
    """Each operation launched from Python: below some MiB the host's own time shows, and is part of what is asked."""
    sample = _between_events(operation, repeats, context, operation.run)
    return lambda: sample()._replace(late=False)


def queue_timed(operation: Operation, repeats: int, context: RankContext) -> Callable[[], Row]:
    """The row queued while the device waits in a kernel that does nothing: the fabric's time without the host's, in a
    stream as programs use it.
    """
    import torch

    launch_s = agree(_launching_s(operation, repeats + 1), context)
    cycles = int((QUEUE_AHEAD * launch_s + QUEUE_MARGIN_S) * FASTEST_CLOCK_HZ)
    cuda: Any = torch.cuda

    def wait_and_run() -> None:
        cuda._sleep(cycles)  # noqa: SLF001 - the only kernel in torch that waits
        operation.run()

    return _between_events(operation, repeats, context, wait_and_run)


def graph_timed(operation: Operation, repeats: int, context: RankContext) -> Callable[[], Row]:
    """The row captured into one CUDA graph and replayed, as programs that capture their collectives have it: launched
    while a first row still runs. The graph keeps to the buffers of its row, of which the device's cache may hold those
    that are small.
    """
    import torch

    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        repeat(operation, repeats)
    return _between_events(operation, repeats, context, graph.replay, graph.replay)


def _between_events(
    operation: Operation,
    repeats: int,
    context: RankContext,
    first: Callable[[], object],
    row: Callable[[], object] | None = None,
) -> Callable[[], Row]:
    """``row`` (or as many operations) by the device's clock, behind ``first``, which is not timed: it has the ranks
    enter the timed part together. Late is what is queued when the device is done with ``first``: asked of the driver
    once the row is queued, so that the device knows nothing of the question.
    """
    import torch

    event: Any = getattr(torch, context.device.partition(":")[0]).Event
    start, end = event(enable_timing=True), event(enable_timing=True)
    timed = row or functools.partial(repeat, operation, repeats)

    def sample() -> Row:
        operation.reset()
        first()
        start.record()
        timed()
        end.record()
        late = bool(start.query())
        end.synchronize()
        return Row(float(start.elapsed_time(end)) * 1e-3 / repeats, late)

    return sample


def _launching_s(operation: Operation, repeats: int) -> float:
    """What the host takes to queue so many."""
    import torch

    operation.reset()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    repeat(operation, repeats)
    launching_s = time.perf_counter() - begin
    torch.cuda.synchronize()
    return launching_s


TIMED: Mapping[str, Timed] = {"queued": queue_timed, "graph": graph_timed, "eager": event_timed}
