"""Inference through ONNX Runtime: the model exported once, its first dimension left open."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Mapping
from typing import Any

from groundspeed.plugins.spi import Unsupported
from groundspeed.plugins.tasks import InferenceTask, call_on


def onnx_runner(task: InferenceTask, device: str, inputs: Any) -> Callable[[Any], Any]:
    """Inputs → outputs (tensors on the host), by the runtime's provider for the device. Raises Unsupported."""
    runtime = _runtime(device)
    if task.run is not call_on:
        raise Unsupported("mode onnxruntime needs a target whose model is simply called: this one gives its own `run`")
    given = in_order(task.model, inputs)
    _refuse(task.model, given)
    names = list(given)
    session = runtime.InferenceSession(_exported(task.model, inputs, given), providers=[_provider(device)])
    wanted = {one.name for one in session.get_inputs()}  # a constant of the model may have taken the place of one

    def run(batch: Any) -> Any:
        import torch

        values = in_order(task.model, batch)
        fed = {name: values[name].cpu().numpy() for name in names if name in wanted}
        return tuple(torch.from_numpy(found) for found in session.run(None, fed))

    return run


def in_order(model: Any, inputs: Any) -> dict[str, Any]:
    """By name in the order in which the model takes them; positional ones by number."""
    if not isinstance(inputs, Mapping):
        values = inputs if isinstance(inputs, tuple | list) else (inputs,)
        return {f"input_{index}": value for index, value in enumerate(values)}
    taken = [name for name in inspect.signature(model.forward).parameters if name in inputs]
    return {name: inputs[name] for name in (*taken, *(name for name in inputs if name not in taken))}


def _runtime(device: str) -> Any:
    try:
        import onnx  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: F401 - the export needs it
        import onnxruntime  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise Unsupported("mode onnxruntime needs the packages onnxruntime and onnx") from error
    if _provider(device) not in onnxruntime.get_available_providers():
        raise Unsupported(f"this onnxruntime has no {_provider(device)}: install the build of it for this device")
    return onnxruntime


def _provider(device: str) -> str:
    return "CPUExecutionProvider" if device == "cpu" else "CUDAExecutionProvider"


def _refuse(model: Any, given: Mapping[str, Any]) -> None:
    import torch

    if any(one.dtype is torch.bfloat16 for one in (*model.parameters(), *given.values()) if hasattr(one, "dtype")):
        raise Unsupported("mode onnxruntime has few operators in bf16, and numpy none: take fp16 or fp32")
    for name, value in given.items():
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"mode onnxruntime takes tensors, and {name} is {type(value).__name__}")


def _exported(model: Any, inputs: Any, given: Mapping[str, Any]) -> bytes:
    """Raises Unsupported with the exporter's own words."""
    import torch

    file = io.BytesIO()
    arguments = (dict(given),) if isinstance(inputs, Mapping) else tuple(given.values())
    export: Any = torch.onnx.export
    try:
        export(
            model, arguments, file, dynamo=False, input_names=list(given),
            dynamic_axes={name: {0: "batch"} for name, value in given.items() if value.dim() > 0},
        )  # fmt: skip
    except (RuntimeError, TypeError, ValueError) as error:
        words = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise Unsupported(f"mode onnxruntime: this model cannot be exported: {words}") from error
    return file.getvalue()
