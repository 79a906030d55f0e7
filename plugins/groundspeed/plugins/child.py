"""``python -m groundspeed.plugins.child``: one fresh process of one benchmark; see protocol.py.

The edge: reads the ChildSpec from standard input, restricts the devices before anything heavy is imported, and writes
the report whole or not at all.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from groundspeed.plugins.protocol import ChildReport, ChildSpec


def main() -> int:
    try:
        spec = ChildSpec.from_json(sys.stdin.read())
    except (ValueError, TypeError, KeyError) as error:
        sys.stderr.write(f"groundspeed.plugins.child: standard input is not a ChildSpec: {error}\n")
        return 2
    # A worker that ends a hung process first asks for the Python stacks of all threads: they go to standard error.
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    prepare_environment(spec)
    from groundspeed.plugins.device import libraries
    from groundspeed.plugins.execution import execute

    report = execute(spec)
    if used := libraries.as_conditions(libraries.loaded()):
        report = dataclasses.replace(report, conditions={**report.conditions, "libraries": used})
    write_report(report, spec.report_path)
    return 0


def prepare_environment(spec: ChildSpec) -> None:
    """Devices, import path and working folder; before torch is imported, which reads the first of them once."""
    if spec.devices:
        listed = ",".join(spec.devices)
        os.environ["CUDA_VISIBLE_DEVICES"] = listed
        if not any(device.startswith("GPU-") for device in spec.devices):
            os.environ["HIP_VISIBLE_DEVICES"] = listed
    sys.path[:0] = [path for path in spec.paths if path not in sys.path]
    workdir = Path(spec.workdir)
    workdir.mkdir(parents=True, exist_ok=True)


def write_report(report: ChildReport, path: str) -> None:
    """Written beside and renamed, so that a reader finds it whole or not at all."""
    final = Path(path)
    temporary = final.with_name(f"{final.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(as_text(report))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(final)


def as_text(report: ChildReport) -> str:
    """The report as JSON; what a plugin noted and JSON cannot say makes it a failure in words."""
    try:
        return report.to_json()
    except (TypeError, ValueError, RecursionError) as error:
        why = f"what the plugin noted cannot be kept: {error}. Facts and labels are numbers, strings, true or false"
        return dataclasses.replace(
            report, outcome="failed", metrics=(), evidence={"message": why}, conditions={}, facts={}, artefacts=()
        ).to_json()


def end(status: int) -> NoReturn:
    """Ends at once: taking interpreter and libraries apart would cost a second in which nothing is measured.

    The report is on the disk by now, and whoever started this process ends what is left of its group.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    end(main())
