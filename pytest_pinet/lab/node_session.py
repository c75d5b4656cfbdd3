"""One leased node: power, console, ssh; and the way back to how it was found."""

from __future__ import annotations

from typing import Any

from pytest_pinet.errors import ConsoleError, LabError, SshError
from pytest_pinet.lab.deadline import Deadline
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.lab import Node

# A booted node answers on its console in well under a second; a hung one never does.
ANSWER_TIMEOUT_S = 5
SSH_TIMEOUT_S = 8.0


class _SilentConsole(ConsoleError):
    """Nobody answers on the console; a power cycle may help."""


class _SilentSsh(SshError):
    """Nobody answers over ssh; a power cycle may help."""


class NodeSession:
    """The labgrid target of one node, from the moment its place is leased until it is left.

    ``switch_on`` comes first (so that several nodes boot at once), then ``log_in``; ``leave`` takes both back.
    """

    def __init__(self, node: Node, target: Any) -> None:
        from labgrid.strategy import Strategy

        self.node = node
        self._target = target
        self.strategy = target.get_driver(Strategy, activate=False)
        self._met = False
        self._found_on: bool | None = None
        self._shell: SshShell | None = None
        self.facts: dict[str, Any] = {}

    @property
    def shell(self) -> SshShell:
        """The node over ssh; only between ``log_in`` and ``leave``."""
        assert self._shell is not None, "log_in comes before shell"
        return self._shell

    @property
    def ready(self) -> bool:
        return self._shell is not None

    def switch_on(self) -> None:
        """Make sure that the node has power, without waiting for its boot. Raises PowerError or ConsoleError.

        Where the power switch cannot tell, ``log_in`` finds out.
        """
        power = self.strategy.node_power
        on = power.is_on()
        if not self._met:
            # Not again after a first attempt that failed: that one may have switched it on.
            self._met, self._found_on = True, on
        if on is False:
            # The console must be open before power comes on, or the boot's first lines are lost.
            self.strategy.open_console()
            power.switch(on=True)

    def log_in(self) -> None:
        """Log in over serial and ssh; a node that may have had power but does not answer is power-cycled once.

        Raises ConsoleError or SshError, at once where the node answers but refuses.
        """
        if self._found_on is not False:
            try:
                self._adopt(ANSWER_TIMEOUT_S)
                return
            except (_SilentConsole, _SilentSsh):
                self.strategy.transition("off")
                self.strategy.node_power.rest()
                self.strategy.open_console()
                self.strategy.node_power.switch(on=True)
        self._adopt(self.node.boot_timeout_s)

    def _adopt(self, timeout_s: float) -> None:
        from pexpect import TIMEOUT

        name = self.node.name
        act = f"look at the console: labgrid-client -p {self.node.place} console"
        deadline = Deadline(timeout_s)
        try:
            self.strategy.log_in(timeout_s)
        except TIMEOUT as error:
            message = f"{name} does not answer on its serial console: {_first_line(error)}"
            raise _SilentConsole(message, act) from error
        except LabError:
            raise
        except Exception as error:
            raise ConsoleError(f"no login over the serial console of {name}: {_first_line(error)}", act) from error
        try:
            # A booting Pi shows its login prompt before DHCP has given it an address.
            self.strategy.connect(max(SSH_TIMEOUT_S, deadline.remaining_s))
        except LabError:
            raise
        except Exception as error:
            raise _SilentSsh(f"{name} does not answer over ssh: {_first_line(error)}", act) from error
        ssh = self.strategy.ssh
        service = ssh.networkservice
        login = ssh.username or service.username
        prefix = ["ssh", "-x", *ssh.ssh_prefix, "-p", str(service.port), "-l", login, service.address, "--"]
        self._shell = SshShell(name, prefix)

    def leave(self) -> None:
        """Log out, and switch off what was found off."""
        found_off = self._forget()
        try:
            if found_off:
                self.strategy.transition("off")
        finally:
            self.strategy.invalidate()

    def abandon(self) -> bool:
        """Let go of a node that is somebody else's by now; whether it stays on although it was found off."""
        stays_on = self._forget()
        self.strategy.abandon()
        return stays_on

    def _forget(self) -> bool:
        """Start afresh with the next lease; whether the node was found off."""
        found_off = self._met and self._found_on is False
        self._met, self._found_on, self._shell = False, None, None
        self.facts.clear()
        return found_off


def _first_line(error: BaseException) -> str:
    cause = error.__cause__ or error
    lines = str(cause).strip().splitlines()
    return lines[0][:200] if lines else type(cause).__name__
