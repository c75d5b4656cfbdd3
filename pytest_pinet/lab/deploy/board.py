"""A leased node as a board for deployment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from pytest_pinet.errors import ShutdownError, SshError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Shell, as_root

if TYPE_CHECKING:
    from pytest_pinet.lab.console.record import ConsoleRecord
    from pytest_pinet.lab.ssh import SshShell
    from pytest_pinet.model.lab import Node

# A session of Raspberry Pi OS may take 2 min to stop (pi-gen issue 836).
SHUTDOWN_S = 150.0
GONE_POLL_S, GONE_TIMEOUT_S = 0.3, 3.0
BEFORE_TIMEOUT_S = 30.0
_BOOT_ID = "cat /proc/sys/kernel/random/boot_id && sed 's/.*) //' /proc/1/stat | cut -d' ' -f20"
# How often a board may take a login without an answer of the next boot after it.
MOST_LOGINS = 50


class BoardSession(Protocol):
    """The part of a node's session that deployment needs."""

    node: Node
    boots: bool
    warnings: list[str]

    @property
    def shell(self) -> SshShell: ...

    @property
    def record(self) -> ConsoleRecord | None: ...

    @property
    def where_to_look(self) -> str: ...

    @property
    def has_power(self) -> bool: ...

    @property
    def lock_for_trial(self) -> Callable[[], None]: ...

    def await_boot(self) -> None: ...

    def reset(self) -> None: ...

    def hang(self) -> None: ...

    def switch_on(self) -> None: ...

    def log_in(self) -> None: ...

    def driver(self, name: str) -> Any: ...


class LeasedBoard:
    """The DeployableBoard of a node's session."""

    def __init__(self, session: BoardSession) -> None:
        self._session = session
        self.name = session.node.name
        self.model = session.node.board.name
        self.boots = session.boots
        self.has_power = session.has_power
        self.boot_timeout_s = session.node.boot_timeout_s
        self.driver = session.driver
        self.power_off = session.reset

    @property
    def shell(self) -> SshShell:
        return self._session.shell

    def warn(self, warning: str) -> None:
        self._session.warnings.append(warning)

    @property
    def record(self) -> ConsoleRecord | None:
        return self._session.record

    def lock_for_trial(self) -> None:
        self._session.lock_for_trial()

    def reboot(self, command: str) -> None:
        session = self._session
        # A busy board may take long for this answer. Without it, any later one would look like that of the next boot.
        before = session.shell.run(_BOOT_ID, timeout_s=BEFORE_TIMEOUT_S).stdout.strip()
        session.shell.run(as_root(f"{{ {command}; }} </dev/null >/dev/null 2>&1 &"))
        if session.record is not None:
            session.record.note(command)
        deadline = Deadline(SHUTDOWN_S)
        for _ in range(MOST_LOGINS):
            if not deadline.wait_until(lambda: boot_id(session.shell) != before, GONE_POLL_S):
                session.hang()
                message = f"{self.name} did not shut down within {SHUTDOWN_S:.0f} s after '{command}'"
                raise ShutdownError(message, session.where_to_look)
            session.await_boot()
            # The silence may come from a busy system, which goes down after this login. Only an answer of the next boot
            # counts.
            if boot_id(session.shell) not in (before, None):
                return
        raise SshError(f"{self.name} takes ssh connections, but runs no command", session.where_to_look)

    def power_cycle(self) -> None:
        self._session.reset()
        self._session.switch_on()
        self._session.log_in()


def boot_id(shell: Shell) -> str | None:
    """Return the id of the boot that answers, or None if there is no answer.

    A board in a container has the boot id of its host. Its first process has its own start time.
    """
    try:
        return shell.run(_BOOT_ID, timeout_s=GONE_TIMEOUT_S).stdout.strip() or None
    except SshError:
        return None
