"""PiStrategy: off -> booted -> ready, by labgrid's GraphStrategy."""

from __future__ import annotations

from typing import Any

import attr
from labgrid.factory import target_factory
from labgrid.strategy import GraphStrategy

from pytest_pinet.errors import ConsoleError, LabError, PowerError
from pytest_pinet.lab.console_login import PiShellDriver
from pytest_pinet.lab.power import Power

_CHECK_EXPORTER = "labgrid-client -p PLACE show: does an exporter serve all of the place's resources?"


@target_factory.reg_driver
@attr.s(eq=False)
class PiStrategy(GraphStrategy):  # type: ignore[misc]  # labgrid is not typed
    """Brings a board up: power, login over the serial console, ssh.

    Binds to:
        power (PowerProtocol), console (ConsoleProtocol), shell (ShellDriver), ssh (SSHDriver)

    ``transition`` starts from off, that is with a power cycle; ``log_in`` and ``connect`` take over a board that has
    power already.
    """

    bindings = {  # noqa: RUF012  (labgrid reads it from the class)
        "power": "PowerProtocol",
        "console": "ConsoleProtocol",
        "shell": "ShellDriver",
        "ssh": "SSHDriver",
    }

    @property
    def node_power(self) -> Power:
        """The power of this board; activates its driver. Raises PowerError."""
        try:
            self.target.activate(self.power)
        except LabError:
            raise
        except Exception as error:
            # Whatever labgrid's drivers let through: no resource, no proxy, no tool that they call.
            raise PowerError(
                f"labgrid cannot use the power switch of {self.target.name}: {type(error).__name__}: {error}",
                _CHECK_EXPORTER,
            ) from error
        return Power(self.target.name, self.power)

    def open_console(self) -> None:
        """Connect to the serial console, without a login. Raises ConsoleError."""
        try:
            self.target.activate(self.console)
        except LabError:
            raise
        except OSError as error:
            # pyserial's SerialException is one.
            raise ConsoleError(
                f"the console server of {self.target.name} at {_address(self.console)} cannot be reached: {error}",
                "the lab's admin: start the console server (ser2net, ...), or free its port if somebody else has it",
            ) from error
        except Exception as error:
            raise ConsoleError(
                f"labgrid cannot open the serial console of {self.target.name}: {type(error).__name__}: {error}",
                _CHECK_EXPORTER,
            ) from error

    def state_off(self) -> None:
        # ssh is let go of first (transition deactivates all drivers): with its link dead it would block.
        self.node_power.switch(on=False)

    @GraphStrategy.depends("off")  # type: ignore[untyped-decorator]
    def state_booted(self) -> None:
        # The console must be open before power comes on, or the boot's first lines are lost.
        self.open_console()
        self.node_power.rest()
        self.node_power.switch(on=True)
        self.target.activate(self.shell)

    @GraphStrategy.depends("booted")  # type: ignore[untyped-decorator]
    def state_ready(self) -> None:
        self.target.activate(self.ssh)

    def log_in(self, timeout_s: float) -> None:
        """Go to booted without touching the power."""
        self.shell.login_timeout = max(1, round(timeout_s))
        try:
            self.open_console()
            self.target.activate(self.shell)
        except Exception:
            self.invalidate()
            raise
        self.path = self.find_abs_path("booted")

    def connect(self, timeout_s: float) -> None:
        """Go from booted to ready."""
        self.ssh.connection_timeout = float(timeout_s)
        try:
            self.target.activate(self.ssh)
        except Exception:
            self.invalidate()
            raise
        self.path = self.find_abs_path("ready")

    def abandon(self) -> None:
        """Let go of a board that is somebody else's by now, without a word on any of its lines."""
        if isinstance(self.shell, PiShellDriver):
            self.shell.abandon()
        self.invalidate()


def _address(console: Any) -> str:
    """``host:port`` of a console server, or the path of a serial device."""
    port: Any = getattr(console, "port", None)
    host = getattr(port, "host", None)
    return f"{host}:{port.port}" if host else str(getattr(port, "port", None) or console)
