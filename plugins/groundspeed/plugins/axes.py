"""The axes of a training or inference suite, applied to what the target gave: precision, compilation, layout, memory.

Only what torch itself can do to any model is done here; what a model must offer is asked of it, and a combination that
is not to be had is Unsupported with the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from groundspeed.plugins.captured import captured_step
from groundspeed.plugins.spi import Param, ParamValue, Unsupported
from groundspeed.plugins.tasks import TrainingParts

PRECISIONS = ("own", "fp32", "tf32", "fp16", "bf16")
PRECISION = Param(
    "precision", "str", "own", choices=PRECISIONS, description="own: as the target sets it; fp16 and bf16: autocast"
)
CHANNELS_LAST = Param("channels_last", "bool", False, description="the model and four-dimensional batches")
TRAINING_AXES = (
    PRECISION,
    Param("mode", "str", "eager", choices=("eager", "compile"), description="compile: torch.compile(model)"),
    CHANNELS_LAST,
    Param("checkpointing", "bool", False, description="activations made again in the backward pass, if the model can"),
    Param("accumulation", "int", 1, minimum=1, maximum=1024, description="batches a step"),
    Param("fused", "bool", False, description="fused optimiser; the target's `optimizer` must be a callable"),
)

ONE_DEVICE_AXES = tuple(
    dataclasses.replace(
        one,
        choices=(*one.choices, "graph"),
        description=f"{one.description}; graph: CUDA graph of the step",
    )
    if one.name == "mode"
    else one
    for one in TRAINING_AXES
)
"""Of training on one device: a step of several ranks is not captured."""


def set_precision(precision: str) -> None:
    """Matrix products and convolutions of fp32 tensors: exact for fp32, 10-bit mantissa for tf32."""
    import torch

    if precision in {"fp32", "tf32"}:
        torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
        torch.backends.cudnn.allow_tf32 = precision == "tf32"


def autocast(precision: str, device: str) -> Any:
    """A context for the forward pass; one that does nothing for other precisions."""
    import contextlib

    import torch

    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision)
    if dtype is None:
        return contextlib.nullcontext()
    return torch.autocast(device.partition(":")[0], dtype=dtype)


def training_step(parts: TrainingParts, params: Mapping[str, ParamValue], device: str) -> Callable[[], object]:
    """One optimiser step with the axes applied to ``parts``. Raises Unsupported."""
    import torch

    precision, rounds = str(params["precision"]), int(params["accumulation"])
    set_precision(precision)
    prepare_model(parts, params)
    scaler = torch.amp.GradScaler(device.partition(":")[0], enabled=precision == "fp16" and device != "cpu")
    feed, loss_of = parts.feed, parts.loss

    def step() -> object:
        parts.optimizer.zero_grad(set_to_none=True)
        for _ in range(rounds):
            with autocast(precision, device):
                loss = loss_of(parts.model, feed()) / rounds
            scaler.scale(loss).backward()
        scaler.step(parts.optimizer)
        scaler.update()
        return loss

    if params["mode"] == "graph":
        return captured_step(parts, step, device, params)
    return step


def prepare_model(parts: TrainingParts, params: Mapping[str, ParamValue]) -> None:
    """Layout, checkpointing, fused optimiser and compilation, in that order."""
    import torch

    if params["channels_last"]:
        parts.model = parts.model.to(memory_format=torch.channels_last)
        parts.feed.source = channels_last(parts.feed.source)
    if params["checkpointing"]:
        turn_on_checkpointing(parts.model)
    if params["fused"]:
        parts.optimizer = fuse(parts)
    if params["mode"] == "compile":
        parts.model = torch.compile(parts.model)


def channels_last(source: Callable[[], Any]) -> Callable[[], Any]:
    import torch

    def convert(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.contiguous(memory_format=torch.channels_last) if value.dim() == 4 else value
        if isinstance(value, tuple | list):
            return type(value)(convert(item) for item in value)
        return value

    return lambda: convert(source())


def turn_on_checkpointing(model: Any) -> None:
    """Through a ``checkpointing`` attribute somewhere in the model, or transformers' own method."""
    if hasattr(model, "gradient_checkpointing_enable"):
        model.gradient_checkpointing_enable()
        return
    found = [module for module in model.modules() if hasattr(module, "checkpointing")]
    if not found:
        raise Unsupported(
            "checkpointing = true, but the model has neither `gradient_checkpointing_enable()` nor a module with a "
            "`checkpointing` attribute"
        )
    for module in found:
        module.checkpointing = True


def fuse(parts: TrainingParts) -> Any:
    """The same optimiser with its fused kernel."""
    if parts.make_optimizer is None:
        raise Unsupported("fused = true needs the target's `optimizer` to be a callable that takes the parameters")
    try:
        return parts.make_optimizer(parts.model.parameters(), fused=True)
    except (TypeError, RuntimeError) as error:
        raise Unsupported(f"fused = true: {error}") from error
