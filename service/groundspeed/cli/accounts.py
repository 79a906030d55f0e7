"""``groundspeed account``: people who sign in, from the machine that the service runs on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from groundspeed.cli import context
from groundspeed.cli.output import console, report_done, show_json, table

app = typer.Typer(no_args_is_help=True, help="People who sign in.")


@app.command("list")
def account_list(data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """Everybody who has signed in, with their role."""
    from groundspeed.service.usecases.views import people

    with context.database(context.settings_for(data)) as db:
        rows = people.account_list(db, datetime.now(UTC)).rows
    if json:
        show_json(rows)
        return
    lines = [
        (one.handle, one.role, one.role_from, "closed" if one.disabled else "", one.provider, one.email, one.name)
        for one in rows
    ]
    console().print(table(("account", "role", "by", "state", "with", "e-mail", "name"), lines))


@app.command("role")
def account_role(
    account: Annotated[str, typer.Argument(help="What history calls them.")],
    role: Annotated[str, typer.Argument(help="none, viewer, triager, operator, admin, or rules: by the settings.")],
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """Give an account a role by hand."""
    _change(account, data, json, role=role)


@app.command("close")
def account_close(account: str, data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """Let an account in no more; its sign-ins and tokens end at once."""
    _change(account, data, json, disabled=True)


@app.command("open")
def account_open(account: str, data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """Let a closed account in again."""
    _change(account, data, json, disabled=False)


def _change(
    account: str, data: context.DataOption, json: bool, *, role: str | None = None, disabled: bool | None = None
) -> None:
    from groundspeed.service.usecases import accounts

    with context.database(context.settings_for(data)) as db:
        found = accounts.by_handle(db, account)
        accounts.change(db, found, datetime.now(UTC), "local", role=role, disabled=disabled)
    facts = {"role": role} if disabled is None else {"closed": disabled}
    report_done(f"{account} was changed.", json, account=account, **facts)
