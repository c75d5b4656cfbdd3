"""A node's serial console as a raw TCP port that listens whether the node is on or not."""

from __future__ import annotations

import asyncio
import os
import socket
import termios
from pathlib import Path

from pytest_pinet.virtual.loopback import peer_uid

LOG_SIZE = 256 * 1024
# A client that does not read is dropped before it eats the daemon's memory.
LARGEST_BACKLOG = 1024 * 1024


class Console:
    """Forwards between TCP clients and the pty of the running node.

    A new client gets only what is printed from then on, as on a serial line; what the node printed before stands in
    the log file. While the node is off or frozen, input is dropped. Only the user ``owner`` and root are let in, since
    a client types into the session of whoever logged in.
    """

    def __init__(self, listener: socket.socket, log: Path, owner: int) -> None:
        self._listener = listener
        self._log = log
        self._owner = owner
        self._clients: set[asyncio.StreamWriter] = set()
        self._master: int | None = None
        self._slave: int | None = None
        self.muted = False
        # The line is dead in both directions, while the node itself goes on.
        self.dead = False

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    async def serve(self) -> None:
        """Begin to accept clients."""
        await asyncio.start_server(self._client, sock=self._listener)

    def attach(self) -> str:
        """Make a fresh terminal for a node that is switched on; returns the path of the node's side."""
        self.detach()
        master, slave = os.openpty()
        # As a UART before a getty: nothing is echoed and nothing edited, only line ends become CR LF.
        mode = termios.tcgetattr(slave)
        mode[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN)
        termios.tcsetattr(slave, termios.TCSANOW, mode)
        os.set_blocking(master, False)
        self._master, self._slave = master, slave
        asyncio.get_running_loop().add_reader(master, self._output)
        return os.ttyname(slave)

    def detach(self) -> None:
        """The node was switched off."""
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
        except OSError:  # nothing to read, or a hang-up: our own descriptor of the node's side keeps the pty alive
            return
        self._show(data)

    def say(self, text: str) -> None:
        """Show what the kernel prints, whoever writes to the terminal besides."""
        self._output()
        self._show(text.replace("\n", "\r\n").encode())

    def _show(self, data: bytes) -> None:
        if self.muted or self.dead:
            return
        self._keep(data)
        for writer in list(self._clients):
            writer.write(data)
            if writer.transport.get_write_buffer_size() > LARGEST_BACKLOG:
                writer.transport.abort()

    def _keep(self, data: bytes) -> None:
        with self._log.open("ab") as log:
            log.write(data)
            too_long = log.tell() > 2 * LOG_SIZE
        if too_long:
            self._log.write_bytes(self._log.read_bytes()[-LOG_SIZE:])

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if peer_uid(writer.get_extra_info("socket")) not in (self._owner, 0):
            writer.close()
            return
        self._clients.add(writer)
        try:
            while data := await reader.read(4096):
                if self._master is not None and not self.muted and not self.dead:
                    try:
                        os.write(self._master, data)
                    except OSError:
                        continue  # the terminal's input queue is full: a UART without flow control loses it too
        except ConnectionError:
            pass
        finally:
            self._clients.discard(writer)
            writer.close()
