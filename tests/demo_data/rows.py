"""Rows of the demonstration: how they are put in, and what a worker reports with each."""

from __future__ import annotations

import hashlib
import json
import zlib
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import insert
from sqlmodel import Session

from demo_data.shape import Metric, Shape, Step, Suite


def hash_of(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def pack(values: np.ndarray, states: bytes | None = None) -> bytes:
    """Samples as the Result table keeps them."""
    return zlib.compress(values.astype("<f8").tobytes() + (states or bytes(len(values))), 1)


def _with_defaults(table: Any, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``rows`` with what the model would fill in: a bulk insert does not ask it."""
    fields = table.model_fields
    filled = {
        name: f.get_default(call_default_factory=True)
        for name, f in fields.items()
        if not f.is_required() and name != "id"
    }
    return [{**filled, **row} for row in rows]


def conditions(c: int) -> dict[str, Any]:
    """As a worker on a GPU reports them."""
    return {
        "host": {
            "before": {"load_1m": 0.4, "cpu_mhz": {"unavailable": "cpufreq cannot be read"}, "steal_s": 0.0},
            "after": {"load_1m": 0.9, "cpu_mhz": {"unavailable": "cpufreq cannot be read"}, "steal_s": 0.0},
        },
        "device": {
            "sm_mhz": {"median": 1755, "min": 1620, "max": 1980},
            "memory_mhz": {"median": 3201, "min": 3201, "max": 3201},
            "power_w": {"median": 512 + c % 7, "min": 310, "max": 698},
            "temperature_c": {"median": 54, "min": 41, "max": 61},
            "clock_events": {"software power cap": 0.04} if c % 4 == 0 else {},
        },
        "hygiene": {
            "before": ["process 4711 holds 310 MiB of the device"] if c % 31 == 17 else [],
            "during": [],
            "not_available": {},
        },
    }


def trace(c: int) -> bytes:
    """Readings ten times a second over set-up, warm-up and measurement."""
    t_s = np.arange(0, 4.3, 0.1)
    rng = np.random.default_rng(c)
    busy = np.clip((t_s - 0.8) / 0.6, 0, 1)
    columns = {
        "t_s": t_s.round(3).tolist(),
        "sm_mhz": (1980 - 225 * busy + rng.integers(-15, 15, len(t_s))).round().tolist(),
        "memory_mhz": [3201.0] * len(t_s),
        "power_w": (120 + 400 * busy + rng.normal(0, 9, len(t_s))).round(1).tolist(),
        "temperature_c": (41 + 13 * np.clip((t_s - 0.8) / 3.0, 0, 1)).round().tolist(),
        "foreign": [0] * len(t_s),
    }
    return zlib.compress(json.dumps(columns).encode(), 1)


class Rows:
    """Puts rows in; what the parts of a demonstration share."""

    project: int
    shas: list[str]
    times: list[datetime]
    rev_ids: list[int]
    node_ids: list[int]
    node_names: list[str]
    hardware: list[int]
    envs: list[list[int]]
    bench_ids: dict[str, int]
    levels: dict[int, np.ndarray]
    steps: dict[int, list[tuple[int, Step]]]

    def __init__(self, session: Session, shape: Shape, now: datetime) -> None:
        self.s, self.shape, self.now = session, shape, now
        self.rng = np.random.default_rng(shape.seed)
        self.series: dict[str, int] = {}
        self.meta: dict[int, tuple[Suite, Metric, dict[str, Any], int]] = {}
        self.jobs: list[int] = []
        self.requests: list[int] = []
        self.running_attempt: str | None = None

    def _add(self, row: Any) -> Any:
        self.s.add(row)
        self.s.flush()
        return row.id

    def _insert(self, table: Any, rows: list[dict[str, Any]]) -> list[int]:
        """Ids of ``rows`` in their order."""
        out: list[int] = []
        rows = _with_defaults(table, rows)
        for at in range(0, len(rows), 5000):
            part = rows[at : at + 5000]
            statement = insert(table).returning(table.id, sort_by_parameter_order=True)
            out += list(self.s.execute(statement, part).scalars())
        return out

    def _bulk(self, table: Any, rows: list[dict[str, Any]]) -> None:
        for at in range(0, len(rows), 10_000):
            self.s.execute(insert(table), _with_defaults(table, rows[at : at + 10_000]))
