"""A run's kernel table, from its artefact to a row of the database and back.

The file is written beside a stranger's code: its size, its depth, its numbers and every name in it are checked here,
and what is kept holds no character that a terminal, a page or a database would take for more than text.
"""

from __future__ import annotations

import json
import math
import unicodedata
import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.identities import insert_new
from groundspeed.service.db.tables import KernelTable
from groundspeed.service.domain.kernels.difference import Kernel, Table

KIND = "kernel-table"
VERSION = 1
MOST_BYTES = 4 * 2**20
MOST_ROWS = 20_000
MOST_KERNELS = 200
"""The rest is kept as one sum."""
LONGEST_NAME = 400
LONGEST_STEP_S = 1e6
MOST_LAUNCHES = 1e9
LEAST_STEP_S, LEAST_LAUNCHES = 1e-12, 1e-9
"""Of a step; what is less is none, and no number to divide by."""


class NoTable(ValueError):
    """A file that is no kernel table; its words are shown to people."""


def row(run_id: int, path: Path, now: datetime) -> dict[str, Any]:
    """What a run's file says, or why it says nothing."""
    try:
        kernels = _packed(_read(path))
    except NoTable as error:
        return {"run_id": run_id, "kernels": None, "why": str(error), "created_at": now}
    return {"run_id": run_id, "kernels": kernels, "why": "", "created_at": now}


def keep(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store them; the second file of a run, or the same once more, changes nothing."""
    if rows:
        session.execute(insert_new(session, KernelTable), list(rows))


def load(session: Session, run_ids: Collection[int]) -> tuple[dict[int, Table], list[str]]:
    """Tables by run, and why others could not be read."""
    query = select(col(KernelTable.run_id), col(KernelTable.kernels), col(KernelTable.why))
    rows = session.execute(query.where(col(KernelTable.run_id).in_(run_ids))).tuples().all()
    return {run: _unpacked(kernels) for run, kernels, _ in rows if kernels is not None}, [w for _, _, w in rows if w]


def _read(path: Path) -> Table:
    """Raises :class:`NoTable`, in words, for what is no table of this version."""
    if path.stat().st_size > MOST_BYTES:
        raise NoTable(f"the kernel table is larger than {MOST_BYTES >> 20} MiB")
    try:
        raw = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise NoTable("the kernel table is no JSON") from None
    if not isinstance(raw, dict) or not isinstance(raw.get("kernels"), list):
        raise NoTable("the kernel table has no list of kernels")
    if raw.get("version") != VERSION:
        raise NoTable("the kernel table has another version than 1: the service is older than the worker")
    return _cut(_summed(raw["kernels"]))


def _summed(rows: Sequence[Any]) -> dict[str, Kernel]:
    found: dict[str, Kernel] = {}
    if len(rows) > MOST_ROWS:
        raise NoTable(f"the kernel table has more than {MOST_ROWS} rows")
    for row in rows:
        if not isinstance(row, dict):
            raise NoTable("a row of the kernel table is no object")
        name = clean(row.get("name"))
        one = found.get(name, Kernel(0.0, 0.0))
        launches = _number(row.get("count_per_step"), MOST_LAUNCHES)
        time_s = _number(row.get("time_per_step_s"), LONGEST_STEP_S)
        if launches >= LEAST_LAUNCHES and time_s >= LEAST_STEP_S:
            found[name] = Kernel(one.launches + launches, one.time_s + time_s)
    return found


def _number(value: Any, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise NoTable("the kernel table has a number that cannot be")
    return float(value)


def clean(name: Any) -> str:
    """One line of a name without control, format or unassigned characters."""
    if not isinstance(name, str):
        raise NoTable("a kernel's name in the kernel table is no text")
    head = name[: 4 * LONGEST_NAME]
    kept = "".join(" " if c in "\r\n\t" else c for c in head if c in "\r\n\t" or unicodedata.category(c)[0] != "C")
    return " ".join(kept.split())[:LONGEST_NAME]


def _cut(kernels: Mapping[str, Kernel]) -> Table:
    largest = sorted(kernels.items(), key=lambda pair: -pair[1].time_s)
    rest = math.fsum(one.time_s for _, one in largest[MOST_KERNELS:])
    return Table(dict(largest[:MOST_KERNELS]), rest)


def _packed(table: Table) -> bytes:
    rows = [[name, one.launches, one.time_s] for name, one in table.kernels.items()]
    return zlib.compress(json.dumps({"rows": rows, "rest_s": table.rest_s}, separators=(",", ":")).encode())


def _unpacked(data: bytes) -> Table:
    raw = json.loads(zlib.decompress(data))
    return Table({name: Kernel(launches, time_s) for name, launches, time_s in raw["rows"]}, float(raw["rest_s"]))
