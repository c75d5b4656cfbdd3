"""A leased node as the ways of deployment see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_pinet.errors import SshError
from pytest_pinet.lab.deadline import Deadline
from pytest_pinet.shell import Shell, as_root

if TYPE_CHECKING:
    from pytest_pinet.lab.console_record import ConsoleRecord
    from pytest_pinet.lab.node_session import NodeSession
    from pytest_pinet.lab.ssh import SshShell

# systemd kills what does not end within 90 s.
SHUTDOWN_S = 100.0
GONE_POLL_S, GONE_TIMEOUT_S = 0.3, 3.0


class LeasedBoard:
    """Board, by the session of a node."""

    def __init__(self, session: NodeSession) -> None:
        self._session = session

    @property
    def name(self) -> str:
        return self._session.node.name

    @property
    def shell(self) -> SshShell:
        return self._session.shell

    @property
    def boots(self) -> bool:
        return self._session.boots

    @property
    def record(self) -> ConsoleRecord | None:
        return self._session.record

    def reboot(self, command: str) -> None:
        session = self._session
        before = _boot_id(session.shell)
        session.shell.run(as_root(f"{{ {command}; }} </dev/null >/dev/null 2>&1 &"))
        if session.record is not None:
            session.record.note(command)
        deadline = Deadline(SHUTDOWN_S)
        while True:
            if not deadline.wait_until(lambda: _boot_id(session.shell) != before, GONE_POLL_S):
                act = f"look at its console: labgrid-client -p {session.node.place} console"
                raise SshError(f"{self.name} did not go down within {SHUTDOWN_S:.0f} s of '{command}'", act)
            session.await_boot()
            # Silence may have been that of a busy system: it is the next boot that must answer.
            if _boot_id(session.shell) != before:
                return

    def power_cycle(self) -> None:
        self._session.reset()
        self._session.switch_on()
        self._session.log_in()

    def power_off(self) -> None:
        self._session.reset()

    def driver(self, name: str) -> Any:
        return self._session.driver(name)


def _boot_id(shell: Shell) -> str | None:
    """Which boot it is that answers; None where none does."""
    try:
        return shell.run("cat /proc/sys/kernel/random/boot_id", timeout_s=GONE_TIMEOUT_S).stdout.strip() or None
    except SshError:
        return None
