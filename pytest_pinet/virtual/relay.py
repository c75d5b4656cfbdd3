"""A loopback port of the host that reaches the ssh port of a virtual node or switch, in its namespace."""

from __future__ import annotations

import asyncio

from pytest_pinet.virtual.loopback import TcpServer
from pytest_pinet.virtual.namespaces import NetNamespace

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
