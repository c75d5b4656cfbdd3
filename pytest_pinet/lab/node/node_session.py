"""The session on one leased node: power, console, ssh, and restoring the node to the state in which it was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_pinet.errors import ConsoleError, LabError, ShutdownError, SshError, UnsupportedError, first_line
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import as_root
from pytest_pinet.lab.console.record import ConsoleRecord, KernelEventKind, KernelFinding
from pytest_pinet.lab.lease import TrialLocks
from pytest_pinet.lab.node.guard import Guard, stop_all
from pytest_pinet.lab.node.node_login import NoAnswer, NodeLogin, answer_timeout_s
from pytest_pinet.lab.node.shutdown import BEFORE_TIMEOUT_S, BOOT_ID, GONE_POLL_S, SHUTDOWN_S, Shutdown, boot_id
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.lab import Node
from pytest_pinet.model.tuning import Tuning
from pytest_pinet.tuning.journal import Replayed, replay
from pytest_pinet.tuning.setting import NoKnob, SettingReading

if TYPE_CHECKING:
    from pytest_pinet.lab.deploy.deployment import Deployment


# How often a board may take a login without an answer of the next boot after it.
MOST_LOGINS = 50


def strategy_of(target: Any) -> Any:
    """Return the strategy of a labgrid target, which is a PiStrategy (``labgrid/targets.py`` checks it)."""
    from labgrid.strategy import Strategy

    return target.get_driver(Strategy, activate=False)


class NodeSession:
    """The labgrid target of one node, from the lease of its place until it is left; a DeployableBoard.

    ``switch_on`` comes first, so that several nodes boot at the same time, then ``log_in``. ``leave`` undoes both.
    ``announce`` takes a sentence that the user must read at once. ``locks`` has the locks for trial boots.
    """

    # Whether this session can boot the node.
    boots = True
    # What was tried when a silent node stays silent.
    last_attempt = "also after a power cycle"

    def __init__(
        self,
        node: Node,
        target: Any,
        announce: Callable[[str], None] = lambda _: None,
        locks: TrialLocks | None = None,
    ) -> None:
        self.node = node
        self.target = target
        self.announce = announce
        self._locks = locks
        self.strategy = strategy_of(target)
        self.login = NodeLogin(node, self.strategy, self._fence)
        # None until the power switch was read.
        self._found_off: bool | None = None
        self._boot: Deadline | None = None
        self._shell: SshShell | None = None
        self.facts: dict[str, Any] = {}
        self._guard: Guard | None = None
        # The next use must boot the node, even if it has power.
        self.reset_due = False
        # Whether the node was booted for this lease and has not been used since.
        self.fresh = False
        # The settings that were read before the boot tuning, by interface, then by setting.
        self.boot_before: Mapping[str, Mapping[str, SettingReading]] = {}
        self._deployment: Deployment | None = None
        # The errors of boot tunings with which the node did not come up, for all leases of this run.
        self._failed_tunings: dict[Tuning, LabError] = {}
        self.warnings: list[str] = []
        self._shutdown = Shutdown(node.name, self.strategy, self.login.over_ssh_alone, self.warn)
        # Whether we have cut the power and not switched it on since.
        self._cut = False
        # Whether the node still runs what we have removed; None until ``begin_leave``.
        self._stale: bool | None = None

    def warn(self, warning: str) -> None:
        self.warnings.append(warning)

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def model(self) -> str:
        return self.node.board.name

    @property
    def boot_timeout_s(self) -> float:
        return self.node.boot_timeout_s

    def _fence(self) -> str:
        return self._locks.fence(self.node) if self._locks is not None else ""

    def lock_for_trial(self) -> None:
        """Take the lock on the board that the guard of a trial reads. Raises LeaseError, SshError."""
        if self._locks is not None:
            self._locks.hold(self.node, self.shell)

    def require_boot(self) -> None:
        """Make the next use boot the node, even if it has power."""
        self.reset_due = True

    def begin_use(self) -> None:
        """Note that the boot of this lease is used now."""
        self.fresh = False

    @property
    def deployment(self) -> Deployment:
        """Deploys builds under test on this node."""
        if self._deployment is None:
            from pytest_pinet.lab.deploy.deployment import Deployment

            self._deployment = Deployment(self, self._failed_tunings)
        return self._deployment

    @property
    def boot_tuning(self) -> Tuning:
        return self._deployment.tuning if self._deployment is not None else Tuning()

    def driver(self, name: str) -> Any:
        """Return the active labgrid driver of this class, or None if the lab file has no such driver for this node."""
        from labgrid.exceptions import NoDriverFoundError

        try:
            return self.target.get_driver(name)
        except NoDriverFoundError:
            return None
        except Exception as error:
            raise LabError(f"labgrid cannot use the {name} of {self.node.name}: {first_line(error)}") from error

    @property
    def shell(self) -> SshShell:
        """The shell of the node over ssh; only between ``log_in`` and ``leave``."""
        assert self._shell is not None, "log_in comes before shell"
        return self._shell

    @property
    def guard(self) -> Guard:
        """The guard that undoes all changes of this lease on the node, if this run ends without its undo."""
        if self._guard is None:
            self._guard = Guard(self.shell)
        return self._guard

    @property
    def ready(self) -> bool:
        return self._shell is not None

    @property
    def has_power(self) -> bool:
        return bool(self.strategy.has_power)

    @property
    def halts(self) -> bool:
        """Whether the node was requested to halt and still has power."""
        return self._shutdown.begun

    @property
    def where_to_look(self) -> str:
        """What a person does to see why the node is silent."""
        return self.login.where_to_look

    @property
    def record(self) -> ConsoleRecord | None:
        """The record of what the console printed, or None if nothing records the console."""
        record: ConsoleRecord | None = self.strategy.record
        return record

    def reset(self) -> None:
        """Shut the node down and cut its power; ``switch_on`` boots it again. Raises PowerError, ShutdownError."""
        self._read_power()
        self._power_off()
        self._forget_boot()
        self.reset_due = False

    def begin_reset_if_due(self) -> None:
        """Request the halt if a boot is due, so that several nodes shut down at the same time."""
        if self.boots and self.reset_due:
            self._read_power()
            self._begin_shutdown()

    def hang(self) -> None:
        """Note that the running system hangs, so that its power may be cut without a shutdown."""
        self._shutdown.is_silent("console", "ssh")
        self._shell = None

    def _begin_shutdown(self) -> None:
        assert self.boots, "the machine that runs pytest is never shut down"
        if self.strategy.path == ["off"] or self.strategy.node_power.is_on() is False:
            return
        boot_s = self._boot.remaining_s if self._boot is not None else 0.0
        self._shutdown.begin(self._shell, max(answer_timeout_s(self.node), boot_s))
        self._shell = None

    def _power_off(self) -> None:
        """Cut the power: of a running system after its halt, of a system that hangs at once."""
        if not self.boots:
            return
        self._begin_shutdown()
        self._shutdown.finish()
        self._shell = None
        self.strategy.transition("off")
        self._cut = True
        self._shutdown.clear()

    def reset_if_due(self) -> None:
        if self.reset_due:
            self.reset()

    def _forget_boot(self) -> None:
        """Forget what is true for one boot only."""
        self.facts.clear()
        if self._guard is not None:
            self._guard.abandon()
            self._guard = None

    def _read_power(self) -> bool | None:
        """Return whether the node has power. The first answer of each lease says how the node was found."""
        on: bool | None = self.strategy.node_power.is_on()
        if self._found_off is None:
            # Only the first answer counts: a failed first attempt may have switched the node on.
            self._found_off = on is False
        return on

    def switch_on(self) -> None:
        """Make sure that the node has power, without waiting for its boot. Raises PowerError or ConsoleError.

        If the power switch cannot report its state, ``log_in`` finds out.
        """
        self.reset_if_due()
        is_off = self.strategy.path == ["off"]
        if not is_off and self._read_power() is False:
            self.strategy.force("off")
            is_off = True
        if is_off:
            self._start()

    def _start(self) -> None:
        self.strategy.switch_on()
        self._cut = self.reset_due = False
        self.fresh = True
        self._boot = Deadline(self.node.boot_timeout_s)

    def log_in(self) -> None:
        """Log in over serial and ssh, then start the node's build under test and boot tuning if it has any.

        A node that has power but does not answer in time is power-cycled once. Raises ConsoleError or SshError; at once
        if the node answers but refuses the login. Raises BuildError if the build under test does not come up again, and
        ChangedBuildError if its files have changed.
        """
        self._log_in()
        if self._deployment is not None:
            self._deployment.after_boot()

    def await_boot(self) -> None:
        """Log in to a node that is already booting. Raises ConsoleError or SshError if it does not come up in time."""
        self._shell = None
        self._forget_boot()
        self.strategy.await_boot()
        self._connect_in_time()

    def reboot(self, command: str) -> None:
        """Reboot with this command, without a power cycle, and log in. Raises ConsoleError, SshError, ShutdownError."""
        # A busy board may take long for this answer. Without it, any later one would look like that of the next boot.
        before = self.shell.run(BOOT_ID, timeout_s=BEFORE_TIMEOUT_S).stdout.strip()
        self.shell.run(as_root(f"{{ {command}; }} </dev/null >/dev/null 2>&1 &"))
        if self.record is not None:
            self.record.note(command)
        deadline = Deadline(SHUTDOWN_S)
        for _ in range(MOST_LOGINS):
            if not deadline.wait_until(lambda: boot_id(self.shell) != before, GONE_POLL_S):
                self.hang()
                message = f"{self.name} did not shut down within {SHUTDOWN_S:.0f} s after '{command}'"
                raise ShutdownError(message, self.where_to_look)
            self.await_boot()
            # The silence may come from a busy system, which goes down after this login. Only an answer of the next boot
            # counts.
            if boot_id(self.shell) not in (before, None):
                return
        raise SshError(f"{self.name} takes ssh connections, but runs no command", self.where_to_look)

    def power_cycle(self) -> None:
        """Switch the power off and on, and log in. Raises LabError."""
        self.reset()
        self.switch_on()
        self.log_in()

    def boot_once(self) -> None:
        """Boot the node and log in, without a second attempt; then start its build under test and boot tuning.

        Raises ConsoleError or SshError if it does not come up in time, BuildError, LabError.
        """
        self._reboot()
        if self._deployment is not None:
            self._deployment.after_boot()

    def _connect_in_time(self) -> None:
        try:
            self._connect(Deadline(self.node.boot_timeout_s))
        except NoAnswer as silence:
            raise silence.error from silence

    def _reboot(self) -> None:
        self.reset()
        self._start()
        self._connect_in_time()

    def _log_in(self) -> None:
        boot = self._boot
        try:
            least_s = answer_timeout_s(self.node)
            self._connect(boot if boot is not None and boot.remaining_s > least_s else Deadline(least_s))
            self._undo_leftovers()
            return
        except NoAnswer as silence:
            first = silence.error
        self._power_off()
        self._start()
        try:
            self._connect(Deadline(self.node.boot_timeout_s))
        except NoAnswer as silence:
            again = silence.error
            message = f"{again.message} ({self.last_attempt})"
            raise type(again)(message, again.act).with_excerpt(again.excerpt) from silence
        self._undo_leftovers()
        if boot is not None:
            self.warnings.append(f"{self.node.name} came up only after a second power cycle: {first.message}")

    def _undo_leftovers(self) -> None:
        """Undo the changes of an interrupted process on the node; reboot it if nothing else helps. Raises LabError."""
        name = self.node.name
        try:
            stop_all(self.shell)
            left = replay(self.shell)
        except SshError as error:
            # If this command hangs, the commands of all later users would hang too.
            left = Replayed(failed=(f"the changes of an interrupted run ({error.message})",))
        self.warnings += [f"undid {what}, which an interrupted run left on {name}" for what in left.done]
        cure = f"rebooted {name}" if self.boots else f"the change stays until {name} is booted"
        self.warnings += [f"could not undo {what} on {name}: {cure}" for what in left.failed]
        build = self._remove_left_build() if self.boots and self._deployment is None else False
        if self.boots and (build or left.failed):
            self._reboot()

    def _remove_left_build(self) -> bool:
        """Remove the build of a crashed process; return whether the node still runs that build. Raises SshError."""
        from pytest_pinet.lab.deploy.board import Tftp
        from pytest_pinet.lab.deploy.recovery import put_back

        server = None
        try:
            server = Tftp(self).access() if Tftp.serves(self) else None
        except LabError as error:
            self.warnings.append(f"could not look for boot files that an interrupted run left: {error.message}")
        try:
            left = put_back(self.shell, server)
        except SshError:
            # The node rebooted in between: the killed process had started that boot.
            self._reboot()
            left = put_back(self.shell, server)
        self.warnings += left.sentences(self.node.name)
        return bool(left.build)

    def _remove_build(self) -> bool:
        """Remove build and boot tuning before the node is left; return whether the node still runs with them."""
        if self._deployment is None or not self._deployment.active:
            return False
        if self._shell is None:
            self.warnings.append(
                f"could not remove {self._deployment.words()} from {self.node.name}, which does not answer: "
                "the next boot starts the known-good build, and the next run removes the files"
            )
            return self._deployment.stale
        from pytest_pinet.lab.deploy.boot import PLAIN

        tuned = self._deployment.is_tuned_known_good
        try:
            stale = self._deployment.take_back()
        except LabError:
            # The running build is unknown now.
            self.reset_due = True
            raise
        if tuned and not self._found_off and self.has_power:
            # The kernel is the known-good one, which needs no power cycle to end. Without power control, the guard of
            # the trial goes on until another boot answers.
            self.shell.run(as_root(f"{{ {PLAIN}; }} </dev/null >/dev/null 2>&1 &"))
            return False
        return stale

    def boot_with(self, tuning: Tuning, before: Mapping[str, Mapping[str, SettingReading]] | None = None) -> None:
        """Boot the node with exactly these settings, unless it runs with them.

        ``before`` has the settings that were read before, by interface, then by setting; it becomes ``boot_before``.
        Raises NoKnob if the node cannot boot for a trial; LabError, also if it does not come up with them.
        """
        if self.boot_tuning == tuning:
            return
        try:
            self.deployment.tune(tuning)
        except UnsupportedError as why:
            raise NoKnob(str(why)) from why
        except LabError:
            # If the node is logged in, it has come up without the settings.
            self.reset_due = not self.ready
            raise
        self.boot_before = before or {}

    def _connect(self, deadline: Deadline) -> None:
        try:
            self._shell = self.login.log_in(deadline)
        except NoAnswer as silence:
            self._shutdown.is_silent(*silence.silent)
            raise
        self._boot = None
        self._shutdown.clear()
        if self.record is not None:
            # The restart on the record is the boot that we waited for.
            self.record.take([KernelEventKind.RESTART])
            self.record.forget_panic()

    def take_unreported(self) -> list[KernelFinding]:
        """Return the kernel problems on the console that were not reported to any test; the record forgets them."""
        if self.record is None:
            return []
        # A restart before the login is the expected boot.
        harmless = (
            {KernelEventKind.UNDER_VOLTAGE} if self.ready else {KernelEventKind.UNDER_VOLTAGE, KernelEventKind.RESTART}
        )
        return [finding for finding in self.record.take() if finding.kind not in harmless]

    def take_warnings(self) -> list[str]:
        """Return the warnings for the user since the last call, and clear them."""
        warnings, self.warnings = self.warnings, []
        return warnings + (self.record.take_trouble() if self.record is not None else [])

    def begin_leave(self) -> None:
        """Remove our files, and request the halt of a node that was found off, so that nodes shut down together.

        Does nothing when called again before ``leave``.
        """
        if self._stale is not None:
            return
        self._stale = False
        try:
            self._stale = self._remove_build()
            if self._guard is not None and self._shell is not None:
                self._guard.stop()
        finally:
            if self._found_off:
                self._begin_shutdown()

    def leave(self) -> None:
        """Log out, and leave the node off or on, as it was found."""
        try:
            self.begin_leave()
        finally:
            try:
                if self._found_off:
                    self._power_off()
                elif self._cut or self._shutdown.begun:
                    # An interrupted reset.
                    self._leave_on()
                    self.reset_due = False
                else:
                    self.reset_due |= bool(self._stale)
            finally:
                self._forget()
                self.strategy.invalidate()

    def reboot_at_release(self) -> None:
        """Reboot a node that is given back while a boot is due, such as after a kernel crash.

        Awaits the boot only of a node without power control. Raises LabError.
        """
        due, self.reset_due = self.reset_due and self.boots, False
        try:
            if due and self.strategy.node_power.is_on() is not False:
                try:
                    self._leave_on()
                finally:
                    self._forget()
                    self.strategy.invalidate()
        finally:
            if self.record is not None:
                # The next user may boot the node unseen.
                self.record.forget_panic()

    def _leave_on(self) -> None:
        """Leave the node on for its next user. A halted board comes back by power only."""
        self._power_off()
        try:
            self.strategy.switch_on()
        except ConsoleError:
            # The boot is not recorded, but the node must not stay off.
            self.strategy.node_power.rest()
            self.strategy.node_power.switch(on=True)

    def abandon(self) -> bool:
        """Leave a node whose lease was lost, without touching it. Return whether it was found off and stays on."""
        if self._cut or self._shutdown.begun:
            name = self.node.name
            self.warn(f"{name} is off or halted, because this run lost its place while it rebooted {name}")
        stays_on = self._forget()
        self.strategy.abandon()
        self.reset_due = False
        return stays_on

    def _forget(self) -> bool:
        """Clear the state of this lease; return whether the node was found off."""
        found_off = self._found_off is True
        self._found_off = self._shell = self._boot = self._stale = None
        self.fresh = self._cut = False
        self._shutdown.clear()
        self.boot_before = {}
        self._deployment = None
        self._forget_boot()
        return found_off
