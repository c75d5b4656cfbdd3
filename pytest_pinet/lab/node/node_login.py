"""The login on a node: on its serial console, then over ssh. A node that does not answer gets a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_pinet.errors import ConsoleError, LabError, SshError, first_line
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.lab.console.record import KernelEventKind
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.lab import Node

if TYPE_CHECKING:
    from pytest_pinet.lab.console.record import ConsoleRecord
    from pytest_pinet.lab.labgrid.strategy import PiStrategy

# A booted node answers on its console in well under a second. A booting node may print nothing for a part of its boot.
ANSWER_TIMEOUT_S = 5.0
SILENT_SHARE = 1 / 6
SSH_TIMEOUT_S = 8.0
# For a node with a dead console, before it counts as a node that hangs.
SSH_ALONE_TIMEOUT_S = 5.0


def answer_timeout_s(node: Node) -> float:
    """Return how long a node with power may be silent before it counts as a node that hangs."""
    return max(ANSWER_TIMEOUT_S * node.patience, SILENT_SHARE * node.boot_timeout_s)


def ssh_timeout_s(node: Node) -> float:
    """Return how long a node that shows its login on the console may be silent over ssh."""
    return SSH_TIMEOUT_S * node.patience


class NoAnswer(Exception):
    """The node does not answer; a power cycle may help. ``error`` is raised if the power cycle does not help.

    ``silent`` has the ways that gave no answer: "console", "ssh".
    """

    def __init__(self, error: LabError, silent: frozenset[str] = frozenset()) -> None:
        super().__init__(str(error))
        self.error = error
        self.silent = silent


class NodeLogin:
    """Logs in to one node. ``strategy`` is its PiStrategy.

    ``fence`` returns the start of each command line on the node (lab/lock_agent.py).
    """

    def __init__(self, node: Node, strategy: PiStrategy, fence: Callable[[], str] = lambda: "") -> None:
        self._node = node
        self._strategy = strategy
        self._fence = fence

    @property
    def where_to_look(self) -> str:
        """What a person does to see why the node is silent."""
        if self._strategy.has_login:
            return f"look at the console: labgrid-client -p {self._node.place} console"
        return f"connect a screen or a serial console to {self._node.name} to see why"

    def log_in(self, deadline: Deadline) -> SshShell:
        """Log in on the console and over ssh, and return the shell for commands.

        Raises NoAnswer for a node that is silent; ConsoleError or SshError for one that refuses the login.
        """
        booted_s = self._on_console(deadline) if self._strategy.has_login else float("inf")
        self._over_ssh(deadline, booted_s)
        return self._shell()

    def over_ssh_alone(self) -> SshShell:
        """Log in to a node with a dead console. Raises what labgrid raises if it does not answer."""
        self._strategy.connect_alone(SSH_ALONE_TIMEOUT_S * self._node.patience)
        return self._shell()

    def no_answer(self, trouble: LabError, error: Exception, *silent: str) -> NoAnswer:
        """Return the reason for a node's silence: ``trouble``, or a kernel panic if the console shows one."""
        from pytest_pinet.lab.console.drivers import BootPanic

        # The panic is removed from the record, because it ends with the next boot.
        record = self._record
        panics = record.take([KernelEventKind.PANIC]) if record is not None else []
        if panics or isinstance(error, BootPanic):
            line = str(panics[0]) if panics else first_line(error.__cause__ or error)
            trouble = ConsoleError(f"kernel panic on {self._node.name} while it booted, {line}", trouble.act)
        if record is not None:
            trouble = trouble.with_excerpt(record.excerpt(panics[0]) if panics else record.tail())
            record.take()
        return NoAnswer(trouble, frozenset(silent))

    @property
    def _record(self) -> ConsoleRecord | None:
        record: ConsoleRecord | None = self._strategy.record
        return record

    def _on_console(self, deadline: Deadline) -> float:
        """Log in on the serial console, and return the time since the boot.

        A node that is about to go down still takes a login, and then answers no command. The login of its next boot
        counts.
        """
        from pexpect import TIMEOUT

        from pytest_pinet.lab.console.drivers import BootPanic

        name, act = self._node.name, self.where_to_look
        try:
            while True:
                self._strategy.log_in(deadline.remaining_s, self._node.boot_timeout_s)
                try:
                    # It may have been booted just before this lease.
                    booted_s: float = self._strategy.uptime_s()
                    return booted_s
                except TIMEOUT:
                    if deadline.expired:
                        raise
                    self._strategy.await_boot()
        except (TIMEOUT, BootPanic) as error:
            silent = ("console", "ssh") if isinstance(error, BootPanic) else ("console",)
            why = first_line(error.__cause__ or error)
            trouble = ConsoleError(f"{name} does not answer on its serial console: {why}", act)
            raise self.no_answer(trouble, error, *silent) from error
        except LabError:
            raise
        except Exception as error:
            why = first_line(error.__cause__ or error)
            raise ConsoleError(f"no login over the serial console of {name}: {why}", act) from error

    def _over_ssh(self, deadline: Deadline, booted_s: float) -> None:
        name = self._node.name
        if self._strategy.ssh is None:
            raise LabError(
                f"the target of {name} has no ssh driver",
                f"add PiSSHDriver to it in the lab file, at {self._node.where}",
            )
        try:
            # A booting Pi shows its login prompt before DHCP has given it an address.
            self._strategy.connect(
                max(ssh_timeout_s(self._node), deadline.remaining_s, self._node.boot_timeout_s - booted_s)
            )
        except Exception as error:
            if isinstance(error, LabError) and not self._panicked:
                raise
            why = first_line(error.__cause__ or error)
            trouble = SshError(f"{name} does not answer over ssh: {why}", self.where_to_look)
            raise self.no_answer(trouble, error, "ssh") from error

    @property
    def _panicked(self) -> bool:
        record = self._record
        return record is not None and any(finding.kind is KernelEventKind.PANIC for finding in record.findings)

    def _shell(self) -> SshShell:
        ssh = self._strategy.ssh
        service = ssh.networkservice
        login = ssh.username or service.username
        prefix = ["ssh", "-x", *ssh.ssh_prefix, "-p", str(service.port), "-l", login, service.address, "--"]
        return SshShell(self._node.name, prefix, self._fence(), self._node.patience)
