"""Two environments of one machine, measured in turns by the product's suites: fresh processes, one device.

Needs torch and the standard library, not the service nor its packages. OUT receives two files: environments.json, the
machine and its facets in both environments as a worker reads them; samples.jsonl, one report a process.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.gpu import plans
from tests.bench.gpu.children import ROOT, Lanes, environment

SUITES = {
    "gemm-tf32": ("gemm", {"precision": "tf32"}),
    "gemm-bf16": ("gemm", {"precision": "bf16"}),
    "memory": ("memory-bandwidth", {"operation": "copy"}),
}
LIMITS = {"warmup_max_s": 0.6, "min_time_s": 0.25, "max_time_s": 0.4, "max_samples": 60}
STACK = ("torch", "numpy", "torchvision", "torchaudio", "pytorch-triton", "triton")
SIDES = ("before", "after")


def facets():
    """Every facet of this machine, as a worker reads them at its start."""
    from groundspeed.plugins import device
    from groundspeed.workers import loaded, stack, system

    with tempfile.TemporaryDirectory(prefix="gs-stack-") as cache:
        found = stack.discover(None, STACK, Path(cache))
        return system.merge(
            system.stack_facets(found, "default"),
            loaded.facets(found),
            device.environment_facets(),
            system.basic_facets(),
            system.facets(),
        )


def machine():
    """Hardware and devices with the fields of a registration."""
    from groundspeed.plugins import device
    from groundspeed.workers import system

    devices = [dataclasses.asdict(one) for one in device.devices()]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "hardware": {
            "gpu_model": devices[0]["model"] if devices else "", "gpu_count": len(devices),
            "cpu_model": system.cpu_model(), "cpu_count": len(os.sched_getaffinity(0)),
            "memory_bytes": round(memory / 2**30) * 2**30,
        },
        "devices": devices,
    }  # fmt: skip


def read_in(variables):
    """What ``read`` says in a process of its own that has these variables."""
    with tempfile.TemporaryDirectory(prefix="gs-read-") as folder:
        out = Path(folder) / "facets.json"
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.gpu.environments", "read", str(out)], cwd=ROOT,
            env=environment(**variables) | {"PYTHONPATH": search_path()}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"the facets could not be read:\n{done.stderr[-2000:]}")
        return json.loads(out.read_text())


def search_path():
    return os.pathsep.join(str(ROOT / part) for part in ("plugins", "workers", "service", ".", "tests"))


def compare(out, variable, seconds, most, *, small=False):
    """Rounds of every suite on both sides, the order turned in every other one, until the time or ``most`` is used up.

    Processes import while another measures; they take the device one after the other.
    """
    name, sign, value = variable.partition("=")
    if not (name and sign):
        raise SystemExit(f"--variable {variable}: give NAME=VALUE")
    if name in os.environ:
        raise SystemExit(f"{name} is set already: unset it, so that there is a before and an after")
    until = time.monotonic() + seconds
    out.mkdir(parents=True, exist_ok=True)
    sides = {"before": {}, "after": {name: value}}
    known = {side: read_in(variables) for side, variables in sides.items()}
    about = {"variable": variable, **machine(), **known}
    (out / "environments.json").write_text(json.dumps(about, indent=1) + "\n")
    begun = rounds_in(out / "samples.jsonl")
    jobs = [
        of_side(one, number, sides[one["side"]], small=small)
        for number in range(begun, begun + most)
        for one in round_of(number)
    ]
    Sides(out / "samples.jsonl", [""] if small else ["0"]).run({"" if small else "0": jobs}, until - time.monotonic())
    sys.stdout.write(f"{sum(1 for _ in (out / 'samples.jsonl').open())} processes, {out}\n")


def rounds_in(path):
    """How many rounds an earlier run has begun: what is measured now is added to them."""
    lines = path.read_text().splitlines() if path.exists() else []
    return max((json.loads(line)["round"] + 1 for line in lines), default=0)


def round_of(number):
    """One process of each suite and side; the sides of a suite stand beside each other."""
    order = SIDES if number % 2 == 0 else SIDES[::-1]
    return [{"suite": suite, "side": side} for suite in SUITES for side in order]


def of_side(about, number, variables, *, small):
    """A lane's job: one suite under the variables of one side."""
    plugin, params = SUITES[about["suite"]]
    one = plans.job(f"{about['suite']}|{about['side']}|{number}", plugin, None, params, LIMITS)
    more = {"env": variables, "timeout_s": 90.0}
    return {**(plans.shrunk(one) if small else one), **more, **({"devices": ()} if small else {})}


class Sides(Lanes):
    """Keeps with each report its suite, side and round, and the state of every sample."""

    def keep(self, report):
        suite, side, number = report["tag"].split("|")
        whole = [[] if set(metric["states"]) <= {"valid"} else metric["states"] for metric in report["metrics"]]
        super().keep({**report, "suite": suite, "side": side, "round": int(number), "sample_states": whole})
