"""What runs a machine. For a virtual machine, it is an init in its own PID, mount, UTS and IPC namespaces."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pytest_pinet.errors import LabError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.virtual.namespaces import NetNamespace, run

# Processes, identified by pid and start time, so that a reused pid is never taken for ours.


_POLL_S = 0.01


@dataclass(frozen=True)
class ProcessId:
    """A pid and the start time of its process (clock ticks since boot, field 22 of ``/proc/PID/stat``)."""

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """Return the process that has this pid now, or None if there is none or only a zombie."""
        stat = _stat(pid)
        if stat is None or stat[0] in ("Z", "X"):
            return None
        return cls(pid, int(stat[19]))

    @property
    def alive(self) -> bool:
        return ProcessId.of(self.pid) == self

    def kill(self, number: int) -> None:
        """Send a signal, by sudo if the process belongs to root and we do not. Does nothing if it has ended."""
        if not self.alive:
            return
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return
        except PermissionError:
            subprocess.run(
                ["sudo", "-n", "kill", f"-{int(number)}", str(self.pid)], check=False, capture_output=True, timeout=10
            )


def hurry(pid: int, with_children: bool = True) -> None:
    """Give real-time priority over all other work to a process and its children, or to its first thread only.

    The priority is a scheduling class, since nice values count only within a session (autogroups). Where it is not
    permitted, nothing happens.
    """
    with suppress(OSError):
        policy = os.SCHED_RR if with_children else os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(pid, policy, os.sched_param(1))


def children_of(pid: int) -> list[int]:
    """Return the pids of the children of ``pid``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            stat = _stat(int(entry.name))
            if stat is not None and int(stat[1]) == pid:
                found.append(int(entry.name))
    return found


def wait_gone(processes: Iterable[ProcessId], timeout_s: float) -> list[ProcessId]:
    """Wait until the processes have ended. Return the processes that still run at the deadline."""
    known = list(processes)
    Deadline(timeout_s).wait_until(lambda: not any(process.alive for process in known), _POLL_S)
    return [process for process in known if process.alive]


def end(processes: Iterable[ProcessId], grace_s: float) -> list[ProcessId]:
    """Send SIGTERM, and SIGKILL after ``grace_s``. Return the processes that survive both."""
    wanted = list(processes)
    for process in wanted:
        process.kill(signal.SIGTERM)
    left = wait_gone(wanted, grace_s)
    for process in left:
        process.kill(signal.SIGKILL)
    return wait_gone(left, grace_s)


def _stat(pid: int) -> list[str] | None:
    """Return the fields of ``/proc/PID/stat`` after the command, which may contain spaces and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()


START_TIMEOUT_S = 5.0
KILL_TIMEOUT_S = 10.0
_END_POLL_S = 0.005
# The PATH of a node, and of the QEMU process of an emulated board.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class MachineProcess(ABC):
    """A process that runs a machine: the first one of a container, or an emulator. It dies with the daemon.

    ``what`` is its name in messages, ``pids`` are the processes that must end before the machine is off.
    """

    def __init__(self, what: str, process: asyncio.subprocess.Process, *pids: int) -> None:
        self._what = what
        self._process = process
        self._pids = pids

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    def identities(self) -> list[ProcessId]:
        """Return the processes that must end before the machine is off."""
        return [identity for pid in self._pids if (identity := ProcessId.of(pid)) is not None]

    async def ended(self) -> str | None:
        """Wait for the end of the machine. Return ``guest-shutdown`` if it shut itself down, else None."""
        return "guest-shutdown" if await self._process.wait() == 0 else None

    async def kill(self) -> None:
        """Switch the power off. Returns when all processes have ended. Raises LabError."""
        if self.running:
            with suppress(ProcessLookupError):
                self._end()
        try:
            await asyncio.wait_for(self._process.wait(), KILL_TIMEOUT_S)
        except TimeoutError:
            raise LabError(f"{self._what} did not end within {KILL_TIMEOUT_S:g} s") from None

    @abstractmethod
    def _end(self) -> None:
        """Kill all processes."""

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    @abstractmethod
    def _signal(self, number: int) -> None:
        """Send a signal to all processes at once."""

    @abstractmethod
    async def set_throttled(self, bits: int) -> None:
        """Set the bits that `vcgencmd get_throttled` reports. Raises LabError if the machine does not support it."""


async def spawn(
    namespace: NetNamespace,
    argv: Sequence[str],
    console: str,
    environment: Mapping[str, str],
    directory: Path | None = None,
    descriptors: Sequence[int] = (),
) -> asyncio.subprocess.Process:
    """Start a program in a network namespace, with input and output on a terminal. It gets the file ``descriptors``."""
    tty = os.open(console, os.O_RDWR | os.O_NOCTTY)
    try:
        return await asyncio.create_subprocess_exec(
            # The kernel kills the program when the daemon dies.
            *("setpriv", "--pdeathsig", "KILL", "nsenter", f"--net={namespace.path}", "--", *argv),
            stdin=tty,
            stdout=tty,
            stderr=tty,
            cwd=directory,
            env={"PATH": PATH, **environment},
            pass_fds=descriptors,
            start_new_session=True,
        )
    finally:
        os.close(tty)


class Container(MachineProcess):
    """A running virtual machine. Its processes die with the daemon, even if the daemon is killed."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, init: int) -> None:
        super().__init__(f"the processes of {name}", process, process.pid, init)
        self.init = init

    @classmethod
    async def start(
        cls,
        name: str,
        namespace: NetNamespace,
        directory: Path,
        environment: Mapping[str, str],
        console: str,
        hurried: bool = False,
    ) -> Container:
        """Run ``node-init.sh`` in ``directory``, with output to ``console``. Raises LabError if it does not start.

        ``hurried`` gives its processes real-time priority.
        """
        script = resources.files("pytest_pinet.virtual").joinpath("node-init.sh")
        # If unshare dies, its child, PID 1, is killed too.
        new = ("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child=KILL")
        process = await spawn(
            namespace,
            [*new, "sh", str(script)],
            console,
            {"NAME": name, "CONSOLE": console, **environment},
            directory,
        )
        if hurried:
            hurry(process.pid)
        deadline = asyncio.get_running_loop().time() + START_TIMEOUT_S
        while not (children := children_of(process.pid)):
            if process.returncode is not None or asyncio.get_running_loop().time() > deadline:
                raise LabError(f"the processes of {name} did not start (exit code {process.returncode})")
            await asyncio.sleep(_END_POLL_S)
        if hurried:
            # The child may have started before the first call, and so without the priority.
            hurry(children[0])
        return cls(name, process, children[0])

    def _end(self) -> None:
        # unshare stops together with PID 1. It must continue to see the end of PID 1, which ends the namespace.
        os.kill(self._process.pid, signal.SIGCONT)
        os.kill(self.init, signal.SIGKILL)

    def _signal(self, number: int) -> None:
        # Inside the namespace, -1 names all processes except PID 1.
        argv = ["nsenter", "--target", str(self.init), "--pid", "sh", "-c", f"kill -{int(number)} -1"]
        try:
            subprocess.run(argv, check=False, capture_output=True, timeout=KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise LabError(f"{self._what} cannot be frozen or continued within {KILL_TIMEOUT_S:g} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.kill(self.init, number)

    async def command(self, argv: Sequence[str]) -> str:
        """Run a command inside the machine. Raises LabError if it fails."""
        return await run(["nsenter", "--target", str(self.init), "--mount", "--net", "--uts", *argv])

    async def set_throttled(self, bits: int) -> None:
        await self.command(["sh", "-c", f"echo {bits:x} >/run/pinet/throttled"])
