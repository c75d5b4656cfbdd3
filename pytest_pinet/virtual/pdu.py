"""The PDU: one HTTP port for all outlets, with the protocols of two power backends of labgrid.

``rest``: ``GET /relay/INDEX/value`` answers 0 or 1; ``PUT`` with body 0 or 1 answers when that state is reached.
``shelly_gen2``: ``POST /rpc`` with a JSON-RPC frame, method Switch.Set or Switch.GetStatus, ``id`` the index.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.loopback import TcpServer

_PATH = re.compile(r"/relay/([0-9]{1,6})/value")
_LARGEST_BODY = 1024
_CLIENT_TIMEOUT_S = 10.0
_Answer = tuple[HTTPStatus, str, str]


class Outlet(Protocol):
    """A node, seen from its power supply."""

    @property
    def on(self) -> bool:
        """Whether the node has power."""

    async def power_on(self) -> None:
        """Switch the power on. Returns when it is on."""

    async def power_off(self) -> None:
        """Switch the power off. Returns when no process of the node runs."""


@dataclass(frozen=True)
class PduFaults:
    """Faults of a PDU: a ``dead`` one does not answer; ``lying`` outlets acknowledge requests and ignore them."""

    dead: bool = False
    lying: frozenset[int] = frozenset()


class Pdu(TcpServer):
    """One HTTP port for all outlets, numbered from 1."""

    def __init__(self, outlets: dict[int, Outlet]) -> None:
        super().__init__()
        self.outlets = outlets
        self.faults = PduFaults()
        self._stuck: set[asyncio.StreamWriter] = set()

    def set_faults(self, faults: PduFaults) -> None:
        """Apply ``faults``. When a dead PDU recovers, it aborts the connections of clients that still wait."""
        self.faults = faults
        if not faults.dead:
            for writer in self._stuck:
                writer.transport.abort()
            self._stuck.clear()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.faults.dead:
            self._stuck.add(writer)
            return
        try:
            try:
                request = await asyncio.wait_for(_request(reader), _CLIENT_TIMEOUT_S)
                status, kind, text = await self._answer(*request)
            except (ValueError, asyncio.LimitOverrunError):
                status, kind, text = HTTPStatus.BAD_REQUEST, "text/plain", "unknown request"
            except LabError as error:
                status, kind, text = HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", str(error)
            payload = text.encode()
            head = (
                f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
                f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + payload)
            await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, method: str, path: str, body: str) -> _Answer:
        if path == "/rpc" and method == "POST":
            return HTTPStatus.OK, "application/json", json.dumps(await self._rpc(body))
        status, text = await self._rest(method, path, body)
        return status, "text/plain", text

    async def _rest(self, method: str, path: str, body: str) -> tuple[HTTPStatus, str]:
        match = _PATH.fullmatch(path)
        outlet = self.outlets.get(int(match.group(1))) if match else None
        if match is None or outlet is None:
            return HTTPStatus.NOT_FOUND, f"no such outlet: {path}"
        if method == "GET":
            return HTTPStatus.OK, "1" if outlet.on else "0"
        if method != "PUT" or body.strip() not in ("0", "1"):
            return HTTPStatus.BAD_REQUEST, "PUT 0 or 1"
        await self._set(int(match.group(1)), body.strip() == "1")
        return HTTPStatus.OK, body.strip()

    async def _rpc(self, body: str) -> dict[str, object]:
        """Answer a frame of Shelly's Gen 2 API, also errors. Raises ValueError if the body is no frame."""
        frame = json.loads(body)
        if not isinstance(frame, dict) or not isinstance(frame.get("params", {}), dict):
            raise ValueError(body)
        params = frame.get("params", {})
        answer = {"id": frame.get("id"), "src": "shellypro4pm-pinet"}
        # labgrid sends the outlet's number as a string.
        text = str(params.get("id"))
        index = int(text) if text.isdecimal() else -1
        outlet = self.outlets.get(index)
        match frame.get("method"):
            case "Switch.Set" | "Switch.GetStatus" if outlet is None:
                return {**answer, "error": {"code": -105, "message": f"Argument 'id', value {text} not found!"}}
            case "Switch.Set" if outlet is not None and isinstance(params.get("on"), bool):
                was_on = outlet.on
                await self._set(index, params["on"])
                return {**answer, "result": {"was_on": was_on}}
            case "Switch.GetStatus" if outlet is not None:
                return {**answer, "result": {"id": index, "source": "HTTP_in", "output": outlet.on}}
        return {**answer, "error": {"code": 404, "message": f"No handler for {frame.get('method')}"}}

    async def _set(self, index: int, on: bool) -> None:
        outlet = self.outlets[index]
        if index not in self.faults.lying:
            await (outlet.power_on() if on else outlet.power_off())


async def _request(reader: asyncio.StreamReader) -> tuple[str, str, str]:
    """Read method, path and body. Raises ValueError if the request is not HTTP."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, _version = first.split(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= _LARGEST_BODY:
        raise ValueError("body")
    return method, path, (await reader.readexactly(length)).decode("latin-1")
