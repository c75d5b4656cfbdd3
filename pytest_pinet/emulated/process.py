"""A QEMU process that runs a board, and its control by QMP."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.container import MachineProcess, spawn
from pytest_pinet.virtual.namespaces import NetNamespace
from pytest_pinet.virtual.processes import hurry

ANSWER_TIMEOUT_S = 10.0
_LARGEST_LINE = 1 << 20

Arguments = Callable[[tuple[int, int]], Sequence[str]]


class Qmp:
    """A connection to QEMU's control protocol: JSON lines. ``on_event`` gets the name and the data of each event."""

    def __init__(self, on_event: Callable[[str, Mapping[str, object]], None]) -> None:
        self._on_event = on_event
        self._answers: asyncio.Queue[Mapping[str, object]] = asyncio.Queue()
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def connect(self, sock: socket.socket) -> None:
        """Open the connection on our end of the socket pair. Raises LabError if QEMU does not answer."""
        reader, self._writer = await asyncio.open_connection(sock=sock, limit=_LARGEST_LINE)
        self._task = asyncio.get_running_loop().create_task(self._listen(reader))
        await self.run("qmp_capabilities")

    async def run(self, command: str, **arguments: object) -> object:
        """Run a command and return QEMU's answer. Raises LabError."""
        if self._writer is None:
            raise LabError(f"QEMU has ended, so it cannot run {command}")
        async with self._lock:
            with suppress(ConnectionError):
                request = {"execute": command, "arguments": arguments}
                self._writer.write(json.dumps(request).encode() + b"\n")
                await self._writer.drain()
            try:
                answer = await asyncio.wait_for(self._answers.get(), ANSWER_TIMEOUT_S)
            except TimeoutError:
                raise LabError(f"QEMU did not answer the command {command} within {ANSWER_TIMEOUT_S:g} s") from None
        if "error" in answer:
            error = answer["error"]
            reason = error.get("desc") if isinstance(error, Mapping) else error
            raise LabError(f"QEMU refused the command {command}: {reason}")
        return answer.get("return")

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._writer is not None:
            self._writer.close()
        self._task = self._writer = None

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError, ValueError):
            while line := await reader.readline():
                message = json.loads(line)
                if "event" in message:
                    self._on_event(message["event"], message.get("data", {}))
                elif "QMP" not in message:  # the greeting
                    self._answers.put_nowait(message)
        self._answers.put_nowait({"error": {"desc": "QEMU has ended"}})


class QemuProcess(MachineProcess):
    """A running QEMU. ``mailbox_text`` is what the guest wrote to the firmware's mailbox before it ended."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, mailbox: socket.socket) -> None:
        super().__init__(f"QEMU of {name}", process, process.pid)
        self._name = name
        self._mailbox = mailbox
        self.qmp = Qmp(self._event)
        self.reason: str | None = None
        self.mailbox_text = b""
        asyncio.get_running_loop().add_reader(mailbox.fileno(), self._listen)

    @classmethod
    async def start(cls, name: str, namespace: NetNamespace, arguments: Arguments, console: str) -> QemuProcess:
        """Start QEMU in a network namespace. Its own messages go to the terminal ``console``.

        ``arguments`` gets the descriptors of QMP and of the mailbox. Raises LabError if QEMU does not start.
        """
        ours, theirs = zip(*(socket.socketpair() for _ in range(2)), strict=True)
        try:
            descriptors = (theirs[0].fileno(), theirs[1].fileno())
            argv = arguments(descriptors)
            process = await spawn(namespace, argv, console, {"LC_ALL": "C.UTF-8"}, descriptors=descriptors)
        finally:
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
            raise LabError(f"QEMU of {name} did not start: {error}", f"look at the console of {name}") from None
        return started

    async def ended(self) -> str | None:
        """Wait for the end. Return its reason: ``guest-reset``, ``guest-shutdown``, or None for any other end."""
        await self._process.wait()
        self._listen()
        self._release()
        return self.reason

    async def set_throttled(self, bits: int) -> None:
        raise LabError(f"{self._name} runs in QEMU, which cannot report throttling")

    async def kill(self) -> None:
        await super().kill()
        self._release()

    def _end(self) -> None:
        self._process.kill()

    def _signal(self, number: int) -> None:
        if self.running:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _listen(self) -> None:
        if self._mailbox.fileno() < 0:
            return
        try:
            text = self._mailbox.recv(4096)
        except OSError:
            return
        if text:
            self.mailbox_text = (self.mailbox_text + text)[-4096:]
        else:
            asyncio.get_running_loop().remove_reader(self._mailbox.fileno())

    def _event(self, name: str, data: Mapping[str, object]) -> None:
        if name == "SHUTDOWN" and data.get("guest"):
            reason = data.get("reason")
            self.reason = None if reason is None else str(reason)

    def _release(self) -> None:
        self.qmp.close()
        if self._mailbox.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._mailbox.fileno())
            self._mailbox.close()
