"""``python -m groundspeed.service api|control|beat|migrate``: the processes of the service.

This is the only place that reads the environment and wires the parts. Each process imports what it needs.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from groundspeed.service import logformat, process, tracing
from groundspeed.service.errors import GroundspeedError, Invalid
from groundspeed.service.settings import Settings

if TYPE_CHECKING:
    from groundspeed.service.db.engine import Database


GAVE_UP = 75
"""As in ``control.main``, which is imported on use."""


def main(arguments: list[str]) -> int:
    """Run one process; returns its exit status: 2 when it could not start, with the reason on standard error."""
    commands = {"api": run_api, "control": run_control, "beat": run_beat, "migrate": run_migrate}
    try:
        if len(arguments) != 1 or arguments[0] not in commands:
            raise Invalid("Which process?", f"Name one of: {', '.join(commands)}.")
        settings = Settings.load()
        logformat.configure(settings.log_level, settings.log_format)
        tracing.configure(settings.otlp_endpoint, arguments[0])
        try:
            status = commands[arguments[0]](settings)
        finally:
            tracing.stop()
        return status if status != GAVE_UP else _anew()
    except GroundspeedError as error:
        sys.stderr.write(f"groundspeed: {error}\n")
        return 2


def _anew() -> int:
    """Begin again as the same process, whoever supervises it; a signal meanwhile ends it cleanly."""
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda *_: sys.exit(0))
    time.sleep(1.0)
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - our own command line


def run_api(settings: Settings) -> int:
    """Serve pages and API until SIGTERM or SIGINT. Beyond loopback only when there is a token to show."""
    import uvicorn

    from groundspeed.service.api.app import create_app
    from groundspeed.service.control import wiring
    from groundspeed.service.db import migrate

    settings.data_dir.mkdir(parents=True, exist_ok=True)
    parts = wiring.make(settings)
    migrate.require_current(parts.database)
    require_protection(settings, parts.database)
    config = uvicorn.Config(
        create_app(parts),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=5,
        timeout_keep_alive=75,  # longer than the pauses between a worker's signs of life
    )
    process.settle_memory()
    # Uvicorn raises the signal that ended it once more after its clean end: to us that end is a success.
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda *_: None)
    try:
        uvicorn.Server(config).run()
    finally:
        parts.database.close()
    return 0


def require_protection(settings: Settings, database: Database) -> None:
    """Beyond loopback somebody must be able to say who they are, and cookies must not travel in the clear.

    Raises Invalid with what to do about it.
    """
    from groundspeed.service.usecases import tokens

    asks = settings.sign_in or settings.read_access == "open"
    if not settings.loopback and not asks and not tokens.any_in_force(database, datetime.now(UTC)):
        raise Invalid(
            f"The service would listen on {settings.host} with no token to protect it.",
            "Make one first: groundspeed token create NAME --role admin; or set up sign-in (docs/accounts.md); or let "
            "everybody read with GROUNDSPEED_READ_ACCESS=open; or listen on 127.0.0.1.",
        )
    url = urlsplit(settings.base_url)
    if settings.sign_in and url.scheme != "https" and url.hostname not in {"127.0.0.1", "localhost", "::1"}:
        raise Invalid(
            f"People would sign in over {settings.base_url}, where anybody on the way could take their cookies.",
            "Set GROUNDSPEED_PUBLIC_URL to the https address that the service is reached by.",
        )


def run_control(settings: Settings) -> int:
    """Do the background work until SIGTERM or SIGINT."""
    from groundspeed.service.control import main as control

    return control.run_control(settings)


def run_beat(settings: Settings) -> int:
    """Keep time for the control workers."""
    from groundspeed.service.control import main as control

    return control.run_beat(settings)


def run_migrate(settings: Settings) -> int:
    """Bring the database to this release's schema and make the workers' first token known; no-ops the second time."""
    from groundspeed.service.control import wiring
    from groundspeed.service.db import migrate
    from groundspeed.service.usecases import tokens

    settings.data_dir.mkdir(parents=True, exist_ok=True)
    parts = wiring.make(settings)
    try:
        migrate.upgrade(parts.database)
        if settings.bootstrap_worker_token is not None:
            secret = settings.bootstrap_worker_token.get_secret_value()
            tokens.ensure(parts.database, "bootstrap-worker", "worker", secret, datetime.now(UTC))
    finally:
        parts.database.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
