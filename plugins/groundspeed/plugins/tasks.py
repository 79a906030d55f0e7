"""Training and inference tasks: what a target's factory may return, and one shape made of it.

A factory of a *training* target returns one of

* a callable: one whole training step;
* a mapping or an object with ``model`` and ``batch`` and, if wanted, ``loss``, ``optimizer``, ``samples_per_step``,
  ``tokens_per_step``, ``flops_per_step`` and ``check``. ``batch`` is a callable that returns a batch, an iterable that
  is cycled (a DataLoader), or one fixed batch. ``loss(model, batch)`` returns the loss; without it the model is called
  on the batch and its output (or the output's ``loss``) is the loss. ``optimizer`` is an optimiser, or a callable that
  gets the parameters and returns one; without it, AdamW.

A factory of an *inference* target returns a callable (one request) or ``model`` and ``inputs`` in the same manner, with
``run(model, inputs)`` if the model is not simply called.

Nothing of Groundspeed needs to be imported for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from groundspeed.plugins import targets
from groundspeed.plugins.spi import Context, Param, Unsupported


@dataclass(slots=True)
class Feed:
    """Gives one batch after another on the device, and keeps the time spent waiting for them."""

    source: Callable[[], Any]
    device: str
    waited_s: float = 0.0
    batches: int = 0

    def __call__(self) -> Any:
        begin = time.perf_counter()
        batch = to_device(self.source(), self.device)
        self.waited_s += time.perf_counter() - begin
        self.batches += 1
        return batch


@dataclass(slots=True)
class TrainingTask:
    """One shape for every training target. ``parts`` is None for a plain callable, whose inside is not known."""

    step: Callable[[], object]
    samples_per_step: float
    tokens_per_step: float = 0.0
    flops_per_step: float = 0.0
    parts: TrainingParts | None = None
    check: Callable[[], None] | None = None
    facts: dict[str, float | int | str] = field(default_factory=dict)


@dataclass(slots=True)
class TrainingParts:
    """The inside of a training step."""

    model: Any
    feed: Feed
    loss: Callable[[Any, Any], Any]
    optimizer: Any
    make_optimizer: Callable[..., Any] | None = None
    """The target's callable, where it gave one."""

    def step(self) -> object:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.model, self.feed())
        loss.backward()
        self.optimizer.step()
        return loss


def training_task(context: Context) -> TrainingTask:
    """Raises TypeError that says what is missing when the factory's return fits no form."""
    made = targets.make(context)
    batch_size = float(context.params.get("batch_size", 1))
    model = targets.part(made, "model")
    if model is None:
        if callable(made):
            return TrainingTask(step=made, samples_per_step=float(targets.part(made, "samples_per_step", batch_size)))
        raise TypeError(_wrong("training", made, "a callable step, or `model` and `batch`"))
    batch = targets.part(made, "batch")
    if batch is None:
        raise TypeError(_wrong("training", made, "`batch` besides `model`"))
    parts = TrainingParts(
        model=model,
        feed=Feed(as_source(batch), context.device),
        loss=targets.part(made, "loss") or default_loss,
        optimizer=make_optimizer(targets.part(made, "optimizer"), model),
        make_optimizer=_maker(targets.part(made, "optimizer")),
    )
    return TrainingTask(
        step=parts.step,
        samples_per_step=float(targets.part(made, "samples_per_step", batch_size)),
        tokens_per_step=float(targets.part(made, "tokens_per_step", 0.0)),
        flops_per_step=float(targets.part(made, "flops_per_step", 0.0)),
        parts=parts,
        check=targets.part(made, "check"),
        facts={"parameters": sum(p.numel() for p in model.parameters()) if hasattr(model, "parameters") else 0},
    )


@dataclass(slots=True)
class InferenceTask:
    """One shape for every inference target; ``request`` answers one batch and returns the output."""

    request: Callable[[], object]
    samples_per_request: float
    model: Any = None
    feed: Feed | None = None
    check: Callable[[], None] | None = None
    facts: dict[str, float | int | str] = field(default_factory=dict)
    run: Callable[[Any, Any], Any] = field(default_factory=lambda: call_on)
    fixed_inputs: bool = False
    """Whether every request gets the same inputs."""


def inference_task(context: Context) -> InferenceTask:
    """Raises TypeError that says what is missing when the factory's return fits no form."""
    import torch

    made = targets.make(context)
    batch_size = float(context.params.get("batch_size", 1))
    model = targets.part(made, "model")
    inputs = targets.part(made, "inputs")
    if model is None or inputs is None:
        if callable(made):
            return InferenceTask(request=_without_grad(made), samples_per_request=batch_size)
        raise TypeError(_wrong("inference", made, "a callable request, or `model` and `inputs`"))
    run = targets.part(made, "run") or call_on
    feed = Feed(as_source(inputs), context.device)
    if hasattr(model, "eval"):
        model.eval()

    def request() -> object:
        with torch.inference_mode():
            return run(model, feed())

    return InferenceTask(
        request=request,
        samples_per_request=float(targets.part(made, "samples_per_request", batch_size)),
        model=model,
        feed=feed,
        check=targets.part(made, "check"),
        facts={"parameters": sum(p.numel() for p in model.parameters()) if hasattr(model, "parameters") else 0},
        run=run,
        fixed_inputs=isinstance(inputs, torch.Tensor | tuple | list | Mapping),
    )


def as_source(batch: Any) -> Callable[[], Any]:
    """A callable that returns the next batch, from a callable, an iterable to cycle through, or one fixed batch."""
    import torch

    if callable(batch) and not isinstance(batch, torch.nn.Module):
        return batch  # type: ignore[no-any-return]
    if isinstance(batch, torch.Tensor | tuple | list | Mapping):
        return lambda: batch
    endless = _cycle(batch)
    return lambda: next(endless)


def _cycle(batches: Iterable[Any]) -> Iterator[Any]:
    while True:
        empty = True
        for batch in batches:
            empty = False
            yield batch
        if empty:
            raise ValueError("the target's `batch` is an iterable without a single batch")


def to_device(value: Any, device: str) -> Any:
    """Tensors within nested containers on the device, copied only when they are elsewhere."""
    import torch

    if isinstance(value, torch.Tensor):
        return value if str(value.device) == device else value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {key: to_device(item, device) for key, item in value.items()}
    if isinstance(value, tuple | list):
        moved = [to_device(item, device) for item in value]
        return type(value)(*moved) if hasattr(value, "_fields") else type(value)(moved)
    return value


def call_on(model: Any, batch: Any) -> Any:
    """The model called on a batch: mappings by name, tuples and lists by position."""
    if isinstance(batch, Mapping):
        return model(**batch)
    if isinstance(batch, tuple | list):
        return model(*batch)
    return model(batch)


def default_loss(model: Any, batch: Any) -> Any:
    """The model's own output, or its ``loss``. Raises TypeError where that is no single number."""
    output = call_on(model, batch)
    loss = output if getattr(output, "loss", None) is None else output.loss
    if not hasattr(loss, "numel") or loss.numel() != 1:
        what = f"shape {tuple(loss.shape)}" if hasattr(loss, "shape") else type(loss).__name__
        raise TypeError(
            f"the training target gives no `loss`, and its model's output ({what}) is no loss, a single number: return "
            "`loss` beside `model` and `batch`, such as `lambda model, batch: mse_loss(model(batch), batch)`"
        )
    return loss


def _maker(given: Any) -> Callable[..., Any] | None:
    import torch

    if given is None:
        return torch.optim.AdamW
    return None if hasattr(given, "zero_grad") else given  # type: ignore[no-any-return, unused-ignore]


def make_optimizer(given: Any, model: Any) -> Any:
    """The target's optimiser, one made by its callable, or AdamW with torch's defaults."""
    import torch

    if given is None:
        return torch.optim.AdamW(model.parameters())
    return given if hasattr(given, "zero_grad") else given(model.parameters())


def refuse_axes(context: Context, declared: Iterable[Param]) -> None:
    """A target that returned a plain callable cannot be varied from outside: raises Unsupported when asked to."""
    free = {"batch_size", "threads", "seed"}
    for param in declared:
        if param.name not in free and context.params.get(param.name, param.default) != param.default:
            raise Unsupported(
                f"{param.name} = {context.params[param.name]!r} needs a target that returns `model` and its parts, "
                "and this one returns a plain callable"
            )


def _without_grad(call: Callable[[], object]) -> Callable[[], object]:
    import torch

    def request() -> object:
        with torch.inference_mode():
            return call()

    return request


def _wrong(kind: str, made: Any, wanted: str) -> str:
    return f"the {kind} target returned {type(made).__name__}; it must return {wanted} (see docs/suites.md)"


def set_threads(context: Context) -> int:
    """Sets and returns torch's threads. ``threads`` 0: one on the CPU, torch's own choice beside an accelerator."""
    import torch

    asked = int(context.params.get("threads", 0))
    if asked > 0 or context.device == "cpu":
        torch.set_num_threads(max(asked, 1))
    return torch.get_num_threads()
