"""``groundspeed bisect SERIES``: measure between two commits until the one that made the difference is left."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from groundspeed.cli.context import DataOption, JsonOption, database, settings_for
from groundspeed.cli.output import harmless, show_json

if TYPE_CHECKING:
    from groundspeed.service.usecases.bisect import State

_EVERY_S = 2.0


def bisect(
    series: Annotated[
        str, typer.Argument(metavar="SERIES", help="Number of a series, or suite/metric; SERIES@COMMIT: COMMIT is bad.")
    ],
    good: Annotated[str, typer.Option(help="A commit before the change.")] = "",
    bad: Annotated[str, typer.Option(help="A commit after it. Neither: around the newest change point.")] = "",
    processes: Annotated[int, typer.Option(min=1, max=50, help="Fresh processes on either end.")] = 3,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the answer.")] = False,
    project: Annotated[str | None, typer.Option("--project", "-p", help="Only series of this project.")] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Find the commit that changed a series; a running Groundspeed measures. Asking again says where it stands."""
    from datetime import UTC, datetime

    from groundspeed.service.errors import Invalid
    from groundspeed.service.usecases import bisect as usecase
    from groundspeed.service.usecases import naming

    if "@" in series:
        if bad:
            raise Invalid("The bad commit is given twice.", "Give SERIES@COMMIT or --bad COMMIT.")
        series, bad = naming.split(series)
    with database(settings_for(data)) as db:
        asked = usecase.Asked(series, good, bad, processes)
        state = usecase.start(db, asked, datetime.now(UTC), project=project)
        while wait and state.outcome == "open":
            time.sleep(_EVERY_S)
            state = usecase.look(db, state.request_id)
    if json:
        show_json(state)
    else:
        sys.stdout.write(harmless(_text(state)))


def _text(state: State) -> str:
    head = f"Bisection {state.request_id} of {state.series} ({state.project}): "
    if state.outcome == "found":
        return f"{head}{state.bad[:12]} {state.bad_title}. {state.words}\n"
    if state.outcome == "open":
        where = f"between {state.good[:12]} and {state.bad[:12]}, {state.left} commits left. "
        return f"{head}{where}{state.words} Ask again to see where it stands.\n"
    return f"{head}{state.outcome}, between {state.good[:12]} and {state.bad[:12]}. {state.words}\n"
