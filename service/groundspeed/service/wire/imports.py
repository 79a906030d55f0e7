"""What the service says about results that were posted to it."""

from __future__ import annotations

from groundspeed.service.wire.v1 import Wire


class Left(Wire):
    """What did not become a result: why, how often, and where (the first places)."""

    reason: str
    count: int
    where: tuple[str, ...] = ()


class Imported(Wire):
    """``already``: runs that were there before. ``refused``: whole files, each with its reason and place."""

    results: int
    runs: int
    failures: int
    already: int
    skipped: tuple[Left, ...] = ()
    refused: tuple[str, ...] = ()
