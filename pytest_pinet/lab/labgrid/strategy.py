"""PiStrategy: off -> booted -> ready, by labgrid's GraphStrategy, and its driver for ssh."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Callable

import attr
from labgrid.driver.exception import ExecutionError
from labgrid.factory import target_factory
from labgrid.strategy import GraphStrategy

from pytest_pinet.errors import ConfigError, ConsoleError, LabError, PowerError, SshError
from pytest_pinet.lab.console.drivers import PiSerialDriver, PiShellDriver
from pytest_pinet.lab.console.record import ConsoleRecord, KernelEventKind, KernelFinding
from pytest_pinet.lab.labgrid.power import NoPower, Power
from pytest_pinet.lab.labgrid_private import SSHDriverWithHooks

CLOSE_TIMEOUT_S = 2.0


class SshRefused(SshError):
    """The node answers over ssh, but refuses the login."""


def _is_own(record: logging.LogRecord) -> bool:
    """Return whether a message is not a copy of ssh's output.

    labgrid logs each line of each try as a warning. While a node boots, these are hundreds of "Connection refused",
    which are expected. The error of the last try has ssh's words.
    """
    return not str(record.msg).startswith("ssh: ")


@target_factory.reg_driver
@attr.s(eq=False)
class PiSSHDriver(SSHDriverWithHooks):
    """An SSHDriver that is deactivated within seconds, whatever state the node is in.

    If the link is dead, labgrid's driver waits up to two minutes for its keepalive process. It also retries refused
    credentials until its timeout; here activation raises SshError when the node refuses the login.

    Binds to:
        networkservice (NetworkService)
    Implements:
        CommandProtocol, FileTransferProtocol
    Arguments:
        as SSHDriver
    """

    _given_up = False

    def on_activate(self) -> None:
        self._given_up = False
        super().on_activate()

    def give_up(self) -> None:
        """End an activation at once while it waits for an answer. Other threads may call this."""
        self._given_up = True
        if self.process is not None and self.process.poll() is None:
            self.process.kill()

    def start_master(self, start: Callable[[], str]) -> str:
        if self._given_up:
            raise SshError(f"{self.target.name}: stopped waiting for ssh, because its kernel panicked")
        self.logger.addFilter(_is_own)
        try:
            return start()
        except ExecutionError as error:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            shutil.rmtree(self.tmpdir, ignore_errors=True)
            said = [line.decode("utf-8", "replace").strip() for line in error.stdout or () if line.strip()]
            if any("Permission denied" in line for line in said):
                raise SshRefused(
                    f"{self.target.name}: ssh refused {self.login}: {said[-1]}",
                    "correct user, password or keyfile of the ssh driver in the lab file, or add the key on the node",
                ) from None
            # Report ssh's own message instead of its command line.
            raise ExecutionError(f"{self.login}: {said[-1] if said else error.msg}") from None
        finally:
            self.logger.removeFilter(_is_own)

    def end_keepalive(self, keepalive: subprocess.Popen[str]) -> None:
        keepalive.kill()
        keepalive.wait()
        # Do not read to the end: the ssh master also holds the pipe, until the far end answers.
        for stream in (keepalive.stdin, keepalive.stdout):
            if stream is not None:
                stream.close()

    def end_master(self, ssh: str) -> None:
        # "-O exit" talks to the master process on this machine, never to the node.
        command = [ssh, "-F", "none", "-o", f"ControlPath={self.control}", "-O", "exit", "node"]
        try:
            subprocess.run(command, capture_output=True, timeout=CLOSE_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            self.logger.warning("the ssh master of %s did not end", self.target.name)
        self.process.stdout.close()
        shutil.rmtree(self.tmpdir, ignore_errors=True)


# A login that has just shown its prompt answers at once.
CONSOLE_TIMEOUT_S = 10.0
_CHECK_EXPORTER = "labgrid-client -p PLACE show: check that an exporter serves all resources of the place"


@target_factory.reg_driver
@attr.s(eq=False)
class PiStrategy(GraphStrategy):  # type: ignore[misc]  # labgrid is not typed
    """Brings a board up: power, login over the serial console, ssh.

    Binds to:
        power (PowerProtocol), console (ConsoleProtocol), shell (ShellDriver), ssh (SSHDriver), each optional; a board
        needs a shell or ssh

    ``transition`` starts from off, that is with a power cycle. ``force`` takes a board as it is.
    """

    bindings = {  # noqa: RUF012  (labgrid reads it from the class)
        # A board on a desk often has only ssh.
        "power": {"PowerProtocol", None},
        "console": {"ConsoleProtocol", None},
        "shell": {"ShellDriver", None},
        # A node that is reached by its console needs none.
        "ssh": {"SSHDriver", None},
    }
    _power: Power | NoPower | None = None
    _patience = 1.0

    def be_patient(self, patience: float) -> None:
        """Let each answer of the power switch take ``patience`` times as long as usual (``Node.patience``)."""
        self._patience = patience

    @property
    def node_power(self) -> Power | NoPower:
        """The power of this board; activates its driver. Raises PowerError."""
        if self.power is None:
            return NoPower(self.target.name)
        try:
            self.target.activate(self.power)
        except LabError:
            raise
        except Exception as error:
            # labgrid's drivers also raise other errors: a missing resource, proxy or tool.
            raise PowerError(
                f"labgrid cannot use the power switch of {self.target.name}: {type(error).__name__}: {error}",
                _act(self.power),
            ) from error
        if self._power is None:
            self._power = Power(self.target.name, self.power, self._patience)
        return self._power

    @property
    def has_login(self) -> bool:
        """Whether the lab file says how to log in on the serial console of this board."""
        return self.shell is not None

    @property
    def has_power(self) -> bool:
        """Whether the lab file says how to switch the power of this board."""
        return self.power is not None

    @property
    def record(self) -> ConsoleRecord | None:
        """The record of what the console printed; None if the lab file uses labgrid's own SerialDriver."""
        record = getattr(self.console, "record", None)
        return record if isinstance(record, ConsoleRecord) else None

    def open_console(self) -> None:
        """Connect to the serial console, if the board has one, without a login. Raises ConsoleError."""
        if self.console is None:
            return
        try:
            self.target.activate(self.console)
        except LabError:
            raise
        except OSError as error:
            # pyserial's SerialException is an OSError.
            raise ConsoleError(
                f"the console server of {self.target.name} at {_address(self.console)} cannot be reached: {error}",
                "the lab's admin: start the console server (ser2net, ...), or disconnect its other client",
            ) from error
        except Exception as error:
            raise ConsoleError(
                f"labgrid cannot open the serial console of {self.target.name}: {type(error).__name__}: {error}",
                _act(self.console),
            ) from error

    # -- states ---------------------------------------------------------------------------------------------------

    def state_off(self) -> None:
        # `transition` has deactivated ssh before, as all drivers: with a dead link, ssh would block.
        self.node_power.switch(on=False)
        if self.record is not None:
            self.record.restarted()
            self.record.note("power off")

    @GraphStrategy.depends("off")  # type: ignore[untyped-decorator]
    def state_booted(self) -> None:
        self.switch_on()
        self._activate_shell()

    def _activate_shell(self) -> None:
        if self.shell is not None:
            self.target.activate(self.shell)

    @GraphStrategy.depends("booted")  # type: ignore[untyped-decorator]
    def state_ready(self) -> None:
        self.target.activate(self.ssh)

    def force(self, state: str) -> None:
        """Assume that the board is in this state, without switching power. Raises ConfigError for an unknown state.

        ``booted`` and ``ready`` log in, within the timeouts of the drivers; ``off`` checks nothing.
        """
        if state not in self.states:
            raise ConfigError(f"PiStrategy has no state {state!r}; accepted: {', '.join(sorted(self.states))}")
        path = self.find_abs_path(state)
        try:
            if "booted" not in path:
                self.target.deactivate_all_drivers()
            else:
                self.open_console()
                self._activate_shell()
            if "ready" in path:
                self.target.activate(self.ssh)
        except Exception:
            self.invalidate()
            raise
        self.path = path

    # -- single steps of a boot, so that several boards boot at the same time -------------------------------------

    def switch_on(self) -> None:
        """Switch the power on with the console open; do not wait for the boot. Raises PowerError or ConsoleError."""
        # The console must be open before the power is on, or the first lines of the boot are lost.
        self.open_console()
        self.node_power.rest()
        if self.record is not None:
            self.record.note("power on")
        self.node_power.switch(on=True)
        # It is no longer in the state `off`, so that `transition` can switch it off again.
        self.path = []

    def await_boot(self) -> None:
        """Prepare for a boot that the board starts by itself: drop ssh and the login; the console is still recorded."""
        if isinstance(self.shell, PiShellDriver):
            self.shell.abandon()
        for driver in filter(None, (self.ssh, self.shell)):
            self.target.deactivate(driver)
        if isinstance(self.console, PiSerialDriver):
            self.console.forget_backlog()
        elif self.console is not None:
            self.target.deactivate(self.console)
        self.path = []

    def log_in(self, timeout_s: float, boot_timeout_s: float = 0.0) -> None:
        """Go to ``booted`` without switching power. With PiShellDriver, a board that prints has ``boot_timeout_s``."""
        self.shell.login_timeout = max(1, round(timeout_s))
        self.shell.boot_timeout_s = boot_timeout_s
        self.force("booted")

    def uptime_s(self) -> float:
        """Return the time since the boot, by the login on the console. Raises pexpect.TIMEOUT."""
        _, output = self.run_on_console("cat /proc/uptime", CONSOLE_TIMEOUT_S)
        first = output.partition(" ")[0]
        try:
            return float(first)
        except ValueError:
            return float("inf")

    def run_on_console(self, command: str, timeout_s: float) -> tuple[int, str]:
        """Run a command in the login on the console; return its exit status and output. Raises pexpect.TIMEOUT."""
        output, _, status = self.shell.run(command, timeout=timeout_s)
        return int(status), "\n".join(output)

    def connect(self, timeout_s: float) -> None:
        """Go from ``booted`` to ``ready``; end at once when the kernel panics."""
        self._bound_ssh(timeout_s)
        record = self.record
        if record is None or not isinstance(self.ssh, PiSSHDriver):
            self.force("ready")
            return

        def end_at_panic(finding: KernelFinding) -> None:
            if finding.kind is KernelEventKind.PANIC:
                self.ssh.give_up()

        with record.listening(end_at_panic):
            self.force("ready")

    def connect_alone(self, timeout_s: float) -> None:
        """Connect over ssh without a login on the console."""
        self._bound_ssh(timeout_s)
        self.target.activate(self.ssh)

    def _bound_ssh(self, timeout_s: float) -> None:
        self.ssh.connection_timeout = float(timeout_s)

    def abandon(self) -> None:
        """Leave a board whose lease was lost, without sending anything to it."""
        if isinstance(self.shell, PiShellDriver):
            self.shell.abandon()
        self.invalidate()


def _act(driver: object) -> str:
    """Return what to check when labgrid cannot use a driver, which may reach its device through another machine."""
    extra = getattr(getattr(driver, "port", None), "extra", None) or {}
    if extra.get("proxy_required"):
        return f"check that `ssh {extra.get('proxy')}` works here without a question (~/.ssh/config, known_hosts)"
    return _CHECK_EXPORTER


def _address(console: object) -> str:
    """Return ``host:port`` of a console server, or the path of a serial device."""
    port = getattr(console, "port", None)
    host, number = getattr(port, "host", None), getattr(port, "port", None)
    return f"{host}:{number}" if host else str(number or console)
