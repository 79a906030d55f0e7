"""``groundspeed doctor``: checks this machine, or captures of another, and explains what it finds."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groundspeed.cli.context import JsonOption
from groundspeed.cli.output import console, show_json

if TYPE_CHECKING:
    from groundspeed.plugins.doctor.findings import Finding
    from groundspeed.plugins.doctor.inventory import Inventory

MOST_BYTES = 32 << 20


def doctor(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Captures to read in place of this machine: nvidia-smi -q (-x), dmesg, an error; - is stdin."
        ),
    ] = None,
    json: JsonOption = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings too.")] = False,
    torch: Annotated[bool, typer.Option(help="Ask PyTorch for its devices, in a process of its own.")] = True,
) -> None:
    """Check this node (or captures of one) and explain each finding with its cure; exit 1 when it is unfit."""
    from groundspeed.plugins.doctor.checks import examine

    inventory = _captured(files) if files else _this_machine(probe_torch=torch)
    found = examine(inventory)
    if json:
        show_json(_document(inventory, found))
    else:
        _show(inventory, found)
    counts = Counter(finding.severity for finding in found)
    raise SystemExit(1 if counts["error"] or (strict and counts["warning"]) else 0)


def _this_machine(*, probe_torch: bool) -> Inventory:
    from groundspeed.plugins.doctor.gather import gather

    return gather(probe_torch=probe_torch)


def _captured(files: list[Path]) -> Inventory:
    from groundspeed.plugins.doctor.captures import inventory_of

    return inventory_of({str(path): _read(path) for path in files})


def _read(path: Path) -> str:
    """Raises OSError, which the edge puts in words."""
    if str(path) == "-":
        data = sys.stdin.buffer.read(MOST_BYTES)
    else:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES)
    if data[:2] == b"\x1f\x8b":
        import zlib

        data = zlib.decompressobj(31).decompress(data, MOST_BYTES)
    return data.decode("utf-8", "replace")


def _document(inventory: Inventory, found: list[Finding]) -> dict[str, Any]:
    return {
        "version": 1,
        "devices": [{"index": i.index, "model": i.model, "uuid": i.uuid} for i, _ in inventory.devices],
        "driver": inventory.driver,
        "driver_cuda": inventory.driver_cuda,
        "torch": inventory.torch.version if inventory.torch else None,
        "findings": [finding.as_dict() for finding in found],
        "not_available": dict(inventory.unavailable),
    }


def _show(inventory: Inventory, found: list[Finding]) -> None:
    out = console()
    for info, _ in inventory.devices:
        out.print(f"GPU {info.index}: {info.model}", markup=False)
    if inventory.driver:
        out.print(f"driver {inventory.driver}, CUDA {inventory.driver_cuda or 'not known'}", markup=False)
    if inventory.torch and inventory.torch.version:
        out.print(f"torch {inventory.torch.version}", markup=False)
    for code, same in _by_code(found).items():
        symptom = same[0].symptom
        out.print(f"\n{symptom.severity}: {symptom.what} [{code}]", markup=False)
        for finding in same:
            out.print(f"  seen: {finding.where + ': ' if finding.where else ''}{finding.evidence}", markup=False)
        out.print(f"  why:  {symptom.why}", markup=False)
        out.print(f"  cure: {symptom.cure}", markup=False)
    for what, why in inventory.unavailable.items():
        out.print(f"\nnot available: {what}: {why}", markup=False)
    counts = Counter(finding.severity for finding in found)
    parts = ", ".join(
        f"{counts[name]} {name}{'s' if counts[name] != 1 else ''}" for name in ("error", "warning", "note")
    )
    out.print(f"\n{parts}", markup=False)


def _by_code(found: list[Finding]) -> dict[str, list[Finding]]:
    """One cure for all devices that need it."""
    groups: dict[str, list[Finding]] = {}
    for finding in found:
        groups.setdefault(finding.code, []).append(finding)
    return groups
