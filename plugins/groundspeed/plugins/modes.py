"""The modes of an inference suite: how the model is run, and what its answer must still be close to."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from groundspeed.plugins import axes, targets
from groundspeed.plugins.spi import Param, ParamValue, Unsupported, WrongResult
from groundspeed.plugins.symptoms import hint
from groundspeed.plugins.tasks import InferenceTask

MODES = ("eager", "compile", "graph", "int8", "fp8", "onnxruntime", "tensorrt")
INFERENCE_AXES = (
    axes.PRECISION,
    Param("mode", "str", "eager", choices=MODES,
          description="graph: CUDA graph replay; int8 (CPU) and fp8 (GPU): linear layers, scaled per call"),
    axes.CHANNELS_LAST,
    Param("tolerance", "float", 0.0, minimum=0.0, series=False,
          description="largest relative error against fp32 eager; 0: by precision and mode"),
)  # fmt: skip
EIGHT_BITS = frozenset({"int8", "fp8"})
TOLERANCE = {"own": 1e-3, "fp32": 1e-4, "tf32": 5e-3, "fp16": 2e-2, "bf16": 6e-2}
EIGHT_BITS_TOLERANCE = 0.15
"""Of int8 and fp8: three significant bits in every product."""


def apply(task: InferenceTask, params: Mapping[str, ParamValue], device: str) -> InferenceTask:
    """The task in that mode, with a check of its answer against fp32 eager. Raises Unsupported."""
    import torch

    if task.model is None or task.feed is None:
        return task
    inputs = task.feed()
    reference = flatten(reference_answer(task, inputs))
    precision, mode = str(params["precision"]), str(params["mode"])
    axes.set_precision(precision)
    inputs = convert(task, precision, inputs)
    run = runner(task, params, device, inputs)

    def request() -> object:
        with torch.inference_mode():
            return run(task.feed() if task.feed is not None else inputs)

    def on_the_same() -> object:
        """What the reference has answered, answered in this mode: the next request may hold other inputs."""
        with torch.inference_mode():
            return run(inputs)

    answer: Callable[[], object] = on_the_same
    if mode == "graph":
        request = answer = graphed(request, inputs, task)
    limit = float(params["tolerance"]) or (EIGHT_BITS_TOLERANCE if mode in EIGHT_BITS else TOLERANCE[precision])
    stated = task.check

    def check() -> None:
        found = flatten(answer())
        comparable = found is not None and reference is not None and (found.shape == reference.shape or stated is None)
        if comparable:
            task.facts["relative_error"] = compare(found, reference, limit, f"{mode}, {precision}")
        else:
            task.facts["accuracy"] = "not compared: the answer has no floating-point tensors of one shape"
        if stated is not None:
            stated()

    return InferenceTask(request, task.samples_per_request, task.model, task.feed, check, task.facts)


def convert(task: InferenceTask, precision: str, inputs: Any) -> Any:
    """fp16 and bf16: parameters and floating-point inputs in that type, cast once as one serves; ``inputs`` so too."""
    import torch

    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision)
    if dtype is None or task.feed is None:
        return inputs
    task.model = task.model.to(dtype)
    source = task.feed.source

    def cast(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(dtype) if value.is_floating_point() else value
        if isinstance(value, Mapping):
            return {key: cast(item) for key, item in value.items()}
        return type(value)(cast(item) for item in value) if isinstance(value, tuple | list) else value

    fixed = cast(source()) if task.fixed_inputs else None
    task.feed.source = (lambda: fixed) if task.fixed_inputs else (lambda: cast(source()))
    return cast(inputs)


def reference_answer(task: InferenceTask, inputs: Any) -> Any:
    """The answer in fp32, eager, of the model as the target made it; asked for before anything is changed."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.inference_mode():
            return task.run(task.model, inputs)
    finally:
        torch.set_float32_matmul_precision(before)


def runner(task: InferenceTask, params: Mapping[str, ParamValue], device: str, inputs: Any) -> Callable[[Any], Any]:
    """Inputs → output in the mode asked for; ``inputs``: such as they will be."""
    import torch

    model, mode = task.model, str(params["mode"])
    if params["channels_last"]:
        model = model.to(memory_format=torch.channels_last)
    if mode == "compile":
        model = torch.compile(model)
    elif mode == "int8":
        model = quantised(model, device)
    elif mode == "fp8":
        refuse_fp8(device)
        model = with_fp8(model)
    elif mode == "onnxruntime":
        from groundspeed.plugins.onnx_mode import onnx_runner

        return onnx_runner(task, device, inputs)
    elif mode == "tensorrt":
        model = tensorrt(model)
    return lambda inputs: task.run(model, inputs)


def quantised(model: Any, device: str) -> Any:
    import torch

    if device != "cpu":
        raise Unsupported("mode int8 is torch's dynamic quantisation, which runs on the CPU only")
    quantization: Any = getattr(torch.ao, "quantization", None)
    dynamic: Any = getattr(quantization, "quantize_dynamic", None)
    if dynamic is None:
        raise Unsupported(f"this torch ({torch.__version__}) has no dynamic quantisation any more")
    # Only what lies within a module is replaced, never the module itself.
    return dynamic(torch.nn.ModuleList([copy.deepcopy(model)]), {torch.nn.Linear}, dtype=torch.qint8)[0]


def refuse_fp8(device: str) -> None:
    """Raises Unsupported where the device has no float8 units or this torch no product for them."""
    import torch

    if device == "cpu" or not hasattr(torch, "_scaled_mm"):
        raise Unsupported("mode fp8 needs an accelerator with float8 units (NVIDIA Ada and later, AMD MI300)")
    if torch.version.hip is None and torch.cuda.get_device_capability(device) < (8, 9):
        raise Unsupported("mode fp8 needs compute capability 8.9 (Ada) or later")


def with_fp8(model: Any) -> Any:
    """A copy whose linear layers, where both sizes are multiples of 16, multiply in e4m3 with a scale a tensor."""
    import torch

    model = copy.deepcopy(model)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is torch.nn.Linear and child.in_features % 16 == 0 and child.out_features % 16 == 0:
                setattr(module, name, _fp8_linear(child))
    return model


def _fp8_linear(linear: Any) -> Any:
    import torch

    largest = torch.finfo(torch.float8_e4m3fn).max

    def scaled(value: Any) -> tuple[Any, Any]:
        scale = (value.abs().max().float() / largest).clamp(min=1e-12)
        return (value.float() / scale).to(torch.float8_e4m3fn), scale

    class Fp8Linear(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight8, self.scale = scaled(linear.weight.detach())
            self.bias = linear.bias

        def forward(self, x: Any) -> Any:
            flat, scale = scaled(x.reshape(-1, x.shape[-1]))
            multiply: Any = torch._scaled_mm  # noqa: SLF001 - torch has no public fp8 product yet
            out = multiply(flat, self.weight8.t(), scale_a=scale, scale_b=self.scale, out_dtype=torch.bfloat16)
            out = out.to(x.dtype)
            return (out if self.bias is None else out + self.bias).reshape(*x.shape[:-1], -1)

    return Fp8Linear()


def tensorrt(model: Any) -> Any:
    import torch

    try:
        import torch_tensorrt  # type: ignore[import-not-found]  # noqa: F401 - registers the backend
    except ImportError as error:
        raise Unsupported("mode tensorrt needs the package torch-tensorrt in the build or the stack") from error
    return torch.compile(model, backend="tensorrt")


def graphed(request: Callable[[], object], inputs: Any, task: InferenceTask) -> Callable[[], object]:
    """The request captured once and replayed: what the device takes, without the host's launches."""
    import torch

    device = next(iter(tensors(inputs))).device
    if device.type != "cuda":
        raise Unsupported("mode graph replays a CUDA graph and needs a CUDA device")
    if task.feed is not None:
        task.feed.source = lambda: inputs
    cuda: Any = torch.cuda
    side = cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            request()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        answer = request()

    def replay() -> object:
        graph.replay()
        return answer

    return replay


def tensors(value: Any) -> list[Any]:
    """All tensors within nested containers and result objects, in order."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [found for item in value.values() for found in tensors(item)]
    if isinstance(value, tuple | list):
        return [found for item in value for found in tensors(item)]
    logits = targets.part(value, "logits")
    return [] if logits is None else [logits]


def flatten(answer: Any, *, here: bool = False) -> Any:
    """Every floating-point tensor of an answer as one fp64 vector, on the host or ``here``: where the answer is; None:
    there is none to compare.
    """
    import torch

    parts = [tensor.detach().flatten() for tensor in tensors(answer) if tensor.is_floating_point()]
    if not here or any(part.device.type == "mps" for part in parts):  # Apple's GPUs have no fp64
        parts = [part.cpu() for part in parts]
    return torch.cat([part.double() for part in parts]) if parts else None


def compare(answer: Any, reference: Any, limit: float, what: str) -> float:
    """‖answer - reference‖ / ‖reference‖, of a reference of zeros ‖answer‖. Raises WrongResult when it is over the
    limit or not a number, or the answer has another size.
    """
    if answer.shape != reference.shape:
        raise WrongResult(f"{what}: the answer has {answer.numel()} values, and fp32 eager gives {reference.numel()}")
    error = float((answer - reference).norm() / (float(reference.norm()) or 1.0))
    if not error <= limit:
        raise WrongResult(
            f"{what}: relative error {error:.2e} against fp32 eager is over {limit:g}: {hint('inaccurate')}"
        )
    return error
