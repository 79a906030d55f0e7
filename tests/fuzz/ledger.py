"""What fuzzing has done so far: one small file a target, so that `make fuzz` goes on where it was stopped.

Seconds count only for the code that they were spent on: when a module that a target reads with changes, it begins anew.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from fuzz import seeds, targets
from groundspeed.service.formats import asv, criterion, csv_table, detect

FOLDER = Path(__file__).resolve().parent.parent.parent / ".bench" / "fuzz"
_FORMATS = Path(detect.__file__).resolve().parent
_IMPORT = re.compile(
    r"^from groundspeed\.service\.formats(?:\.(\w+) import|\simport (?:\(([^)]*)\)|([^\n]+)))", re.MULTILINE
)
_OTHER = {"asv-tree": asv, "criterion-tree": criterion, "csv-mapped": csv_table, "detect": detect}


@dataclass(slots=True)
class Entry:
    """One target's account: seconds of processor time, inputs tried, the slowest of them in seconds, peak MiB."""

    code: str
    seconds: float = 0.0
    inputs: int = 0
    slowest: float = 0.0
    peak_mib: int = 0

    def add(self, seconds: float, inputs: int, slowest: float, peak_mib: int) -> None:
        self.seconds += seconds
        self.inputs += inputs
        self.slowest, self.peak_mib = max(self.slowest, slowest), max(self.peak_mib, peak_mib)


def code_of(name: str) -> str:
    """A digest of every module of the formats that a target's parser stands on, and of what fuzzes it."""
    module = _OTHER.get(name) or sys.modules[detect.BY_NAME[name].parse.__module__]
    waiting, seen = {Path(str(module.__file__)).stem, "records", "source"}, set[str]()
    if module in {asv, detect}:  # the only ones with grids
        waiting.add("prepared")
    while waiting:
        stem = waiting.pop()
        path = _FORMATS / f"{stem}.py"
        if stem in seen or not path.exists():
            continue
        seen.add(stem)
        for one, several, line in _IMPORT.findall(path.read_text()):
            waiting |= set(re.findall(r"\w+", one or several or line))
    whole = hashlib.sha256()
    for stem in sorted(seen):
        whole.update((_FORMATS / f"{stem}.py").read_bytes())
    whole.update(Path(targets.__file__).read_bytes() + seeds.seed(name))
    return whole.hexdigest()[:16]


def read(name: str) -> Entry:
    """What was done for a target with the code as it is."""
    code, path = code_of(name), FOLDER / f"{name}.json"
    try:
        entry = Entry(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return Entry(code)
    return entry if entry.code == code else Entry(code)


def write(name: str, entry: Entry) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    part = FOLDER / f"{name}.part"
    part.write_text(json.dumps(asdict(entry)))
    part.replace(FOLDER / f"{name}.json")


def forget(name: str) -> None:
    (FOLDER / f"{name}.json").unlink(missing_ok=True)
