"""One leased node: power, console, ssh; and the way back to how it was found."""

from __future__ import annotations

from typing import Any

from pytest_pinet.errors import ConsoleError, LabError, SshError
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.lab import Node

# A booted node answers on its console in well under a second; a hung one never does.
ANSWER_TIMEOUT_S = 5
SSH_TIMEOUT_S = 8.0


class NodeSession:
    """The labgrid target of one node, from the moment its place is leased until it is left.

    ``switch_on`` comes first (so that several nodes boot at once), then ``log_in``; ``leave`` takes both back.
    """

    def __init__(self, node: Node, target: Any) -> None:
        from labgrid.strategy import Strategy

        self.node = node
        self._target = target
        self.strategy = target.get_driver(Strategy, activate=False)
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
        """Make sure that the node has power, without waiting for its boot. Raises PowerError."""
        power = self.strategy.node_power
        on = power.is_on()
        if self._found_on is None:
            # Not again after a first attempt that failed: that one may have switched it on.
            self._found_on = on is True
        if on is not True:
            # The console must be open before power comes on, or the boot's first lines are lost.
            self._target.activate(self.strategy.console)
            power.switch(on=True)

    def log_in(self) -> None:
        """Log in over serial and ssh; a node that had power but does not answer is power-cycled once.

        Raises ConsoleError or SshError.
        """
        if self._found_on:
            try:
                self._adopt(ANSWER_TIMEOUT_S)
                return
            except (ConsoleError, SshError):
                self.strategy.transition("off")
                self.strategy.node_power.switch(on=True)
        self._adopt(self.node.boot_timeout_s)

    def _adopt(self, timeout_s: float) -> None:
        from pexpect import TIMEOUT

        strategy = self.strategy
        strategy.shell.login_timeout = max(1, round(timeout_s))
        strategy.ssh.connection_timeout = SSH_TIMEOUT_S
        name = self.node.name
        act = f"look at the console: labgrid-client -p {self.node.place} console"
        try:
            strategy.adopt()
        except TIMEOUT as error:
            raise ConsoleError(f"{name} does not answer on its serial console: {_first_line(error)}", act) from error
        except LabError:
            raise
        except Exception as error:
            if strategy.shell.get_status() == 1:
                raise SshError(f"{name} does not answer over ssh: {_first_line(error)}", act) from error
            raise ConsoleError(f"no login over the serial console of {name}: {_first_line(error)}", act) from error
        ssh = strategy.ssh
        service = ssh.networkservice
        login = ssh.username or service.username
        prefix = ["ssh", "-x", *ssh.ssh_prefix, "-p", str(service.port), "-l", login, service.address, "--"]
        self._shell = SshShell(name, prefix)

    def leave(self) -> None:
        """Log out, and switch off what was found off."""
        self._shell = None
        self.facts.clear()
        found_off, self._found_on = self._found_on is False, None
        try:
            if found_off:
                self.strategy.transition("off")
        finally:
            self.strategy.invalidate()


def _first_line(error: BaseException) -> str:
    cause = error.__cause__ or error
    lines = str(cause).strip().splitlines()
    return lines[0][:200] if lines else type(cause).__name__
