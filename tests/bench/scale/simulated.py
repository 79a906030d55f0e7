"""A simulated node's way to the service: HTTP by hand, because a thousand full clients would cost more than the service."""

from __future__ import annotations

import asyncio
import json
import re

from groundspeed.service.wire import v1


class Connection:
    """A node's connection to the service, kept open; a message is repeated when it breaks, as a worker does it."""

    def __init__(self, port: int, node: str) -> None:
        self.node = node
        self.attempts: set[str] = set()
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, message: v1.Wire) -> dict[str, object]:
        body = message.model_dump_json().encode()
        head = f"POST /api/v1{path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        while True:
            try:
                return await self._send(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            except (OSError, asyncio.IncompleteReadError):
                self._streams = None
                await asyncio.sleep(0.2)

    async def _send(self, request: bytes) -> dict[str, object]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = re.search(r"^content-length: (\d+)", head, re.MULTILINE)
        assert length is not None, head
        body = await reader.readexactly(int(length[1]))
        if head.startswith("http/1.1 5"):
            raise ConnectionError(head.splitlines()[0])
        assert head.startswith("http/1.1 200"), (head, body)
        answer: dict[str, object] = json.loads(body)
        return answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
