"""A whole training step captured as a CUDA graph and replayed: what the device takes, without the host's launches.

The step reads its batch from buffers that stay where they are; before a replay the next batch is copied into them. What
a graph cannot hold is refused in words: loss scaling and optimisers that ask the device for an answer, batches that
change shape, steps that wait for the device.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from groundspeed.plugins.spi import ParamValue, Unsupported
from groundspeed.plugins.tasks import TrainingParts

WARM_UPS = 3
"""Steps before the capture, on a stream of their own: what allocates or chooses algorithms does so in them."""
Capture = Callable[[Callable[[], object]], Callable[[], object]]
"""Takes a step, returns what does the same step again."""


def captured_step(
    parts: TrainingParts,
    step: Callable[[], object],
    device: str,
    params: Mapping[str, ParamValue],
    capture: Capture | None = None,
) -> Callable[[], object]:
    """``step`` with ``parts``' feed, as a replay. ``capture``: another than CUDA's, for tests. Raises Unsupported."""
    if capture is None:
        refuse(parts, device, str(params["precision"]))
        capture = cuda_graph
    feed, source = parts.feed, parts.feed.source
    held = like(feed())
    changing = not same_storage(source(), source())
    if changing and int(params["accumulation"]) > 1:
        raise Unsupported("mode graph with accumulation needs a target that gives one fixed batch")
    feed.source = lambda: held
    replay = capture(step)

    def again() -> object:
        if changing:
            begin = time.perf_counter()
            fill(held, source())
            feed.waited_s += time.perf_counter() - begin
            feed.batches += 1
        return replay()

    return again


def refuse(parts: TrainingParts, device: str, precision: str) -> None:
    """Raises Unsupported for what is known to be impossible; makes the optimiser one that can be captured."""
    if device.partition(":")[0] != "cuda":
        raise Unsupported("mode graph replays a CUDA graph and needs a CUDA device")
    if precision == "fp16":
        raise Unsupported("mode graph with fp16: loss scaling decides on the host whether a step counts; take bf16")
    parts.optimizer = capturable(parts)


def capturable(parts: TrainingParts) -> Any:
    """The optimiser with its counters on the device. Raises Unsupported when it has no such form."""
    groups = parts.optimizer.param_groups
    if all("capturable" not in group for group in groups):
        return parts.optimizer  # one that keeps no counters, such as SGD
    if parts.make_optimizer is None:
        for group in groups:
            group["capturable"] = True
        return parts.optimizer
    fused = any(group.get("fused") for group in groups)
    try:
        return parts.make_optimizer(parts.model.parameters(), capturable=True, **({"fused": True} if fused else {}))
    except TypeError as error:
        raise Unsupported(f"mode graph needs the target's `optimizer` to take capturable=True: {error}") from error


def cuda_graph(step: Callable[[], object]) -> Callable[[], object]:
    """Warm-ups on a side stream, then the capture. Raises Unsupported with CUDA's own words."""
    import torch

    side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            result = step()
    except RuntimeError as error:
        words = next((line for line in str(error).splitlines() if line.strip()), "no reason given")
        with contextlib.suppress(RuntimeError):
            torch.cuda.synchronize()
        raise Unsupported(f"mode graph: this step cannot be captured: {words}") from error

    def replay() -> object:
        graph.replay()
        return result

    return replay


def like(batch: Any) -> Any:
    """Buffers of the batch's shape, with its content."""
    import torch

    if isinstance(batch, torch.Tensor):
        return batch.clone()
    if isinstance(batch, Mapping):
        return {key: like(value) for key, value in batch.items()}
    if isinstance(batch, tuple | list):
        made = [like(value) for value in batch]
        return type(batch)(*made) if hasattr(batch, "_fields") else type(batch)(made)
    return batch


def same_storage(one: Any, other: Any) -> bool:
    """Whether two batches are the same tensors: a fixed batch needs no copying."""
    return [tensor.data_ptr() for tensor in leaves(one)] == [tensor.data_ptr() for tensor in leaves(other)]


def fill(held: Any, batch: Any) -> None:
    """Raises Unsupported when a batch has another shape than the first."""
    for buffer, value in zip(leaves(held), leaves(batch), strict=True):
        if buffer.shape != value.shape:
            raise Unsupported(f"mode graph needs batches of one shape: {list(value.shape)} after {list(buffer.shape)}")
        buffer.copy_(value, non_blocking=True)


def leaves(value: Any) -> list[Any]:
    """All tensors of a batch, in order."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, tuple | list) else []
