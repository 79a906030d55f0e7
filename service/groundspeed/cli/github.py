"""``groundspeed github``: make the App, link repositories, and say what is missing between GitHub and the service."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groundspeed.cli import context
from groundspeed.cli.output import console, report_done, show_json

if TYPE_CHECKING:
    from groundspeed.service.forge.github import GitHubForge
    from groundspeed.service.forge.manifest import NewApp
    from groundspeed.service.settings import Settings

app = typer.Typer(no_args_is_help=True, help="GitHub: the App, the repositories, and whether all is well.")


@app.command()
def setup(
    public_url: Annotated[str, typer.Option(help="Address at which GitHub reaches the service, https://….")] = "",
    organization: Annotated[str, typer.Option(help="Organization that the App is to belong to.")] = "",
    name: Annotated[str, typer.Option(help="Name of the App; GitHub wants it to be unique.")] = "",
    port: Annotated[int, typer.Option(help="Local port for the way back from GitHub; 0 takes a free one.")] = 0,
    data: context.DataOption = None,
) -> None:
    """Walk through making the GitHub App: open the page that is printed, confirm at GitHub, and the rest is done."""
    from groundspeed.cli.github_setup import make
    from groundspeed.service.errors import Invalid

    settings = context.settings_for(data)
    public = (public_url or settings.public_url).rstrip("/")
    if not public.startswith(("https://", "http://")):
        raise Invalid(
            "GitHub needs an address at which it reaches this service.",
            "Give --public-url https://… (or set GROUNDSPEED_PUBLIC_URL).",
        )
    context.make_folder(settings.data_dir)
    out = console()
    title = name or f"Groundspeed {secrets.token_hex(3)}"
    new = make(settings.github_api_url, public, organization, title, port, lambda url: out.print(f"Open {url}"))
    key = _keep(settings.data_dir / "github-app.pem", new.pem)
    secret = _keep(settings.data_dir / "github-webhook-secret", new.webhook_secret)
    _next_steps(new, public, key, secret)


def _keep(path: Path, text: str) -> Path:
    """Write a secret for the owner's eyes alone."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return path


def _next_steps(new: NewApp, public: str, key: Path, secret: Path) -> None:
    out = console()
    out.print(f"The App {new.name} is made. Its key and secret are in {key.parent}, for you alone. Now:")
    out.print("1. Give the service these settings, and start it again:")
    out.print(f"     GROUNDSPEED_PUBLIC_URL={public}")
    out.print(f"     GROUNDSPEED_GITHUB_APP_ID={new.id}")
    out.print(f"     GROUNDSPEED_GITHUB_PRIVATE_KEY_FILE={key}")
    out.print(f"     GROUNDSPEED_GITHUB_WEBHOOK_SECRET_FILE={secret}")
    out.print(f"2. Install the App on your repositories: {new.url}/installations/new")
    out.print("3. See whether all is well: groundspeed github check")


@app.command()
def link(
    project: Annotated[str, typer.Argument(help="Name of the project.")],
    repository: Annotated[str, typer.Argument(help="owner/name on GitHub.")],
    data: context.DataOption = None,
    json: context.JsonOption = False,
) -> None:
    """Link a project to its repository on GitHub; one that was added by its GitHub address links itself."""
    from groundspeed.service.domain.pulls.forge import ForgeRefused, ForgeUnavailable
    from groundspeed.service.errors import Invalid, Unavailable
    from groundspeed.service.usecases.pulls import places

    settings = context.settings_for(data)
    forge = _forge(settings)
    try:
        found = forge.repository(repository)
    except ForgeRefused as error:
        raise Invalid(
            f"{repository} cannot be read: {error.reason}.", "Is it spelled as on GitHub, and the App installed on it?"
        ) from None
    except ForgeUnavailable as error:
        raise Unavailable(f"{error.reason}.", "Try again in a moment.") from None
    with context.database(settings) as db:
        places.link(db, project, found, datetime.now(UTC), "local")
    said = f"{project} is linked to {found.full_name}: its pull requests are answered."
    report_done(said, json, project=project, repository=found.full_name)


@app.command()
def check(data: context.DataOption = None, json: context.JsonOption = False) -> None:
    """Say what is missing: credentials, permissions, events, the webhook's address and secret. Status 1 if any."""
    from groundspeed.cli.github_check import examine
    from groundspeed.service.usecases.pulls.standing import standing

    settings = context.settings_for(data)
    with context.database(settings) as db:
        known = standing(db)
    found = examine(settings, known)
    if json:
        show_json({"findings": found, "standing": known})
    else:
        out = console()
        for finding in found:
            out.print(f"{'ok     ' if finding.ok else 'MISSING'}  {finding.words}")
        counts = ", ".join(f"{n} {state}" for state, n in sorted(known.deliveries.items())) or "none yet"
        out.print(f"Deliveries: {counts}.")
        for said in (*known.unread, *(f"GitHub refused: {why}" for why in known.refused)):
            out.print(said, markup=False)
    if not all(finding.ok for finding in found):
        raise typer.Exit(1)


def _forge(settings: Settings) -> GitHubForge:
    """Raises Invalid when there is nothing to authenticate with."""
    from groundspeed.service.control.wiring import forge
    from groundspeed.service.errors import Invalid

    found = forge(settings)
    if found is None:
        raise Invalid(
            "There is nothing to authenticate to GitHub with.",
            "Make an App with `groundspeed github setup`, or set GROUNDSPEED_GITHUB_TOKEN.",
        )
    return found  # type: ignore[return-value]
