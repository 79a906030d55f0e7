"""Writes docs/suites.md and docs/doctor.md from the code that they describe; a test keeps them equal.

python docs/make_suites.py
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from groundspeed.plugins.registry import BUILT_IN, load
from groundspeed.plugins.spi import Direction, Metric, Param, Plugin
from groundspeed.plugins.symptoms import SYMPTOMS, Severity

ORDER = (
    "gemm", "memory-bandwidth", "attention", "kernel", "training", "distributed-training", "inference", "serving",
    "generation", "memory", "collectives", "dataloader", "command", "asv",
)  # fmt: skip
HEAD = """\
# Suites

This page is written by `python docs/make_suites.py` from the plugins themselves.

A suite in `groundspeed.toml` names one of these plugins, its parameters and, where it measures the project's own code,
a target (`package.module:factory`). A list as a parameter's value makes one benchmark of each. What a target returns
stands in [plugins.md](plugins.md); how a number comes about in [measurement.md](measurement.md); what an H200 gave,
with spreads, shares of its ceilings and the commands, in [h200.md](h200.md).

Times and rates say on which clock they rest: *wall* is what users feel, *device* is the device's own trace, *cycles*
its clock cycles, *cpu* the CPU time of the process. A metric that does not gate is charted and never fails a pull
request unless the configuration says so. On a CPU, wall time never gates.

"""
MEASURED = "suites_measured.md"
"""What `tests/bench/gpu` measured, appended as it stands."""
DIRECTIONS = {Direction.LOWER: "lower", Direction.NEUTRAL: "neither", Direction.HIGHER: "higher"}
EXAMPLES = {
    "gemm": 'params = { precision = ["bf16", "fp8"], size = [4096, 8192] }',
    "memory-bandwidth": 'params = { operation = ["copy", "host_to_device", "device_to_host"] }',
    "attention": 'params = { backend = ["flash", "cudnn"], length = [4096, 16384], direction = "both" }',
    "kernel": 'target = "groundspeed.plugins.models.kernels:layernorm_gelu"\n'
    'params = { variant = ["unfused", "triton"], precision = "bf16", tolerance = 0.02 }',
    "training": 'target = "groundspeed.plugins.models.training:gpt"\nparams = { precision = "bf16" }',
    "distributed-training": 'target = "groundspeed.plugins.models.training:gpt"\n'
    'params = { parallel = ["ddp", "fsdp"], precision = "bf16" }\nrequires = { gpu_count = 2 }',
    "inference": 'target = "groundspeed.plugins.models.inference:bert_base"\n'
    'params = { mode = ["eager", "graph"], precision = "fp16" }',
    "serving": 'target = "groundspeed.plugins.models.inference:bert_base"\n'
    'params = { load = 200.0, batch_size = 16, limit_s = 0.02, precision = "fp16" }',
    "generation": 'target = "groundspeed.plugins.models.generation:gpt"\nparams = { precision = "bf16", load = 20.0 }',
    "memory": 'target = "groundspeed.plugins.models.training:gpt"\nparams = { batch_size = [8, 16] }',
    "collectives": 'params = { collective = ["all_reduce", "all_gather"] }\nrequires = { gpu_count = 2 }',
    "dataloader": 'target = "benchmarks.data:make"\nparams = { workers = [2, 8], pin_memory = true }',
    "command": 'params = { command = "all_reduce_perf -b 8K -e 1G -f 2 -g 2", parser = "nccl-tests" }',
    "asv": 'params = { bench = "time_" }',
}
"""By plugin, the rest of a [[suite]] that begins with its name; a test reads and plans each of them."""
DOCTOR_HEAD = """\
# Doctor

This page is written by `python docs/make_suites.py` from the table that the checks use.

`groundspeed doctor` checks the machine it runs on and explains each finding. It changes nothing. Given files, it reads
those in place of the machine: reports of `nvidia-smi -q` or `nvidia-smi -q -x`, a kernel log, or the text of an error
(`-` is standard input). `--json` prints the same for programs.

It exits with 0 when the node is fit to measure on, with 1 when a finding is an error (with `--strict` also a
warning), and with 2 when it could not look. Results carry hints in the same words: a failed run has `hints` beside its
message, and what the core or a plugin finds out about a good one stands in its labels.

"""
SEVERITIES: dict[Severity, str] = {
    "error": "Unfit to measure on, or nothing was measured",
    "warning": "Numbers are worse or less steady than they could be",
    "note": "Good to know",
}


def page() -> str:
    """docs/suites.md."""
    missing = set(BUILT_IN) - set(ORDER)
    names = [*ORDER, *sorted(missing)]
    measured = Path(__file__).with_name(MEASURED)
    tail = "\n" + measured.read_text(encoding="utf-8") if measured.exists() else ""
    return HEAD + "\n".join(_suite(load(name)) for name in names) + tail


def _suite(plugin: Plugin) -> str:
    needs = plugin.needs
    facts = [f"version {plugin.version}", "the core times its steps" if plugin.timing == "stepped" else "times itself"]
    facts.append("needs a target" if needs.target else "no target")
    facts += [f"needs `{package}`" for package in needs.packages]
    parts = [f"## {plugin.name}\n", f"{plugin.description}. {', '.join(facts).capitalize()}.\n"]
    parts += ["```toml", example(plugin.name).rstrip(), "```\n"]
    parts += _table(("parameter", "type", "default", "takes", "meaning"), map(_param, plugin.params))
    parts += _table(
        ("metric", "unit", "better", "kind", "clock", "gates", "what", "formula or source"),
        map(_metric, plugin.metrics()),
    )
    return "\n".join(parts)


def example(name: str) -> str:
    """A suite of groundspeed.toml that uses the plugin."""
    return f'[[suite]]\nname = "{name}"\nplugin = "{name}"\n{EXAMPLES[name]}\n'


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    lines += [f"| {' | '.join(_plain(cell) for cell in row)} |" for row in rows]
    return [*lines, ""]


def _param(param: Param) -> tuple[str, ...]:
    takes = ", ".join(f"`{choice}`" for choice in param.choices)
    if not takes and param.minimum is not None and param.maximum is not None:
        takes = f"{param.minimum:g} to {param.maximum:g}"
    elif not takes and param.minimum is not None:
        takes = f"{param.minimum:g} or more"
    default = "none" if param.default in {None, ""} else f"`{str(param.default).lower()}`"
    if isinstance(param.default, str) and param.default:
        default = f"`{param.default}`"
    meaning = param.description + ("" if param.series else f"{'; ' if param.description else ''}makes no other series")
    return f"`{param.name}`", param.type, default, takes, meaning


def _metric(metric: Metric) -> tuple[str, ...]:
    return (
        f"`{metric.name}`",
        metric.unit,
        DIRECTIONS[metric.direction],
        str(metric.kind),
        "" if metric.clock == "none" else metric.clock,
        "yes" if metric.gate else "no",
        metric.description,
        metric.formula,
    )


def doctor_page() -> str:
    """docs/doctor.md."""
    parts = [DOCTOR_HEAD]
    for severity, title in SEVERITIES.items():
        chosen = [symptom for symptom in SYMPTOMS.values() if symptom.severity == severity]
        rows = [(f"`{one.code}`", one.what, one.why, one.cure) for one in chosen]
        parts += [f"## {title}\n\n", "\n".join(_table(("finding", "what", "why", "cure"), rows)), "\n"]
    return "".join(parts).rstrip("\n") + "\n"


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    here = Path(__file__).parent
    (here / "suites.md").write_text(page(), encoding="utf-8")
    (here / "doctor.md").write_text(doctor_page(), encoding="utf-8")
