"""How the service checks its database and its broker, and shows itself to them."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit


def with_tls(url: str, ca: Path | None, cert: Path | None, key: Path | None) -> str:
    """A PostgreSQL URL that checks the server's certificate and name; what the URL itself says about TLS goes first."""
    given = {"sslmode": "verify-full", "sslrootcert": ca} if ca is not None else {}
    given |= {"sslcert": cert, "sslkey": key} if cert is not None else {}
    known = {name for name, _ in parse_qsl(urlsplit(url).query)}
    query = urlencode({name: str(value) for name, value in given.items() if name not in known}, safe="/")
    return url + ("&" if "?" in url else "?") + query if query else url


def broker_tls(url: str, ca: Path | None, cert: Path | None, key: Path | None) -> dict[str, Any]:
    """What Celery is told about a broker of ``rediss://``; empty for any other."""
    if not url.startswith("rediss:"):
        return {}
    files = {"ssl_ca_certs": ca, "ssl_certfile": cert, "ssl_keyfile": key}
    return {"ssl_cert_reqs": ssl.CERT_REQUIRED} | {name: str(path) for name, path in files.items() if path is not None}
