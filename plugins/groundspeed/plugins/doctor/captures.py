"""An inventory of captures: reports of nvidia-smi, kernel logs and error texts of this or another machine."""

from __future__ import annotations

from collections.abc import Mapping

from groundspeed.plugins.doctor import smi
from groundspeed.plugins.doctor.inventory import Inventory


def inventory_of(captures: Mapping[str, str]) -> Inventory:
    """``captures``: text by name. Reports of ``nvidia-smi -q`` give devices; all else is read for known errors."""
    texts: dict[str, str] = {}
    unavailable: dict[str, str] = {}
    driver = cuda = None
    devices = []
    for name, text in captures.items():
        if not smi.looks_like(text):
            texts[name] = text
            continue
        report = smi.parse(text)
        driver, cuda = report.driver or driver, report.cuda or cuda
        devices += report.devices
        if report.attached is not None and report.attached > len(report.devices):
            unavailable[name] = f"ends after {len(report.devices)} of {report.attached} devices: it was cut off"
    return Inventory(devices=tuple(devices), driver=driver, driver_cuda=cuda, texts=texts, unavailable=unavailable)
