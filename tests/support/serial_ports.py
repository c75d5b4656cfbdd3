"""A serial port on this machine whose other end is a board's console, and ser2net as its console server."""

from __future__ import annotations

import os
import pty
import shutil
import socket
import subprocess
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.support.gate_project import wait_until

SER2NET = shutil.which("ser2net", path=f"{os.environ['PATH']}:/usr/sbin")


class PtyConsole:
    """A board's console on the serial device ``path``. It is used like ``board_stand_in.Console``."""

    def __init__(self) -> None:
        self._master, self._slave = pty.openpty()
        # No echo of what the board prints.
        tty.setraw(self._slave, termios.TCSANOW)
        os.set_blocking(self._master, False)
        self.path = os.ttyname(self._slave)
        self.on_line: Callable[[bytes], None] = lambda _: None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._hear, daemon=True)
        self._thread.start()

    def _hear(self) -> None:
        typed = b""
        while not self._over.wait(0.01):
            with suppress(BlockingIOError):
                typed += os.read(self._master, 4096)
            *lines, typed = typed.split(b"\n")
            for line in lines:
                self.on_line(line.rstrip())

    def say(self, text: str) -> None:
        # A UART loses output without a reader, too.
        with suppress(BlockingIOError):
            os.write(self._master, text.replace("\n", "\r\n").encode())

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        os.close(self._master)
        os.close(self._slave)


@contextmanager
def ser2net(path: str, accepter: str) -> Iterator[int]:
    """Serve the device on loopback by this accepter; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    assert SER2NET is not None
    lines = [
        f"connection: &con01#  accepter: {accepter},127.0.0.1,{port}",
        f"  connector: serialdev(nouucplock=true),{path},115200n81,local",
    ]
    process = subprocess.Popen([SER2NET, "-d", "-n", *(word for line in lines for word in ("-Y", line))])

    def listens() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    try:
        wait_until("ser2net", listens)
        yield port
    finally:
        process.terminate()
        process.wait(10)
