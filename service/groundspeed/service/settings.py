"""Every setting of the service, with its default and what it does: one frozen object, read once at the entry point.

Each is given by the environment variable ``GROUNDSPEED_`` + its name in capitals. Values that are secrets may be files
instead: ``GROUNDSPEED_DATABASE_URL_FILE=/run/secrets/db`` holds what ``GROUNDSPEED_DATABASE_URL`` would.
docs/configuration.md lists them and is tested against this class.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import NoDecode, SettingsConfigDict, SettingsError

from groundspeed.service.errors import ConfigError
from groundspeed.service.settings_accounts import AccountSettings
from groundspeed.service.settings_github import GitHubSettings
from groundspeed.service.settings_notifications import NotificationSettings
from groundspeed.service.tls import with_tls

PREFIX = "GROUNDSPEED_"
Seconds = Annotated[float, Field(gt=0)]
Bytes = Annotated[int, Field(gt=0)]


_DATABASES = {
    "postgres": "postgresql+psycopg", "postgresql": "postgresql+psycopg", "postgresql+psycopg": "postgresql+psycopg",
    "sqlite": "sqlite", "sqlite+pysqlite": "sqlite",
}  # fmt: skip
"""Databases by the beginning of their URL, with the driver that is used."""


class Settings(NotificationSettings, AccountSettings, GitHubSettings):
    """The service's settings. ``Settings.load()`` reads the environment and says in words what is wrong."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    data_dir: Path = Field(
        Path(".groundspeed"),
        description="Folder for everything the service writes: database, broker, mirrors, artefacts.",
    )
    database_url: str = Field(
        "", description="Database, for example postgresql+psycopg://user@host/name. Empty: SQLite in data_dir."
    )
    broker_url: str = Field(
        "",
        description="Celery broker, redis:// or rediss://. Empty: files in data_dir (one machine only).",
    )
    tls_ca: Path | None = Field(
        None,
        description="File with the authority that database and broker are checked against, with their names; "
        "a broker URL of rediss:// is checked against the system's authorities without it.",
    )
    tls_cert: Path | None = Field(None, description="Certificate shown to the broker and the database; needs tls_key.")
    tls_key: Path | None = Field(None, description="Key of tls_cert.")
    host: str = Field(
        "127.0.0.1",
        description="Address to listen on. Anything but loopback needs a token, sign-in or open reading first.",
    )
    port: Annotated[int, Field(ge=0, le=65535)] = Field(8750, description="Port to listen on; 0 takes a free one.")
    public_url: str = Field("", description="Address that people and forges reach the service by, for links.")
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Host names the service answers to besides loopback, comma-separated; empty: any when a token is "
        "needed, loopback names only when none is.",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Least severe line logged.")
    log_format: Literal["text", "json"] = Field("text", description="Lines for people, or JSON for machines.")
    otlp_endpoint: str = Field(
        "", description="Where OpenTelemetry traces go, as http://collector:4318/v1/traces; empty: nowhere."
    )
    lease_s: Seconds = Field(60.0, description="A worker that is silent for so long loses its job to another.")
    heartbeat_s: Seconds = Field(10.0, description="How often a worker is asked to give a sign of life.")
    max_attempts: Annotated[int, Field(ge=1)] = Field(3, description="Attempts of a job before it is given up.")
    batch_over: Annotated[int, Field(ge=1)] = Field(
        50, description="With more waiting jobs than this in a project, only the newest commit of a push is urgent."
    )
    retry_delay_s: Seconds = Field(15.0, description="Pause before the second attempt; doubled for each further one.")
    node_silent_s: Seconds = Field(300.0, description="A node that is silent for so long counts as away.")
    series_silent_days: Annotated[float, Field(ge=0)] = Field(
        7.0,
        description="A series without a result for so long, though its branch has newer commits, raises the alarm; "
        "after four times as long it counts as retired; 0: never.",
    )
    poll_interval_s: Seconds = Field(15.0, description="How often a watched branch is looked at.")
    tick_s: Seconds = Field(2.0, description="How often the control worker looks for due work.")
    hint_after_s: Seconds = Field(
        60.0, description="A job that waits for so long since the broker was last told of it is announced again."
    )
    max_body_bytes: Bytes = Field(16 * 2**20, description="Largest request body, artefacts apart.")
    max_artefact_bytes: Bytes = Field(256 * 2**20, description="Largest single artefact.")
    max_attempt_artefact_bytes: Bytes = Field(2 * 2**30, description="All artefacts of one attempt together.")
    max_log_lines: Bytes = Field(50_000, description="Log lines kept of one attempt; later ones are dropped.")
    keep_samples_days: Annotated[float, Field(ge=0)] = Field(
        180.0, description="Raw samples and traces go after so many days, summaries never; 0: keep them for ever."
    )
    keep_logs_days: Annotated[float, Field(ge=0)] = Field(
        30.0, description="Log lines go after so many days; 0: keep them for ever."
    )
    git_timeout_s: Seconds = Field(600.0, description="Longest a fetch of a repository may take.")
    campaign_hooks: dict[str, str] = Field(
        default_factory=dict,
        description="Hooks that campaigns may call for a node, by name, as a JSON object: a command of this machine or "
        "an http(s) address. They are the operator's: nobody can bring one with a campaign.",
    )
    campaign_hook_s: Seconds = Field(1800.0, description="Longest that a campaign's hook may take for one node.")
    credentials: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Tokens for private repositories by name, as a JSON object; "
        "one alone: GROUNDSPEED_CREDENTIAL_<NAME> or GROUNDSPEED_CREDENTIAL_<NAME>_FILE.",
    )
    beat: bool = Field(
        True, description="Whether the control worker also keeps time; false where `beat` runs as a process of its own."
    )
    bootstrap_worker_token: SecretStr | None = Field(
        None, description="A token that `migrate` makes known for the workers of a deployment, whatever their node."
    )
    metrics_token: SecretStr | None = Field(
        None, description="Bearer token that may read /metrics; unset: like any other page."
    )

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("database_url")
    @classmethod
    def _known(cls, value: str) -> str:
        """postgres:// and postgresql:// mean the driver that is installed."""
        name, mark, rest = value.partition("://")
        if value and (not mark or name not in _DATABASES):
            raise ValueError(f"give one like postgresql+psycopg://user@host/name, not {name[:40]!r}")
        url = f"{_DATABASES[name]}://{rest}" if value else value
        if url:
            from sqlalchemy.engine import make_url  # settings are read without it where there is no such URL

            make_url(url)  # raises ValueError, as for a port that is no number
        return url

    @classmethod
    def load(cls, **overrides: Any) -> Settings:
        """Read the environment; raises :class:`ConfigError` naming the variable, what it holds and what is allowed."""
        given: dict[str, Any] = _from_files(cls.model_fields)
        given["credentials"] = _credentials()
        if not given["credentials"]:
            del given["credentials"]
        try:
            return cls(**(given | overrides))
        except ValidationError as error:
            lines = "; ".join(
                f"{PREFIX}{_name(e['loc'])}: {e['msg'].lower().removeprefix('value error, ')}" for e in error.errors()
            )
            raise ConfigError(
                f"The settings cannot be used: {lines}.", "docs/configuration.md lists them all."
            ) from None
        except SettingsError as error:  # it names the field between quotation marks, and never what it holds
            raise ConfigError(
                f"The settings cannot be used: {PREFIX}{_name(str(error).split(chr(34))[1:2])} holds no JSON "
                f"({error.__cause__}).",
                "docs/configuration.md shows the form of it.",
            ) from None

    @property
    def database(self) -> str:
        """The URL of the database in use, with what TLS needs."""
        url = self.database_url or f"sqlite:///{self.data_dir.absolute() / 'groundspeed.db'}"
        return url if url.startswith("sqlite") else with_tls(url, self.tls_ca, self.tls_cert, self.tls_key)

    @property
    def broker(self) -> str:
        """The URL of the broker in use; ``filesystem://``: files in ``broker_dir``."""
        return self.broker_url or "filesystem://"

    @property
    def broker_dir(self) -> Path:
        """Where messages lie when the broker is files; a worker on this machine reads the same folder."""
        return self.data_dir.absolute() / "broker"

    @property
    def embedded(self) -> bool:
        """Whether the broker is a folder of this machine."""
        return self.broker.startswith("filesystem:")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def local(self) -> bool:
        """Whether whoever reaches the service is the person at this machine, who needs no account."""
        return self.loopback and not self.sign_in and self.read_access == "closed"

    @property
    def base_url(self) -> str:
        """Where links lead."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (self.public_url or f"http://{host}:{self.port}").rstrip("/")


def _name(location: Sequence[int | str]) -> str:
    return "_".join(str(part) for part in location).upper()


def _from_files(fields: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in fields:
        variable = f"{PREFIX}{name.upper()}_FILE"
        if path := os.environ.get(variable):
            found[name] = _read(path, variable)
    return found


def _credentials() -> dict[str, str]:
    found: dict[str, str] = {}
    start = f"{PREFIX}CREDENTIAL_"
    for variable, value in os.environ.items():
        if variable.startswith(start):
            name = variable.removeprefix(start)
            if name.endswith("_FILE"):
                found[name.removesuffix("_FILE").lower()] = _read(value, variable)
            else:
                found[name.lower()] = value
    return found


def _read(path: str, variable: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{variable} names the file {path}, which cannot be read: {error}.", "Correct the path or its permissions."
        ) from None
