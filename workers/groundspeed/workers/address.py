"""Where other nodes reach this one."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit


def own_address(url: str) -> str:
    """The number of this machine on the way to ``url``; its name where there is no such way. Sends nothing."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        places = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_DGRAM)
        for family, kind, protocol, _, place in places:
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(place)
                return str(probe.getsockname()[0])
    except OSError:
        pass
    return socket.gethostname()
