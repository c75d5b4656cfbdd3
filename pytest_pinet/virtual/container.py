"""The processes of one virtual machine: an init in its own PID, mount, UTS and IPC namespaces."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.namespaces import NetNamespace, run
from pytest_pinet.virtual.processes import ProcessId, children_of, hurry

START_TIMEOUT_S = 5.0
KILL_TIMEOUT_S = 10.0
_POLL_S = 0.005
# The PATH of a node, and of the QEMU process of an emulated board.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Container:
    """A running virtual machine. Its processes die with the daemon, even if the daemon is killed."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, init: int) -> None:
        self._name = name
        self._process = process
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
        tty = os.open(console, os.O_RDWR | os.O_NOCTTY)
        try:
            process = await asyncio.create_subprocess_exec(
                # The kernel kills unshare when the daemon dies. Then unshare's child, PID 1, is killed too.
                *("setpriv", "--pdeathsig", "KILL"),
                *("nsenter", f"--net={namespace.path}"),
                *("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child=KILL"),
                *("sh", str(script)),
                stdin=tty,
                stdout=tty,
                stderr=tty,
                cwd=directory,
                env={"PATH": PATH, "NAME": name, "CONSOLE": console, **environment},
                start_new_session=True,
            )
        finally:
            os.close(tty)
        if hurried:
            hurry(process.pid)
        deadline = asyncio.get_running_loop().time() + START_TIMEOUT_S
        while not (children := children_of(process.pid)):
            if process.returncode is not None or asyncio.get_running_loop().time() > deadline:
                raise LabError(f"the processes of {name} did not start (exit code {process.returncode})")
            await asyncio.sleep(_POLL_S)
        if hurried:
            # The child may have started before the first call, and so without the priority.
            hurry(children[0])
        return cls(name, process, children[0])

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    def identities(self) -> list[ProcessId]:
        """Return the processes that must end before the machine is off."""
        found = (ProcessId.of(pid) for pid in (self._process.pid, self.init))
        return [identity for identity in found if identity is not None]

    async def kill(self) -> None:
        """Switch the power off: SIGKILL to PID 1 ends all processes of the namespace. Returns when all have ended."""
        for pid, number in ((self.init, signal.SIGKILL), (self._process.pid, signal.SIGCONT)):
            try:
                if self.running:
                    os.kill(pid, number)
            except ProcessLookupError:
                pass
        try:
            await asyncio.wait_for(self._process.wait(), KILL_TIMEOUT_S)
        except TimeoutError:
            raise LabError(f"the processes of {self._name} did not end within {KILL_TIMEOUT_S:g} s") from None

    def freeze(self) -> None:
        """Stop every process, including PID 1, until no running process is left that could start another."""
        stopped: set[int] = set()
        while fresh := set(self._members()) - stopped:
            self._signal(fresh, signal.SIGSTOP)
            stopped |= fresh

    def thaw(self) -> None:
        """Continue every process."""
        self._signal(set(self._members()), signal.SIGCONT)

    async def command(self, argv: Sequence[str]) -> str:
        """Run a command inside the machine. Raises LabError if it fails."""
        return await run(["nsenter", "--target", str(self.init), "--mount", "--net", "--uts", *argv])

    async def set_throttled(self, bits: int) -> None:
        """Set the bits that `vcgencmd get_throttled` reports. Raises LabError."""
        await self.command(["sh", "-c", f"echo {bits:x} >/run/pinet/throttled"])

    def _members(self) -> list[int]:
        members = []
        try:
            own = Path(f"/proc/{self.init}/ns/pid").readlink()
        except OSError:
            return []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if (entry / "ns" / "pid").readlink() == own:
                        members.append(int(entry.name))
                except OSError:
                    continue  # the process ended in the meantime
        return members

    def _signal(self, pids: set[int], number: int) -> None:
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
