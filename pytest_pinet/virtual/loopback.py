"""Ports on the host's loopback: of ssh in a namespace, of serial consoles, and of the PDU."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import struct
import termios
from abc import ABC, abstractmethod
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.namespaces import NetNamespace

_TABLE = Path("/proc/thread-self/net/tcp")


class TcpServer(ABC):
    """A TCP port of the host's loopback. It is bound at once, and accepts clients after ``serve``."""

    def __init__(self) -> None:
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._listener.bind(("127.0.0.1", 0))

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    async def serve(self) -> None:
        """Start to accept clients."""
        await asyncio.start_server(self._client, sock=self._listener)

    @abstractmethod
    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it disconnects."""


def peer_uid(sock: socket.socket) -> int | None:
    """Return the user who owns the other end of an IPv4 loopback connection, or None if it is closed."""
    wanted = [_hex(sock.getpeername()), _hex(sock.getsockname())]
    for line in _TABLE.read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1:3] == wanted:
            return int(fields[7])
    return None


def _hex(address: tuple[str, int]) -> str:
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"


# A loopback port of the host that reaches the ssh port of a virtual node or switch, in its namespace.


SSH_PORT = 22
LOOPBACK = "127.0.0.1"


class Relay(TcpServer):
    """Forward each client to port 22 of an address, by default 127.0.0.1, from the present namespace.

    Without a namespace, the client is disconnected.

    While the relay is frozen, connections stay open and silent, as with a machine that hangs.
    """

    def __init__(self) -> None:
        super().__init__()
        self._namespace: NetNamespace | None = None
        self._host = LOOPBACK
        self._transports: set[asyncio.WriteTransport] = set()
        self._running = asyncio.Event()
        self._running.set()

    def connect_to(self, namespace: NetNamespace | None, host: str = LOOPBACK) -> None:
        """Change the namespace and the address, and cut all open connections."""
        self._namespace, self._host = namespace, host
        self.cut()

    def cut(self) -> None:
        for transport in list(self._transports):
            transport.abort()

    def freeze(self, frozen: bool) -> None:
        if frozen:
            self._running.clear()
        else:
            self._running.set()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._transports.add(writer.transport)
        far: asyncio.StreamWriter | None = None
        try:
            await self._running.wait()
            if self._namespace is None:
                writer.transport.abort()
                return
            sock = self._namespace.tcp_socket()
            sock.setblocking(False)
            try:
                await asyncio.get_running_loop().sock_connect(sock, (self._host, SSH_PORT))
            except OSError:
                # The sshd has not started yet, or has ended.
                sock.close()
                writer.transport.abort()
                return
            far_reader, far = await asyncio.open_connection(sock=sock)
            self._transports.add(far.transport)
            await asyncio.gather(self._pump(reader, far), self._pump(far_reader, writer))
        except ConnectionError:
            pass
        finally:
            for one in (writer, far):
                if one is not None:
                    self._transports.discard(one.transport)
                    one.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self._running.wait()
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except OSError:
            writer.transport.abort()


# The serial console of a node, as a raw TCP port that listens whether the node is on or off.


LOG_SIZE = 256 * 1024
# A client that does not read is disconnected before its backlog fills the daemon's memory.
LARGEST_BACKLOG = 1024 * 1024


class Console(TcpServer):
    """Forward data between TCP clients and the pty of the running node.

    A new client gets only new output, as on a serial line. Earlier output is in the log file. Input is dropped while
    the node is off or frozen. Only the user ``owner`` and root may connect, because a client types into the session of
    the user who is logged in.
    """

    def __init__(self, log: Path, owner: int) -> None:
        super().__init__()
        self._log = log
        self._owner = owner
        self._clients: set[asyncio.StreamWriter] = set()
        self._master: int | None = None
        self._slave: int | None = None
        self._muted = False
        # A dead line passes nothing in either direction, while the node itself keeps running.
        self.dead = False

    def mute(self, muted: bool) -> None:
        """Pass nothing while the node hangs, or continue."""
        self._muted = muted

    def cut(self, dead: bool) -> None:
        """Make the line dead, or mend it."""
        self.dead = dead

    def attach(self) -> str:
        """Open a new terminal for a node that is powered on. Return the path of the node's side."""
        self.detach()
        master, slave = os.openpty()
        # Like a UART before a getty: no echo, no line editing. Only line ends become CR LF.
        mode = termios.tcgetattr(slave)
        mode[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
        termios.tcsetattr(slave, termios.TCSANOW, mode)
        os.set_blocking(master, False)
        self._master, self._slave = master, slave
        asyncio.get_running_loop().add_reader(master, self._output)
        return os.ttyname(slave)

    def detach(self) -> None:
        """Close the terminal of a node that was powered off."""
        if self._master is None or self._slave is None:
            return
        self._output()
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)
        os.close(self._slave)
        self._master = self._slave = None

    def _output(self) -> None:
        if self._master is None:
            return
        try:
            data = os.read(self._master, 65536)
        except OSError:  # nothing to read, or a hang-up. The open descriptor of the node's side keeps the pty open
            return
        self._show(data)

    def say(self, text: str) -> None:
        """Show messages of the kernel, after pending output of other programs on the terminal."""
        self._output()
        self._show(text.replace("\n", "\r\n").encode())

    def _show(self, data: bytes) -> None:
        if self._muted or self.dead:
            return
        with self._log.open("ab") as log:
            log.write(data)
            too_long = log.tell() > 2 * LOG_SIZE
        if too_long:
            self._log.write_bytes(self._log.read_bytes()[-LOG_SIZE:])
        for writer in list(self._clients):
            writer.write(data)
            if writer.transport.get_write_buffer_size() > LARGEST_BACKLOG:
                writer.transport.abort()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if peer_uid(writer.get_extra_info("socket")) not in (self._owner, 0):
            writer.close()
            return
        self._clients.add(writer)
        try:
            while data := await reader.read(4096):
                if self._master is not None and not self._muted and not self.dead:
                    try:
                        os.write(self._master, data)
                    except OSError:
                        continue  # the terminal's input queue is full. A UART without flow control loses such input too
        except ConnectionError:
            pass
        finally:
            self._clients.discard(writer)
            writer.close()


# The PDU: one HTTP port for all outlets, with the protocols of two power backends of labgrid.
#
# ``rest``: ``GET /relay/INDEX/value`` answers 0 or 1; ``PUT`` with body 0 or 1 answers when that state is reached.
# ``shelly_gen2``: ``POST /rpc`` with a JSON-RPC frame, method Switch.Set or Switch.GetStatus, ``id`` the index.


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
