"""``nvidia-smi -q`` in XML (``-x``) or text, of any driver: devices and their states, for reports of other machines.

Tags and sections differ by driver; fields that are missing, "N/A" or a message are not available. A report that ends in
the middle gives the devices that it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree as ET

from groundspeed.plugins.device.base import DeviceInfo, Process, State

_NUMBER = re.compile(r"^-?\d+(?:\.\d+)?")
_TEXT_LINE = re.compile(r"^(?P<indent> *)(?P<key>[^:]+?)\s*(?::\s?(?P<value>.*))?$")
_GPU_LINE = re.compile(r"^GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:")
_UNSAFE = re.compile(r"<!ENTITY", re.IGNORECASE)
MOST_BYTES = 8 << 20


class Unreadable(ValueError):
    """No report of nvidia-smi; says what is wrong with it."""


@dataclass(slots=True)
class Report:
    """``attached``: how many devices the report says there are; more than it holds: it was cut off."""

    driver: str | None = None
    cuda: str | None = None
    attached: int | None = None
    devices: list[tuple[DeviceInfo, State]] = field(default_factory=list)


def looks_like(text: str) -> bool:
    return "<nvidia_smi_log" in text[:4000] or "NVSMI LOG" in text[:4000]


def parse(text: str) -> Report:
    """Raises Unreadable for what is no report of nvidia-smi -q."""
    text = text[:MOST_BYTES]
    if "<nvidia_smi_log" in text[:4000]:
        return _from_xml(text)
    if "NVSMI LOG" in text[:4000]:
        return _from_text(text)
    raise Unreadable("the text is no output of `nvidia-smi -q` or `nvidia-smi -q -x`")


# --- XML --------------------------------------------------------------------------------------------------------------


def _from_xml(text: str) -> Report:
    """Read piece by piece, so that what stands before a cut is used."""
    if _UNSAFE.search(text):
        raise Unreadable("the report declares XML entities, which nvidia-smi never does")
    reader: Any = ET.XMLPullParser(["end"])
    report = Report()
    try:
        reader.feed(text)
        reader.close()
    except ET.ParseError:
        pass  # cut off: the events before it are there
    for element in _elements(reader):
        if element.tag == "driver_version":
            report.driver = (element.text or "").strip() or None
        elif element.tag == "cuda_version":
            report.cuda = (element.text or "").strip() or None
        elif element.tag == "attached_gpus":
            report.attached = _whole(element.text)
        elif element.tag == "gpu":
            report.devices.append(_device(len(report.devices), _flat_xml(element), list(_xml_processes(element))))
    return report


def _elements(reader: Any) -> Iterator[ET.Element]:
    for _, element in reader.read_events():
        yield element


def _flat_xml(element: ET.Element, prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for child in element:
        path = f"{prefix}{child.tag}".lower()
        if len(child):
            found |= _flat_xml(child, f"{path}/")
        elif child.text and path not in found:
            found[path] = child.text.strip()
    return found


def _xml_processes(gpu: ET.Element) -> Iterator[Process]:
    for one in gpu.iterfind("processes/process_info"):
        pid = _whole(one.findtext("pid"))
        if pid is not None and (one.findtext("type") or "C").strip() != "G":
            yield Process(pid, _mib(one.findtext("used_memory")))


# --- text -------------------------------------------------------------------------------------------------------------


def _from_text(text: str) -> Report:
    report = Report()
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if _GPU_LINE.match(line):
            blocks.append([])
        elif blocks:
            blocks[-1].append(line)
        elif match := _TEXT_LINE.match(line):
            key, value = match["key"].strip().lower(), (match["value"] or "").strip()
            if key == "driver version":
                report.driver = value
            elif key == "cuda version":
                report.cuda = value
            elif key == "attached gpus":
                report.attached = _whole(value)
    for lines in blocks:
        fields, processes = _flat_text(lines)
        report.devices.append(_device(len(report.devices), fields, processes))
    return report


def _flat_text(lines: list[str]) -> tuple[dict[str, str], list[Process]]:
    """Keys as in the XML: sections and names in lower case with underscores."""
    found: dict[str, str] = {}
    sections: list[tuple[int, str]] = []
    pids: list[tuple[int, str]] = []
    for line in lines:
        match = _TEXT_LINE.match(line)
        if not match or not match["key"].strip():
            continue
        indent, key = len(match["indent"]), match["key"].strip().lower().replace(" ", "_")
        while sections and sections[-1][0] >= indent:
            sections.pop()
        if match["value"] is None:
            sections.append((indent, key))
            continue
        value = match["value"].strip()
        if key == "process_id" and (pid := _whole(value)) is not None:
            pids.append((pid, "C"))
        elif key == "type" and pids:
            pids[-1] = (pids[-1][0], value)
        found.setdefault("/".join([*(name for _, name in sections), key]), value)
    return found, [Process(pid) for pid, kind in pids if kind != "G"]


# --- both -------------------------------------------------------------------------------------------------------------


def _device(index: int, fields: Mapping[str, str], processes: list[Process]) -> tuple[DeviceInfo, State]:
    def first(*paths: str) -> str | None:
        return next((fields[path] for path in paths if path in fields), None)

    info = DeviceInfo(
        index=index,
        uuid=first("uuid", "gpu_uuid") or f"unknown-{index}",
        model=first("product_name") or "unknown NVIDIA device",
        memory_bytes=_mib(first("fb_memory_usage/total")) or 0,
        facts={"sm_mhz_max": _float(first("max_clocks/sm_clock", "max_clocks/sm"))},
    )
    power = ("gpu_power_readings/", "power_readings/")
    limits = [p + name for p in power for name in ("current_power_limit", "enforced_power_limit", "power_limit")]
    failed = first("remapped_rows/remapped_row_failure", "remapped_rows/remapping_failure_occurred")
    application = _float(first("applications_clocks/graphics_clock", "applications_clocks/graphics"))
    default = _float(first("default_applications_clocks/graphics_clock", "default_applications_clocks/graphics"))
    setting = first(
        "clocks_event_reasons/clocks_event_reason_applications_clocks_setting",
        "clocks_throttle_reasons/clocks_throttle_reason_applications_clocks_setting",
        "clocks_event_reasons/applications_clocks_setting",
        "clocks_throttle_reasons/applications_clocks_setting",
    )
    locked = None if setting is None else setting == "Active" or (application is not None and application != default)
    state = State(
        processes=tuple(processes),
        memory_used_bytes=_mib(first("fb_memory_usage/used")),
        memory_reserved_bytes=_mib(first("fb_memory_usage/reserved")) or 0,
        ecc_uncorrected=_ecc(fields, ("uncorrectable", "double_bit/total")),
        ecc_corrected=_ecc(fields, ("_correctable", "single_bit/total")),
        remapped_rows_pending=_yes(first("remapped_rows/remapped_row_pending", "remapped_rows/pending")),
        remapped_rows_failed=_yes(failed),
        persistence=_enabled(first("persistence_mode")),
        temperature_c=_float(first("temperature/gpu_temp", "temperature/gpu_current_temp")),
        power_limit_w=_float(first(*limits)),
        power_default_w=_float(first(*(p + "default_power_limit" for p in power))),
        mig=_enabled(first("mig_mode/current_mig", "mig_mode/current")),
        clocks_locked=locked,
    )  # fmt: skip
    return info, state


def _ecc(fields: Mapping[str, str], words: tuple[str, str]) -> int | None:
    """Sum of the volatile counters of one kind; None when none is given."""
    found = [
        value
        for path, text in fields.items()
        if path.startswith("ecc_errors/volatile/") and _is_kind(path, words) and (value := _whole(text)) is not None
    ]
    return sum(found) if found else None


def _is_kind(path: str, words: tuple[str, str]) -> bool:
    return words[0] in path.rpartition("/")[2] or path.endswith(words[1])


def _float(text: str | None) -> float | None:
    match = _NUMBER.match((text or "").strip())
    return float(match[0]) if match else None


def _whole(text: str | None) -> int | None:
    value = _float(text)
    return None if value is None else int(value)


def _mib(text: str | None) -> int | None:
    value = _float(text)
    return None if value is None else int(value * (1 << 20))


def _yes(text: str | None) -> bool | None:
    return {"Yes": True, "No": False}.get(text or "")


def _enabled(text: str | None) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get(text or "")
