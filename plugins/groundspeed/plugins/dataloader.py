"""Data loading: samples a second, how long a step waits for its batch, and which stage holds it up."""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from groundspeed.plugins import targets, tasks
from groundspeed.plugins.common import SEED
from groundspeed.plugins.loader_bottleneck import Stages, bottleneck, own_time
from groundspeed.plugins.spi import (
    Context,
    Direction,
    Kind,
    Measured,
    Metric,
    Needs,
    Param,
    SampleState,
    Unsupported,
)
from groundspeed.plugins.symptoms import SYMPTOMS, hint

PROBED_SAMPLES = 16
PROBE_MAX_S = 1.5


@dataclass(slots=True)
class Source:
    """What the factory returned: a loader ready made, or a dataset from which one is made as the parameters say."""

    loader: Any = None
    dataset: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    step: Callable[[Any], object] | None = None
    copy: Callable[[Any, str], Any] | None = None


class DataLoader:
    """Self-timed. Batches are taken one after the other, each followed by a step of a stated or the target's length."""

    timing: ClassVar[Literal["self-timed"]] = "self-timed"
    name = "dataloader"
    version = "1"
    description = "Data loading: samples/s over workers, pinning and prefetching, and the time a step waits for data"
    needs = Needs(packages=("torch>=2.6",), target=True)
    params: tuple[Param, ...] = (
        Param("batch_size", "int", 32, minimum=1, description="of the loader that is made from the target's dataset"),
        Param("workers", "int", 2, minimum=0, maximum=512, description="processes; 0: in the main process"),
        Param("pin_memory", "bool", False, description="batches in page-locked memory; needs an accelerator"),
        Param("prefetch", "int", 2, minimum=1, maximum=1024, description="batches that each worker has ready"),
        Param("start", "str", "spawn", choices=("spawn", "fork", "forkserver"), description="of worker processes"),
        Param("step_s", "float", 0.0, minimum=0.0,
              description="seconds that a step works; 0: the target's step, or none"),
        Param("batches", "int", 50, minimum=3, maximum=1_000_000, series=False, description="at most"),
        Param("seconds", "float", 5.0, minimum=0.0, series=False, description="at most"),
        Param("cpus", "int", 0, minimum=0, series=False, description="that workers may use; 0: those of this process"),
        SEED,
    )  # fmt: skip

    def metrics(self) -> tuple[Metric, ...]:
        def seconds(name: str, description: str, formula: str, *, gate: bool = False) -> Metric:
            return Metric(name, "s", Direction.LOWER, Kind.TIME, description, formula, gate, "wall")

        return (
            Metric("samples_per_s", "samples/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="with the step in between", formula="samples of a batch / time from batch to batch"),
            Metric("loader_samples_per_s", "samples/s", Direction.HIGHER, Kind.RATE, clock="wall", gate=False,
                   description="the loader alone, nothing in between",
                   formula="samples after the first batch / time they took"),
            seconds("wait_time", "time that a step waits for its batch", "perf_counter around next(loader)"),
            Metric("wait_share", "1", Direction.LOWER, Kind.RATIO, clock="wall", gate=False,
                   description="of the time from batch to batch",
                   formula="sum of wait_time / time of all batches but the first"),
            seconds("copy_time", "a batch to the device, waited for", "perf_counter around it; accelerators only"),
            seconds("first_batch_time", "starting the workers included", "perf_counter from iter(loader)"),
            Metric("sample_cpu_time", "s", Direction.LOWER, Kind.TIME, clock="cpu",
                   description="CPU time of making one sample (decoding, augmentation), map-style datasets",
                   formula="thread CPU time around dataset[i], in the main process"),
            seconds("sample_blocked_time", "time that making one sample waits for storage or network",
                    "wall time - CPU time - time in the run queue (/proc/thread-self/schedstat) around dataset[i]"),
        )  # fmt: skip

    def run(self, context: Context) -> Iterable[Measured]:
        with context.phase("setup"):
            source = source_of(targets.make(context))
        context.progress("one sample at a time")
        probes = probe(source.dataset) if source.dataset is not None else []
        if probes:
            yield Measured("sample_cpu_time", [one.cpu_s for one in probes])
            yield Measured("sample_blocked_time", [one.blocked_s for one in probes])
        loader = source.loader if source.loader is not None else make_loader(source, context)
        step = step_of(source, float(context.params["step_s"]))
        context.progress("the loader alone")
        alone = take(loader, context, None, lambda batch: batch)
        yield Measured("first_batch_time", [alone.first_s])
        yield Measured("loader_samples_per_s", [alone.rate()])
        copy = copier(source, context.device)
        context.progress("with steps")
        fed = take(loader, context, step, copy)
        states = fed.states(context)
        rates = [s / t for s, t in zip(fed.samples, fed.between_s, strict=True)]
        yield Measured("samples_per_s", rates, states=states)
        yield Measured("wait_time", fed.wait_s, states=states)
        share = sum(fed.wait_s) / sum(fed.between_s)
        yield Measured("wait_share", [share])
        if context.device != "cpu" or source.copy is not None:
            yield Measured("copy_time", fed.copy_s, states=states)
        name_it(context, source, fed, probes, share)


@dataclass(slots=True)
class Taken:
    """One entry a batch, the first left out (it starts the workers). Seconds."""

    first_s: float = 0.0
    wait_s: list[float] = field(default_factory=list)
    copy_s: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    between_s: list[float] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    begin_s: list[float] = field(default_factory=list)
    """When the batch was asked for, on ``time.perf_counter``."""
    pinned: bool = False

    def states(self, context: Context) -> list[SampleState]:
        """Of each batch, by the device's conditions meanwhile."""
        return [context.state_between(at, took) for at, took in zip(self.begin_s, self.between_s, strict=True)]

    def rate(self) -> float:
        return sum(self.samples) / sum(self.between_s)


def take(loader: Any, context: Context, step: Callable[[Any], object] | None, copy: Callable[[Any], Any]) -> Taken:
    """Batches up to the limits of count and time; an epoch that ends begins again. Raises Unsupported for no batch."""
    taken = Taken()
    deadline = time.perf_counter() + float(context.params["seconds"])
    begin = time.perf_counter()
    batches = endless(loader)
    last = begin
    for number in range(int(context.params["batches"]) + 1):
        asked = time.perf_counter()
        batch = next(batches)
        got = time.perf_counter()
        there = copy(batch)
        copied = time.perf_counter()
        if step is not None:
            step(there)
        done = time.perf_counter()
        if number == 0:
            taken.first_s = got - begin
            taken.pinned = is_pinned(batch)
        else:
            taken.begin_s.append(asked)
            taken.wait_s.append(got - asked)
            taken.copy_s.append(copied - got)
            taken.step_s.append(done - copied)
            taken.between_s.append(done - last)
            taken.samples.append(samples_in(batch))
        last = done
        context.progress(f"batch {number}")
        if number >= 3 and done > deadline:
            break
    return taken


def endless(loader: Any) -> Iterator[Any]:
    while True:
        empty = True
        for batch in loader:
            empty = False
            yield batch
        if empty:
            raise Unsupported("the target's loader or dataset gives no batch")


def name_it(context: Context, source: Source, fed: Taken, probes: Sequence[Any], share: float) -> None:
    """The bottleneck as a label and a fact."""
    workers = int(getattr(source.loader, "num_workers", context.params["workers"]))
    stages = Stages(
        wait_share=share,
        copy_share=sum(fed.copy_s) / sum(fed.between_s),
        pinned=fed.pinned,
        workers=workers,
        cpus=int(context.params["cpus"]) or usable_cpus(),
        sample_cpu_s=statistics.median(one.cpu_s for one in probes) if probes else None,
        sample_blocked_s=statistics.median(one.blocked_s for one in probes) if probes else None,
    )
    code = bottleneck(stages)
    context.facts["bottleneck"] = code or "none"
    if code:
        context.labels[code.replace("-", "_")] = f"{SYMPTOMS[code].what} ({stages.evidence(code)}): {hint(code)}"
    if share > 0.1:
        context.labels["input_bound"] = f"{share:.0%} of the time is waiting for the next batch: {hint('input-bound')}"


def source_of(made: Any) -> Source:
    """Raises TypeError that says what the target must return."""
    loader, dataset = targets.part(made, "loader"), targets.part(made, "dataset")
    if loader is None and dataset is None:
        if hasattr(made, "__iter__"):
            loader = made
        elif hasattr(made, "__getitem__") and hasattr(made, "__len__"):
            dataset = made
        else:
            raise TypeError(
                f"the dataloader target returned {type(made).__name__}; it must return a loader, or `dataset` "
                "(see docs/suites.md)"
            )
    if loader is not None and dataset is None:
        dataset = getattr(loader, "dataset", None)
    step = targets.part(made, "step")
    return Source(loader, dataset, dict(targets.part(made, "options") or {}), step, targets.part(made, "copy"))


def probe(dataset: Any) -> list[Any]:
    """Samples made one at a time in this process; empty for datasets without index."""
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")) or len(dataset) == 0:
        return []
    found, until = [], time.perf_counter() + PROBE_MAX_S
    for index in range(PROBED_SAMPLES):
        found.append(own_time(functools.partial(dataset.__getitem__, index % len(dataset))))
        if index >= 2 and time.perf_counter() > until:
            break
    return found[1:] if len(found) > 1 else found


def make_loader(source: Source, context: Context) -> Any:
    from torch.utils.data import DataLoader as TorchLoader

    workers, pin = int(context.params["workers"]), bool(context.params["pin_memory"])
    if pin and context.device == "cpu":
        raise Unsupported("pin_memory needs an accelerator, and this runs on the CPU")
    options: dict[str, Any] = {
        "batch_size": int(context.params["batch_size"]),
        "num_workers": workers,
        "pin_memory": pin,
    }
    if workers:
        options |= {
            "prefetch_factor": int(context.params["prefetch"]),
            "persistent_workers": True,
            "multiprocessing_context": str(context.params["start"]),
        }
    return TorchLoader(source.dataset, **{**options, **source.options})


def step_of(source: Source, seconds: float) -> Callable[[Any], object] | None:
    """The stated time is slept: the CPUs stay free for the workers, as beside a device."""
    if seconds > 0:
        return lambda _: time.sleep(seconds)
    return source.step


def copier(source: Source, device: str) -> Callable[[Any], Any]:
    if source.copy is not None:
        copy = source.copy
        return lambda batch: copy(batch, device)
    if device == "cpu":
        return lambda batch: batch
    import torch

    module = getattr(torch, device.partition(":")[0])

    def to_device(batch: Any) -> Any:
        there = tasks.to_device(batch, device)
        module.synchronize()
        return there

    return to_device


def is_pinned(batch: Any) -> bool:
    from groundspeed.plugins.modes import tensors

    found = tensors(batch)
    return bool(found) and all(tensor.is_pinned() for tensor in found if tensor.device.type == "cpu")


def samples_in(batch: Any) -> int:
    from groundspeed.plugins.modes import tensors

    found = [tensor for tensor in tensors(batch) if tensor.dim() > 0]
    if found:
        return int(found[0].shape[0])
    return len(batch) if hasattr(batch, "__len__") else 1


def usable_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


PLUGIN = DataLoader()
