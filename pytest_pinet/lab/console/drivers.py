"""labgrid's drivers for a serial console, extended: its own thread reads all output, and the login does not wait."""

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

from pytest_pinet.errors import ConsoleError
from pytest_pinet.lab.console.record import ConsoleRecord
from pytest_pinet.lab.labgrid_private import SerialDriverWithHooks, ShellDriverWithHooks

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


# "---[ end Kernel panic ..." may be in the buffer from an earlier boot, so it does not count.
PANIC = r"(?<!end )Kernel panic - not syncing[^\r\n]*[\r\n]"
FIRST_SILENCE_S = 0.2
LONGEST_SILENCE_S = 2.0
# After a wrong password, login sleeps for two or three seconds (pam_faildelay).
REPLY_SILENCE_S = 5.0


class LoginRefused(ConsoleError):
    """The node answers on its console, but refuses the login."""


class BootPanic(ConsoleError):
    """The kernel panicked before it showed a login prompt; a power cycle may help."""


class EchoedAnswers:
    """Tells output of a booting board from answers to our newlines, such as a prompt that we do not know."""

    def __init__(self) -> None:
        # Whether we sent a newline since the last output.
        self._expected = False
        self._usual: bytes | None = None

    def expect(self) -> None:
        """Note that we sent a newline."""
        self._expected = True

    def explain(self, output: bytes, before: bytes) -> bool:
        """Return whether the new part of ``output`` is blank, or only answers a newline as the last answer did."""
        fresh = (output[len(before) :] if output.startswith(before) else output).strip()
        expected, self._expected = self._expected, False
        if not fresh:
            return True
        if expected and self._usual is None:
            self._usual = fresh
        return expected and fresh == self._usual


@target_factory.reg_driver
@attr.s(eq=False)
class PiShellDriver(ShellDriverWithHooks):
    """A ShellDriver that checks an idle console at once, and logs out if it logged in.

    Activation raises ConsoleError when the console refuses the login, and BootPanic (a ConsoleError) when the kernel
    panics.

    Binds to:
        console (ConsoleProtocol)
    Implements:
        CommandProtocol, FileTransferProtocol
    Arguments:
        as ShellDriver; ``login_timeout`` is the deadline for the whole login
    """

    _logged_in = False
    # A console that prints something else than answers to us gets this time for the login.
    boot_timeout_s = 0.0

    def abandon(self) -> None:
        """Leave the console without logging out, because another run may use it by now."""
        self._logged_in = False

    def find_prompt(self) -> bool:
        started = time.monotonic()
        allowed_s = float(self.login_timeout)
        silence = FIRST_SILENCE_S
        last_before = b""
        sent_name = tried = False
        answers = EchoedAnswers()
        while (left_s := started + allowed_s - time.monotonic()) > 0:
            index, before, match, _ = self.console.expect(
                [self.prompt, self.login_prompt, "Password: ", "Login incorrect", PANIC, TIMEOUT],
                timeout=min(silence, left_s),
            )
            if index == 0:
                return self._logged_in
            if index == 1:
                self.console.sendline(self.username)
                self._logged_in = sent_name = True
                # Send no newline meanwhile: login would take it for an empty password.
                silence = REPLY_SILENCE_S
            elif index == 2:
                # If we did not send our user name, the prompt belongs to another user name, or to an empty one after
                # our own newline.
                self.console.sendline((self.password or "") if sent_name else "")
                sent_name, tried = False, sent_name
                silence = REPLY_SILENCE_S
            elif index == 3:
                if not tried:
                    continue
                self._logged_in = False
                raise LoginRefused(
                    f"{self.target.name}: the console refused the login of user {self.username!r}",
                    "correct username and password of the shell driver in the lab file",
                )
            elif index == 4:
                self._logged_in = False
                line = match.group().decode("utf-8", "replace").strip()
                raise BootPanic(f"{self.target.name} panicked before it showed a login prompt: {line}")
            elif before == last_before:
                # No new output, so the console is idle: a newline makes it print its prompt.
                self.console.sendline("")
                answers.expect()
                silence = min(2 * silence, LONGEST_SILENCE_S)
            elif not answers.explain(before, last_before) and not self._logged_in:
                # The board still boots.
                allowed_s = max(allowed_s, self.boot_timeout_s)
            last_before = before
        seen = bytes(last_before or b"").decode("utf-8", "replace").strip().splitlines()
        last = f"; last seen: {seen[-1][:70]!r}" if seen else "; it printed nothing"
        raise TIMEOUT(f"the login did not succeed within {allowed_s:.0f} s{last}")

    def on_deactivate(self) -> None:
        if self._logged_in and self.at_prompt:
            self._logged_in = False
            self.console.sendline("exit")
        super().on_deactivate()
