"""Broker and database behind TLS: checked against the authority that is named, refused when it is another."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from celery import Celery
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from databases import GivenServer, PostgresServer
from groundspeed.service.control.app import celery_settings as service_celery
from groundspeed.service.db.engine import Database
from groundspeed.service.settings import Settings
from groundspeed.workers.app import celery_settings as worker_celery
from groundspeed.workers.errors import SettingsInvalid
from groundspeed.workers.settings import WorkerSettings
from processes import RedisServer

SSL_REQUEST = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes a certificate for localhost that is its own authority; its key lies beside it."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl to make certificates")
    folder = tmp_path_factory.mktemp("tls")

    def make(name: str) -> Path:
        certificate = folder / f"{name}.pem"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        files = ["-keyout", str(certificate.with_suffix(".key")), "-out", str(certificate), "-days", "2"]
        subprocess.run([*command, *names, *files], check=True, capture_output=True)
        return certificate

    return make


class Gate(threading.Thread):
    """Speaks TLS on one side and plainly to a server on the other, as a server with TLS would."""

    def __init__(self, certificate: Path, connect: Callable[[], socket.socket], *, postgres: bool = False) -> None:
        super().__init__(daemon=True)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self._connect, self._postgres = connect, postgres
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            if self._postgres:
                assert client.recv(8) == SSL_REQUEST
                client.sendall(b"S")
            inside = self._context.wrap_socket(client, server_side=True)
        except (OSError, AssertionError):
            client.close()
            return
        server = self._connect()
        back = threading.Thread(target=_pump, args=(server, inside), daemon=True)
        back.start()
        _pump(inside, server)

    def close(self) -> None:
        self._listener.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        end.close()


@pytest.fixture
def broker(authority: Callable[[str], Path], redis_server: RedisServer) -> Iterator[tuple[str, Path]]:
    certificate = authority("broker")
    gate = Gate(certificate, lambda: socket.create_connection(("127.0.0.1", redis_server.port)))
    gate.start()
    yield f"rediss://localhost:{gate.port}/0", certificate
    gate.close()


def sends(settings: dict[str, object]) -> None:
    app = Celery("tls", set_as_current=False)
    app.conf.update(settings, broker_connection_retry=False)
    with app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, timeout=60)
        app.send_task("a.task", queue="over-tls", connection=connection, retry=False)


def test_service_and_worker_reach_a_broker_of_the_authority_they_name(
    broker: tuple[str, Path], redis_server: RedisServer, tmp_path: Path
) -> None:
    url, ca = broker
    sends(service_celery(Settings(data_dir=tmp_path, broker_url=url, tls_ca=ca)))
    sends(worker_celery(WorkerSettings(data_dir=tmp_path, broker_url=url, tls_ca=ca)))
    with redis.Redis.from_url(redis_server.url) as client:
        assert client.llen("over-tls") == 2


def test_a_broker_of_another_authority_is_refused(
    broker: tuple[str, Path], authority: Callable[[str], Path], redis_server: RedisServer, tmp_path: Path
) -> None:
    other = authority("other")
    for settings in (
        service_celery(Settings(data_dir=tmp_path, broker_url=broker[0], tls_ca=other)),
        worker_celery(WorkerSettings(data_dir=tmp_path, broker_url=broker[0], tls_ca=other)),
        service_celery(Settings(data_dir=tmp_path, broker_url=broker[0])),
    ):
        with pytest.raises(Exception, match="ertificate"):
            sends(settings)
    with redis.Redis.from_url(redis_server.url) as client:
        assert client.llen("over-tls") == 0


def test_the_database_is_checked_by_authority_and_name(
    authority: Callable[[str], Path], postgres_server: PostgresServer, tmp_path: Path
) -> None:
    if isinstance(postgres_server, GivenServer):
        pytest.skip("needs a server whose socket is known")
    certificate, other = authority("database"), authority("stranger")

    def connect() -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.connect(str(postgres_server.folder / ".s.PGSQL.5432"))
        return made

    gate = Gate(certificate, connect, postgres=True)
    gate.start()

    def ask(host: str, ca: Path) -> int:
        url = f"postgresql://groundspeed@{host}:{gate.port}/postgres"
        db = Database(Settings(data_dir=tmp_path, database_url=url, tls_ca=ca).database)
        try:
            with db.engine.connect() as connection:
                return int(connection.execute(text("SELECT 1")).scalar_one())
        finally:
            db.close()

    try:
        assert ask("localhost", certificate) == 1
        with pytest.raises(OperationalError, match="certificate verify failed"):
            ask("localhost", other)
        with pytest.raises(OperationalError, match="does not match host name"):
            ask("127.0.0.1", certificate)
    finally:
        gate.close()


def test_what_the_url_says_about_tls_goes_first(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    url = "postgresql://u@h/d?sslmode=require"
    with_ca = f"postgresql+psycopg://u@h/d?sslmode=require&sslrootcert={ca}"
    assert Settings(data_dir=tmp_path, database_url=url, tls_ca=ca).database == with_ca
    assert Settings(data_dir=tmp_path, tls_ca=ca).database.startswith("sqlite:")
    assert service_celery(Settings(data_dir=tmp_path, broker_url="redis://h/0", tls_ca=ca))["broker_use_ssl"] is None


def test_a_file_that_cannot_be_used_is_told_in_words(tmp_path: Path) -> None:
    bad = tmp_path / "ca.pem"
    bad.write_text("no certificate")
    with pytest.raises(SettingsInvalid, match="TLS cannot be used"):
        WorkerSettings(tls_ca=bad).tls_context()
