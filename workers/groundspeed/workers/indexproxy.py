"""The worker's end of the way to the package index: a proxy on a Unix socket that opens connections to listed hosts.

It understands CONNECT (for https) and absolute addresses (for http), and answers 403 to every other host, so that a
build of untrusted code reaches the package index, its file host, and nothing else: no metadata service, no intranet.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from groundspeed.workers.logs import logger
from groundspeed.workers.relay import join

_HEAD_MOST = 1 << 16
_CONNECT_S = 20.0


def index_hosts(index: str, more: Iterable[str]) -> frozenset[str]:
    """Host and port ("host:443") of the index and of the further hosts of its files; those of pypi.org are known."""
    found = set()
    for address in (index, *more):
        parts = urlsplit(address if "://" in address else f"https://{address}")
        port = parts.port or (80 if parts.scheme == "http" else 443)
        found.add(f"{(parts.hostname or '').lower()}:{port}")
    if "pypi.org:443" in found:
        found.add("files.pythonhosted.org:443")
    return frozenset(found)


@contextmanager
def serving(path: Path, hosts: frozenset[str]) -> Iterator[Path]:
    """Serve on a socket at ``path`` until the block ends."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(64)
    threading.Thread(target=_accept, args=(listener, hosts), name="index proxy", daemon=True).start()
    try:
        yield path
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        path.unlink(missing_ok=True)


def _accept(listener: socket.socket, hosts: frozenset[str]) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_handle, args=(client, hosts), daemon=True).start()


def _handle(client: socket.socket, hosts: frozenset[str]) -> None:
    with client:
        client.settimeout(60.0)
        try:
            head = _read_head(client)
            method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ", 2)
            host, first = _destination(method, target, head)
        except (OSError, ValueError):
            return
        if host not in hosts:
            logger.warning("untrusted build: %s is not the package index and is not reached", host[:200])
            with suppress(OSError):
                client.sendall(b"HTTP/1.1 403 Only the package index is reached\r\nContent-Length: 0\r\n\r\n")
            return
        name, _, port = host.rpartition(":")
        try:
            upstream = socket.create_connection((name, int(port)), timeout=_CONNECT_S)
        except OSError:
            with suppress(OSError):
                client.sendall(b"HTTP/1.1 502 The package index cannot be reached\r\nContent-Length: 0\r\n\r\n")
            return
        with upstream, suppress(OSError):
            upstream.settimeout(120.0)
            if method == "CONNECT":
                client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:
                upstream.sendall(first)
            join(client, upstream)


def _read_head(client: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        chunk = client.recv(4096)
        if not chunk or len(head) > _HEAD_MOST:
            raise ValueError("no request")
        head += chunk
    return head


def _destination(method: str, target: str, head: bytes) -> tuple[str, bytes]:
    """Host and port and, for plain http, the request as the server wants it (one a connection)."""
    if method == "CONNECT":
        return target.lower(), b""
    parts = urlsplit(target)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError("not a request for a proxy")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    rest = head.split(b"\r\n", 1)[1]
    kept = [line for line in rest.split(b"\r\n") if not line.lower().startswith((b"connection:", b"proxy-"))]
    first = f"{method} {path} HTTP/1.1\r\nConnection: close\r\n".encode("ascii") + b"\r\n".join(kept)
    return f"{parts.hostname.lower()}:{parts.port or 80}", first
