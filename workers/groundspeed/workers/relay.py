"""The sandbox's end of the way to the package index: a loopback port that leads to one Unix socket.

Run by path inside the sandbox: ``relay.py SOCKET PORT command …``; standard library alone. Ends with the command's
exit status.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading


def pump(source: socket.socket, sink: socket.socket) -> None:
    """Copy until the end, then say so to the other side."""
    try:
        while chunk := source.recv(1 << 16):
            sink.sendall(chunk)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for side in (source, sink):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


def join(one: socket.socket, other: socket.socket) -> None:
    """Both directions, until both have ended."""
    back = threading.Thread(target=pump, args=(other, one), daemon=True)
    back.start()
    pump(one, other)
    back.join()
    one.close()
    other.close()


def _serve(listener: socket.socket, path: str) -> None:
    while True:
        client, _ = listener.accept()
        upstream = socket.socket(socket.AF_UNIX)
        try:
            upstream.connect(path)
        except OSError:
            client.close()
            continue
        threading.Thread(target=join, args=(client, upstream), daemon=True).start()


def main() -> int:
    path, port, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    listener = socket.create_server(("127.0.0.1", port))
    threading.Thread(target=_serve, args=(listener, path), daemon=True).start()
    status = subprocess.call(command)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main())
