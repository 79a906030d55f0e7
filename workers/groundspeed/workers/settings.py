"""Settings of a worker, read once at the entry point from ``GROUNDSPEED_WORKER_*`` and a few shared variables."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from groundspeed.service.wire.hints import queue_of
from groundspeed.workers.errors import SettingsInvalid


def _shared(name: str) -> AliasChoices:
    """A field that worker and service read under one name, with the worker's own name first."""
    return AliasChoices(name.lower(), f"GROUNDSPEED_WORKER_{name}", f"GROUNDSPEED_{name}")


class Credential(BaseModel):
    """How to reach a private repository: a token (or password), or an SSH key file. Never part of a job."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    username: str = "x-access-token"
    password: SecretStr | None = None
    ssh_key: Path | None = None
    hosts: tuple[str, ...] = ()
    """Hosts it may be shown to; empty: only the host of the project's own repository."""


class WorkerSettings(BaseSettings):
    """Every field has a default that works beside ``groundspeed up``; docs/configuration.md lists them."""

    model_config = SettingsConfigDict(
        env_prefix="GROUNDSPEED_WORKER_",
        frozen=True,
        extra="ignore",
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    data_dir: Path = Field(Path(".groundspeed"), validation_alias=_shared("DATA_DIR"))
    """Folder for everything this worker keeps; the filesystem broker lies in it too."""
    broker_url: str = Field("filesystem://", validation_alias=_shared("BROKER_URL"))
    """Celery broker: filesystem:// (embedded) or redis://, rediss://."""
    broker_options: dict[str, Any] = Field(default_factory=dict, validation_alias=_shared("BROKER_OPTIONS"))
    """Further kombu transport options, as JSON."""
    tls_ca: Path | None = Field(None, validation_alias=_shared("TLS_CA"))
    """File with the authority that service and broker are checked against; none: the system's."""
    tls_cert: Path | None = Field(None, validation_alias=_shared("TLS_CERT"))
    """Certificate shown to service and broker; needs tls_key."""
    tls_key: Path | None = Field(None, validation_alias=_shared("TLS_KEY"))
    """Key of tls_cert."""
    api_url: str = Field("http://127.0.0.1:8750", validation_alias=_shared("API_URL"))
    """Where the service is."""
    token: SecretStr | None = None
    """Bearer token of this node; none is needed on loopback."""
    token_file: Path | None = None
    """File that holds the token instead; read again when the service refuses the old one, so that it can be rotated."""
    node: Annotated[str, Field(min_length=1, max_length=200)] = Field(default_factory=socket.gethostname)
    """This machine's name in the service, unique among its nodes; not set: its host name."""
    pool: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")] = "default"
    """Group of nodes that share a queue."""
    address: str = ""
    """Where other nodes reach this one, for jobs of several nodes; empty: its address towards the service."""
    labels: dict[str, str] = {}
    """Facts that suites may require, as JSON: {"rack": "7"}."""
    stack: str = "default"
    """Name of the software stack that this worker offers."""
    python: Path | None = None
    """Python that holds the node's torch; none: the one the worker runs with."""
    stack_packages: tuple[str, ...] = ("torch", "numpy", "torchvision", "torchaudio", "pytorch-triton", "triton")
    """Distributions of the node (with all they require) that every build sees below its own packages, as
    JSON: ["torch"]."""
    device: str = "auto"
    """Device handed to benchmarks: auto, cpu, cuda, xpu, mps."""
    devices: tuple[str, ...] = ()
    """Devices that this worker may use, as JSON of indices or UUIDs: ["0", "1"]; none: all that the machine has."""
    slots: Annotated[int, Field(ge=1, le=64)] = 1
    """Jobs at a time. 1: the node is used exclusively. More: processors and devices are divided among the slots."""
    starts_ahead: Annotated[int, Field(ge=-1, le=8)] = -1
    """Benchmark processes that import while another measures and then wait for their turn; -1: one where benchmarks run
    on an accelerator and the slot has at least four processors, else none."""
    control: Annotated[str, Field(pattern=r"^(auto|cpu|off)$")] = "auto"
    """The tiny control workload of each lease: auto, on a device too where there is one; cpu, the processor; off."""
    lock_clocks: bool = False
    """Whether the worker locks its devices' clocks while it measures, which needs the right to, and lets them go."""
    lock_clocks_mhz: Annotated[int, Field(ge=0)] = 0
    """Compute clock to lock at; 0: three quarters of the highest, which a device under full load can hold."""
    cache_dir: Path | None = None
    """Folder of mirrors, checkouts and environments; none: below data_dir."""
    spool_dir: Path | None = None
    """Folder of results that the service has not acknowledged; none: below data_dir."""
    spool_max_bytes: Annotated[int, Field(ge=4096)] = 1 << 31
    """Results kept at most while the service is away; then no new job is taken."""
    artefact_max_bytes: Annotated[int, Field(ge=0)] = 64 << 20
    """Largest file that a benchmark may leave with its result."""
    credentials: dict[str, Credential] = Field(default_factory=dict, validation_alias=_shared("CREDENTIALS"))
    """By name, as JSON: {"name": {"password": "..."}}."""
    track_facets: tuple[str, ...] = ()
    """Facets of the environment that count though they would not, as JSON of patterns: ["gpu*.inforom"]."""
    info_facets: tuple[str, ...] = ()
    """Facets of the environment that are told for information only, as JSON of patterns: ["env.NCCL_DEBUG"]."""
    pass_env: tuple[str, ...] = ()
    """Names of further variables handed to trusted builds and benchmarks, as JSON: ["HF_HOME"]."""
    memory_limit_bytes: Annotated[int, Field(ge=0)] = 0
    """Resident memory of one benchmark with all its processes; 0: nine tenths of what the machine has."""
    log_bytes_per_run: Annotated[int, Field(ge=1024)] = 256 * 1024
    """Output kept of one benchmark process."""
    keep_checkouts: Annotated[int, Field(ge=1)] = 64
    """Checkouts kept at most; the longest unused goes first."""
    keep_environments: Annotated[int, Field(ge=1)] = 24
    """Build environments kept at most; the longest unused goes first."""
    keep_compile_caches: Annotated[int, Field(ge=1)] = 64
    """Compile caches of revisions kept at most; the longest unused goes first."""
    git_timeout_s: Annotated[float, Field(gt=0)] = 1800.0
    """Longest a git command may take."""
    idle_poll_s: Annotated[float, Field(gt=0)] = 10.0
    """How often an idle worker asks for work that no message announced."""
    grace_s: Annotated[float, Field(ge=0)] = 8.0
    """After SIGTERM: how long spooled results may still be sent."""
    lock_wait_s: Annotated[float, Field(ge=0)] = 30.0
    """How long to wait for an earlier worker to leave this worker's folder."""
    sandbox: Annotated[str, Field(pattern=r"^(auto|off)$")] = "auto"
    """auto: untrusted jobs run in bubblewrap when it works here; off: they are refused."""
    package_hosts: tuple[str, ...] = ()
    """Further hosts that the package index keeps its files on."""
    package_index: str | None = None
    """The only package index that a build of untrusted code reaches; none: it reaches no network."""

    @field_validator("credentials", mode="before")
    @classmethod
    def _password_alone(cls, value: Any) -> Any:
        """``{"name": "secret"}`` is short for ``{"name": {"password": "secret"}}``."""
        if not isinstance(value, dict):
            return value
        return {k: {"password": v} if isinstance(v, str) else v for k, v in value.items()}

    @classmethod
    def load(cls, **overrides: Any) -> WorkerSettings:
        """Read the environment; raises SettingsInvalid naming the variable and what is wrong with it."""
        given = {name: value for name, value in overrides.items() if value is not None}
        found = _single_credentials()
        try:
            settings = cls(**given)
            return settings.model_copy(update={"credentials": {**found, **settings.credentials}}) if found else settings
        except ValidationError as error:
            lines = "; ".join(f"{_variable(e['loc'])}: {e['msg'].lower()}" for e in error.errors())
            raise SettingsInvalid(
                f"The worker's settings cannot be used: {lines}. docs/configuration.md lists them all."
            ) from None
        except SettingsError as error:  # it names the field between quotation marks, and never what it holds
            raise SettingsInvalid(
                f"The worker's settings cannot be used: {_variable(str(error).split(chr(34))[1:2])} holds no JSON "
                f"({error.__cause__}). docs/configuration.md shows the form of it."
            ) from None

    @property
    def embedded(self) -> bool:
        """Whether the broker is a folder of this machine."""
        return self.broker_url in {"", "filesystem://"}

    @property
    def home(self) -> Path:
        return self.data_dir.absolute() / "worker"

    @property
    def cache(self) -> Path:
        return (self.cache_dir or self.home / "cache").absolute()

    @property
    def spool(self) -> Path:
        return (self.spool_dir or self.home / "spool").absolute()

    def tls_context(self) -> ssl.SSLContext:
        """For the service. Raises SettingsInvalid when a file cannot be used."""
        try:
            context = ssl.create_default_context(cafile=str(self.tls_ca) if self.tls_ca else None)
            if self.tls_cert is not None:
                context.load_cert_chain(self.tls_cert, self.tls_key)
        except (OSError, ssl.SSLError) as error:
            raise SettingsInvalid(f"TLS cannot be used: {error}. Look at GROUNDSPEED_TLS_CA, _CERT and _KEY.") from None
        return context

    @property
    def broker_tls(self) -> dict[str, Any] | None:
        """What Celery is told about a broker of ``rediss://``; None for any other."""
        if not self.broker_url.startswith("rediss:"):
            return None
        found: dict[str, Any] = {"ssl_cert_reqs": ssl.CERT_REQUIRED}
        files = {"ssl_ca_certs": self.tls_ca, "ssl_certfile": self.tls_cert, "ssl_keyfile": self.tls_key}
        return found | {name: str(path) for name, path in files.items() if path is not None}

    @property
    def clocks_note(self) -> Path:
        """Which devices' clocks are locked just now."""
        return self.home / "locked-clocks.json"

    @property
    def broker_dir(self) -> Path:
        return self.data_dir.absolute() / "broker"

    @property
    def queue(self) -> str:
        return queue_of(self.pool)

    def read_token(self) -> str | None:
        """The token as it is now. Raises SettingsInvalid when its file cannot be read."""
        if self.token_file is None:
            return self.token.get_secret_value() if self.token else None
        try:
            return self.token_file.read_text(encoding="utf-8").strip() or None
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsInvalid(f"GROUNDSPEED_WORKER_TOKEN_FILE cannot be read: {error}.") from None

    @property
    def memory_limit(self) -> int:
        """Bytes; see ``memory_limit_bytes``."""
        return self.memory_limit_bytes or int(machine_memory_bytes() * 0.9)


def _variable(loc: Sequence[str | int]) -> str:
    """The variable that a field is read from, as messages name it."""
    name = "_".join(map(str, loc)).upper()
    return name if name.startswith("GROUNDSPEED_") else f"GROUNDSPEED_WORKER_{name}"


def _single_credentials() -> dict[str, Credential]:
    """``GROUNDSPEED_CREDENTIAL_<NAME>`` (or its ``_FILE``) holds one token each, as for the service."""
    found: dict[str, Credential] = {}
    for variable, value in os.environ.items():
        name = variable.removeprefix("GROUNDSPEED_CREDENTIAL_")
        if name == variable:
            continue
        if name.endswith("_FILE"):
            name = name.removesuffix("_FILE")
            try:
                value = Path(value).read_text(encoding="utf-8").strip()  # noqa: PLW2901 - the file stands for it
            except (OSError, UnicodeDecodeError) as error:
                raise SettingsInvalid(f"{variable} names a file that cannot be read: {error}.") from None
        found[name.lower()] = Credential(password=SecretStr(value))
    return found


def machine_memory_bytes() -> int:
    """What this machine, or the control group that the worker lives in, may use."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(path).read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue
    return total
