"""A QEMU process that runs a board."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pytest_pinet.emulated.qmp import Qmp
from pytest_pinet.errors import LabError
from pytest_pinet.virtual.container import PATH
from pytest_pinet.virtual.namespaces import NetNamespace
from pytest_pinet.virtual.processes import ProcessId, hurry

KILL_TIMEOUT_S = 10.0

Arguments = Callable[[int, int], Sequence[str]]


class QemuProcess:
    """A running QEMU. ``asked_for`` is what the guest wrote to the firmware's mailbox before it ended."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, mailbox: socket.socket) -> None:
        self._name = name
        self._process = process
        self._mailbox = mailbox
        self.qmp = Qmp(self._event)
        self.reason: str | None = None
        self.asked_for = b""
        asyncio.get_running_loop().add_reader(mailbox.fileno(), self._listen)

    @classmethod
    async def start(cls, name: str, namespace: NetNamespace, arguments: Arguments, console: str) -> QemuProcess:
        """Start QEMU in a network namespace. Its own messages go to the terminal ``console``.

        ``arguments`` gets the descriptors of QMP and of the mailbox. Raises LabError if QEMU does not start.
        """
        ours, theirs = zip(*(socket.socketpair() for _ in range(2)), strict=True)
        tty = os.open(console, os.O_RDWR | os.O_NOCTTY)
        try:
            process = await asyncio.create_subprocess_exec(
                # The kernel kills QEMU when the daemon dies.
                *("setpriv", "--pdeathsig", "KILL"),
                *("nsenter", f"--net={namespace.path}", "--"),
                *arguments(theirs[0].fileno(), theirs[1].fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=tty,
                stderr=tty,
                env={"PATH": PATH, "LC_ALL": "C.UTF-8"},
                pass_fds=[sock.fileno() for sock in theirs],
                start_new_session=True,
            )
        finally:
            os.close(tty)
            for sock in theirs:
                sock.close()
        for sock in ours:
            sock.setblocking(False)
        # QEMU needs a high priority: while a packet is late the guest is idle, which changes the measured goodput.
        hurry(process.pid, with_children=False)
        started = cls(name, process, ours[1])
        try:
            await started.qmp.connect(ours[0])
        except LabError as error:
            await started.kill()
            raise LabError(f"QEMU of {name} did not start: {error}", f"see the console of {name}") from None
        return started

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    def identities(self) -> list[ProcessId]:
        """Return the processes that must end before the board is off."""
        found = ProcessId.of(self._process.pid)
        return [] if found is None else [found]

    async def ended(self) -> str | None:
        """Wait for the end. Return its reason: ``guest-reset``, ``guest-shutdown``, or None for any other end."""
        await self._process.wait()
        self._listen()
        self._let_go()
        return self.reason

    async def tell_throttled(self, bits: int) -> None:
        """Raise LabError: QEMU is never throttled."""
        raise LabError(f"{self._name} is a machine of QEMU's, which is never throttled")

    async def kill(self) -> None:
        """Switch the power off. Returns when QEMU has ended. Raises LabError."""
        if self.running:
            with suppress(ProcessLookupError):
                self._process.kill()
            try:
                await asyncio.wait_for(self._process.wait(), KILL_TIMEOUT_S)
            except TimeoutError:
                raise LabError(f"QEMU of {self._name} did not end within {KILL_TIMEOUT_S:g} s") from None
        self._let_go()

    def freeze(self) -> None:
        """Stop the QEMU process (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue the QEMU process (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self.running:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _listen(self) -> None:
        if self._mailbox.fileno() < 0:
            return
        try:
            said = self._mailbox.recv(4096)
        except OSError:
            return
        if said:
            self.asked_for = (self.asked_for + said)[-4096:]
        else:
            asyncio.get_running_loop().remove_reader(self._mailbox.fileno())

    def _event(self, name: str, data: Mapping[str, Any]) -> None:
        if name == "SHUTDOWN" and data.get("guest"):
            self.reason = data.get("reason")

    def _let_go(self) -> None:
        self.qmp.close()
        if self._mailbox.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._mailbox.fileno())
            self._mailbox.close()
