"""``groundspeed token list`` and ``rotate``."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from groundspeed.cli import context
from groundspeed.cli.output import console, show_json, table


def rotate(
    name: Annotated[str, typer.Argument(help="Name of the token.")],
    overlap_hours: Annotated[
        float, typer.Option(min=0, max=24 * 90, help="How long the old one goes on working.")
    ] = 24.0,
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """Make a new secret with the reach of the old one, which ends after an overlap; shown once.

    A worker with GROUNDSPEED_WORKER_TOKEN_FILE takes the new one from the file without a restart.
    """
    from groundspeed.service.usecases import tokens

    with context.database(context.settings_for(data)) as db:
        secret = tokens.rotate(db, name, timedelta(hours=overlap_hours), datetime.now(UTC))
    if json:
        show_json({"name": name, "token": secret})
    else:
        sys.stdout.write(secret + "\n")


def listed(data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """Every token with its role, reach and end; never its secret."""
    from groundspeed.service.usecases import tokens

    now = datetime.now(UTC)
    with context.database(context.settings_for(data)) as db, db.read() as session:
        found = [
            {
                "id": token.id,
                "name": token.name,
                "role": token.role,
                "scopes": list(token.scopes),
                "created_at": token.created_at,
                "expires_at": token.expires_at,
                "state": tokens.state_of(token, now),
            }
            for token in tokens.listed(session)
        ]
    if json:
        show_json(found)
        return
    rows = [
        (
            str(one["name"]),
            str(one["role"]),
            ", ".join(one["scopes"]),  # type: ignore[arg-type]
            str(one["state"]),
            f"{one['expires_at']:%Y-%m-%d %H:%M} UTC" if one["expires_at"] else "",
        )
        for one in found
    ]
    console().print(table(("token", "role", "reach", "state", "ends"), rows))
