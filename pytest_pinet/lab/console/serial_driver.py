"""labgrid's SerialDriver with its own thread that reads the console all the time, so that no output is lost."""

from __future__ import annotations

import socket
import threading
import time
import warnings
from contextlib import suppress

import attr
from labgrid.factory import target_factory
from labgrid.resource import SerialPort
from pexpect import TIMEOUT

from pytest_pinet.lab.console.record import ConsoleRecord
from pytest_pinet.lab.labgrid_private import SerialDriverWithHooks

POLL_S = 0.1
# The limit for output that ``expect`` has not read yet; the record has all output.
LARGEST_BACKLOG = 256 * 1024
LARGEST_READ = 64 * 1024
# A console server that takes one client needs a moment to notice that the last client left (the value is pyserial's).
RECONNECT_S = 0.3


@target_factory.reg_driver
@attr.s(eq=False)
class PiSerialDriver(SerialDriverWithHooks):
    """A SerialDriver that records the console from its activation to its deactivation.

    ``record`` holds the output. ``expect`` and ``read`` see the output since the activation.

    Binds to:
        port (SerialPort, NetworkSerialPort)
    Implements:
        ConsoleProtocol
    Arguments:
        as SerialDriver
    """

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.record = ConsoleRecord(self.target.name)
        self._inbox = bytearray()
        self._news = threading.Condition()
        self._stop = threading.Event()
        self._lost: Exception | None = None
        self._thread: threading.Thread | None = None
        self._closed_at = float("-inf")

    def open(self) -> None:
        """Open the console and start reading; does nothing when it is open."""
        if self.status:
            return
        time.sleep(max(0.0, self._closed_at + RECONNECT_S - time.monotonic()))
        with warnings.catch_warnings():
            # pyserial's RFC 2217 client uses Thread.setDaemon, and pytest may make errors of such warnings.
            warnings.simplefilter("ignore", DeprecationWarning)
            super().open()
        # Output of an earlier boot must not be taken for an answer of this boot.
        self.forget_expected()
        self._inbox.clear()
        self._lost = None
        self._stop.clear()
        self.serial.timeout = POLL_S
        self.record.begin()
        self._thread = threading.Thread(target=self._listen, name=f"console of {self.target.name}", daemon=True)
        self._thread.start()

    def forget_backlog(self) -> None:
        """Discard the output so far, so that it is not taken for an answer to a later command."""
        with self._news:
            self.forget_expected()
            self._inbox.clear()

    def close(self) -> None:
        """Stop reading and close the console; does nothing when it is closed."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self.record.end()
        self._hang_up()
        super().close()

    def _hang_up(self) -> None:
        """Close a socket without pyserial, which sleeps after closing; only a reconnect needs that pause."""
        line = getattr(self.serial, "_socket", None)
        if line is None or not self.serial.is_open:
            return
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
        line.close()
        self.serial._socket = None
        self.serial.is_open = False
        self._closed_at = time.monotonic()

    def _listen(self) -> None:
        # Calls no code of labgrid: labgrid keeps the steps of all threads on one stack.
        try:
            while not self._stop.is_set():
                data = self._receive()
                if not data:
                    self.record.idle()
                    continue
                self.record.feed(data)
                with self._news:
                    self._inbox += data
                    del self._inbox[:-LARGEST_BACKLOG]
                    self._news.notify_all()
        except Exception as error:
            self.record.lost(error)
            with self._news:
                self._lost = error
                self._news.notify_all()

    def _receive(self) -> bytes:
        """Return received bytes as soon as there are any; empty after POLL_S without data."""
        data: bytes = self.serial.read(1)
        if not data:
            return b""
        if isinstance(self.port, SerialPort) or self.port.protocol != "raw":
            return data + bytes(self.serial.read(self.serial.in_waiting))
        # pyserial reports the bytes that wait at a socket as 0 or 1.
        self.serial.timeout = 0
        try:
            return data + bytes(self.serial.read(LARGEST_READ))
        finally:
            self.serial.timeout = POLL_S

    def take(self, size: int, timeout_s: float, max_size: int | None) -> bytes:
        deadline = time.monotonic() + timeout_s
        with self._news:
            while len(self._inbox) < size and self._lost is None and (left := deadline - time.monotonic()) > 0:
                self._news.wait(left)
            if not self._inbox:
                if self._lost is not None:
                    raise self._lost
                raise TIMEOUT(f"Timeout of {timeout_s:.2f} seconds exceeded")
            taken = bytes(self._inbox[: max_size or None])
            del self._inbox[: len(taken)]
        return taken

    def send(self, data: bytes) -> None:
        """Send bytes. Calls no code of labgrid, so any thread may call it."""
        self.serial.write(data)

    def __str__(self) -> str:
        return f"PiSerialDriver({self.target.name})"
