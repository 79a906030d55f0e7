"""The tables, one class an entity, by subject in the four modules below. Keys and their reasons: docs/architecture.md.

Conventions: times are timezone-aware UTC, in and out; JSON columns hold plain dictionaries and lists; enumerations are
text with the values named in a comment (so that SQLite and PostgreSQL hold the same); large blobs are zlib-compressed.
A change here needs a migration in ``migrations/versions``; a test compares the two on both engines.
"""

from __future__ import annotations

from groundspeed.service.db.finding_tables import ChangePoint, Event, Regression, Verdict
from groundspeed.service.db.measured_tables import (
    FAILED,
    Artefact,
    Benchmark,
    KernelTable,
    LogEntry,
    Result,
    Run,
    Series,
    SeriesMark,
)
from groundspeed.service.db.place_tables import (
    BuildSnapshot,
    CatalogueEntry,
    Device,
    Environment,
    Hardware,
    Node,
    Project,
    Revision,
)
from groundspeed.service.db.work_tables import (
    RUNS,
    Attempt,
    AuditEntry,
    Bookmark,
    Job,
    JobSide,
    Outbox,
    Request,
    ScheduleFire,
    needs_of,
)

__all__ = [
    "FAILED",
    "RUNS",
    "Artefact",
    "Attempt",
    "AuditEntry",
    "Benchmark",
    "Bookmark",
    "BuildSnapshot",
    "CatalogueEntry",
    "ChangePoint",
    "Device",
    "Environment",
    "Event",
    "Hardware",
    "Job",
    "JobSide",
    "KernelTable",
    "LogEntry",
    "Node",
    "Outbox",
    "Project",
    "Regression",
    "Request",
    "Result",
    "Revision",
    "Run",
    "ScheduleFire",
    "Series",
    "SeriesMark",
    "Verdict",
    "needs_of",
]
