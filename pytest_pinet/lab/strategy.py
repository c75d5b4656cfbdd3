"""PiStrategy: off -> booted -> ready, by labgrid's GraphStrategy."""

from __future__ import annotations

import attr
from labgrid.factory import target_factory
from labgrid.strategy import GraphStrategy

from pytest_pinet.lab.power import Power


@target_factory.reg_driver
@attr.s(eq=False)
class PiStrategy(GraphStrategy):  # type: ignore[misc]  # labgrid is not typed
    """Brings a board up: power, login over the serial console, ssh.

    Binds to:
        power (PowerProtocol), console (ConsoleProtocol), shell (ShellDriver), ssh (SSHDriver)

    ``transition`` starts from off, that is with a power cycle; ``adopt`` takes over a board that has power already.
    """

    bindings = {  # noqa: RUF012  (labgrid reads it from the class)
        "power": "PowerProtocol",
        "console": "ConsoleProtocol",
        "shell": "ShellDriver",
        "ssh": "SSHDriver",
    }

    @property
    def node_power(self) -> Power:
        """The power of this board; activates its driver."""
        self.target.activate(self.power)
        return Power(self.target.name, self.power)

    def state_off(self) -> None:
        # ssh is let go of first (transition deactivates all drivers): with its link dead it would block.
        self.node_power.switch(on=False)

    @GraphStrategy.depends("off")  # type: ignore[untyped-decorator]
    def state_booted(self) -> None:
        # The console must be open before power comes on, or the boot's first lines are lost.
        self.target.activate(self.console)
        self.node_power.switch(on=True)
        self.target.activate(self.shell)

    @GraphStrategy.depends("booted")  # type: ignore[untyped-decorator]
    def state_ready(self) -> None:
        self.target.activate(self.ssh)

    def adopt(self) -> None:
        """Go to ready without a power cycle, from a board that has power."""
        try:
            for driver in (self.power, self.console, self.shell, self.ssh):
                self.target.activate(driver)
        except Exception:
            self.invalidate()
            raise
        self.path = self.find_abs_path("ready")
