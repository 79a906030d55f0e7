"""What a process of the service works with: settings, database, mirrors; made once at its start."""

from __future__ import annotations

from dataclasses import dataclass

from groundspeed.service.db.engine import Database
from groundspeed.service.repo import Mirrors
from groundspeed.service.settings import Settings
from groundspeed.service.usecases.leases import Policy


@dataclass(frozen=True, slots=True)
class Parts:
    settings: Settings
    database: Database
    mirrors: Mirrors
    policy: Policy


def make(settings: Settings) -> Parts:
    """Wire the parts for these settings; the caller closes ``database``."""
    policy = Policy(settings.lease_s, settings.heartbeat_s, settings.retry_delay_s)
    return Parts(settings, Database(settings.database), mirrors(settings), policy)


def mirrors(settings: Settings) -> Mirrors:
    """The service's copies of repositories, shared by its processes."""
    credentials = {name: secret.get_secret_value() for name, secret in settings.credentials.items()}
    return Mirrors(settings.data_dir.absolute() / "mirrors", credentials, settings.git_timeout_s)
