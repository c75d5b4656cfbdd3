"""The PDU: HTTP in the dialect of labgrid's ``rest`` power backend.

``GET /relay/INDEX/value`` answers 0 or 1; ``PUT`` with body 0 or 1 answers when that state is reached.
"""

from __future__ import annotations

import asyncio
import re
import socket
from http import HTTPStatus
from typing import Protocol

from pytest_pinet.errors import LabError

_PATH = re.compile(r"/relay/([0-9]{1,6})/value")
_LARGEST_BODY = 16
_CLIENT_TIMEOUT_S = 10.0


class Outlet(Protocol):
    """What the PDU switches."""

    @property
    def on(self) -> bool:
        """Whether it has power."""

    async def power_on(self) -> None:
        """Returns when it has power."""

    async def power_off(self) -> None:
        """Returns when nothing of it runs any more."""


class Pdu:
    """One HTTP port for all outlets, numbered from 1."""

    def __init__(self, listener: socket.socket, outlets: dict[int, Outlet]) -> None:
        self._listener = listener
        self._outlets = outlets

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    async def serve(self) -> None:
        """Begin to accept clients."""
        await asyncio.start_server(self._client, sock=self._listener)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            try:
                method, path, body = await asyncio.wait_for(_request(reader), _CLIENT_TIMEOUT_S)
                status, text = await self._answer(method, path, body)
            except (ValueError, asyncio.LimitOverrunError):
                status, text = HTTPStatus.BAD_REQUEST, "not a request that this PDU knows"
            except LabError as error:
                status, text = HTTPStatus.INTERNAL_SERVER_ERROR, str(error)
            payload = text.encode()
            head = (
                f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain\r\n"
                f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + payload)
            await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, method: str, path: str, body: str) -> tuple[HTTPStatus, str]:
        match = _PATH.fullmatch(path)
        outlet = self._outlets.get(int(match.group(1))) if match else None
        if outlet is None:
            return HTTPStatus.NOT_FOUND, f"no such outlet: {path}"
        if method == "GET":
            return HTTPStatus.OK, "1" if outlet.on else "0"
        if method != "PUT" or body.strip() not in ("0", "1"):
            return HTTPStatus.BAD_REQUEST, "PUT 0 or 1"
        await (outlet.power_on() if body.strip() == "1" else outlet.power_off())
        return HTTPStatus.OK, body.strip()


async def _request(reader: asyncio.StreamReader) -> tuple[str, str, str]:
    """Method, path and body. Raises ValueError for what is not HTTP."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, _version = first.split(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= _LARGEST_BODY:
        raise ValueError("body too long")
    return method, path, (await reader.readexactly(length)).decode("latin-1")
