"""The kinds of node sessions beside the usual one: without power control, and the machine that runs pytest.

The NIC of the machine that runs pytest is cabled to a switch port like the NIC of any node. A labgrid place leases it,
so that only one test at a time uses its NIC. It has no power switch, console or boot of its own. It can only be a peer:
the machine that judges is never under test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_pinet.errors import LabError, ShutdownError, SshError, first_line
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import as_root, root_cure, why_no_root
from pytest_pinet.lab.deploy.boot import PLAIN
from pytest_pinet.lab.deploy.trial import silence_of
from pytest_pinet.lab.labgrid.targets import Targets
from pytest_pinet.lab.lease import TrialLocks
from pytest_pinet.lab.node.node_login import NoAnswer
from pytest_pinet.lab.node.node_session import NodeSession, strategy_of
from pytest_pinet.lab.node.shutdown import GONE_POLL_S, SHUTDOWN_S, boot_id
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.lab import Node
from pytest_pinet.model.tuning import Tuning
from pytest_pinet.tuning.setting import NoKnob, SettingReading

# For a person who has to find the board.
HAND_S = 300.0
STEP_S = 10.0


class UnpoweredSession(NodeSession):
    """The session on a node that only its own system can reboot. It is never switched off."""

    # The id of the boot that was requested to end.
    _ending: str | None = None
    # Whether the system hangs, so that a request to reboot has no effect.
    _hangs = False
    # How long the next boot may take, if a person has to start it.
    _patience_s = 0.0
    # How much longer a trial boot may take.
    _trial_s = 0.0

    @property
    def last_attempt(self) -> str:  # type: ignore[override]  # depends on the deadline
        return f"also {self._patience_s:.0f} s after the request to unplug it and to plug it in again"

    def hang(self) -> None:
        self._hangs = True
        super().hang()

    def await_boot(self) -> None:
        # The guard of a trial ends a boot that cannot be reached. Then the known-good build boots.
        self._trial_s = silence_of(self.node.boot_timeout_s)
        try:
            super().await_boot()
        finally:
            self._trial_s = 0.0

    def _begin_shutdown(self) -> None:
        """Request a reboot, so that several nodes shut down at the same time. Raises ShutdownError if it is refused."""
        if self._ending is not None or self._hangs:
            return
        try:
            shell = self._shell or self.login.over_ssh_alone()
            self._request(shell)
        except ShutdownError:
            raise
        except Exception:
            # A trial that refuses the login counts, too: only the guard or a person ends it.
            # labgrid raises several kinds of errors for a node without an answer.
            self._hangs = True
        self._shell = None

    def _request(self, shell: SshShell) -> None:
        before = boot_id(shell)
        if before is None:
            raise SshError(f"{self.node.name} does not answer")
        if (why := why_no_root(shell)) is not None:
            message = f"{self.node.name} cannot be rebooted: {why}"
            raise ShutdownError(message, root_cure(self.node.name))
        shell.run(as_root(f"{{ {PLAIN}; }} </dev/null >/dev/null 2>&1 &"))
        self._ending = before

    def _power_off(self) -> None:
        """Reboot the node: it goes on by itself. If it hangs, ask a person to unplug it."""
        self._begin_shutdown()
        self._shell = None
        self.strategy.await_boot()
        self._patience_s = 0.0
        if self._hangs:
            self._patience_s = HAND_S + self.node.boot_timeout_s
            self._ask_person(self._patience_s)
        self._hangs = False

    def _ask_person(self, seconds: float) -> None:
        self.announce(
            f"no power control: unplug {self.node.name} and plug it in again; waiting up to {seconds:.0f} s for it"
        )

    def _start(self) -> None:
        """Wait for the boot that has begun, or that a person begins."""
        self.reset_due = False
        self.fresh = True
        self._boot = Deadline(max(self._patience_s, self.node.boot_timeout_s))

    def switch_on(self) -> None:
        if self.reset_due:
            self.reset()
        if self._ending is not None or self._patience_s:
            self._start()

    def _connect(self, deadline: Deadline) -> None:
        deadline = Deadline(max(deadline.remaining_s + self._trial_s, self._patience_s))
        while True:
            try:
                # In short steps, since the network forgets a board that is off, and remembers it late.
                super()._connect(Deadline(max(1.0, min(STEP_S, deadline.remaining_s))))
            except NoAnswer:
                if deadline.expired:
                    raise
                if self._patience_s:
                    self._ask_person(deadline.remaining_s)
                continue
            answer = boot_id(self.shell) if self._ending is not None else None
            if self._ending is None or answer not in (self._ending, None):
                break
            if answer is None and deadline.expired:
                # The kernel lives, but programs hang, such as when the card does not answer.
                silence = SshError(f"{self.node.name} takes ssh connections, but runs no command", self.where_to_look)
                self._shell = None
                raise self.login.no_answer(silence, silence)
            # The system that was requested to end still answers.
            if not Deadline(SHUTDOWN_S).wait_until(lambda: boot_id(self.shell) != self._ending, GONE_POLL_S):
                self._ending = None
                self.hang()
                message = f"{self.node.name} did not shut down within {SHUTDOWN_S:.0f} s after a request to reboot"
                raise ShutdownError(message, self.where_to_look)
            self._shell = None
            self.strategy.await_boot()
        self._ending = None
        self._patience_s = 0.0

    def _leave_on(self) -> None:
        """Reboot the node for its next user, and wait until another boot answers. Raises LabError.

        Until then the guard of a trial must see the lock, since the reboot may fail.
        """
        try:
            self._request(self._shell or self.login.over_ssh_alone())
            self.announce(f"waiting for the reboot of {self.node.name}, before it is given back")
            self.await_boot()
        except LabError:
            raise
        except Exception as error:
            raise LabError(
                f"no power control: {self.node.name} does not answer and was not rebooted: {first_line(error)}",
                f"unplug {self.node.name} and plug it in again",
            ) from error
        finally:
            self._ending = None

    def _forget(self) -> bool:
        self._ending = None
        self._hangs = False
        self._patience_s = 0.0
        return super()._forget()


class _Strategy:
    """The part of a labgrid strategy that a session uses, for a machine that is always up."""

    path: tuple[str, ...] = ()
    record = None
    power = None
    has_login = has_power = False

    @property
    def node_power(self) -> _Strategy:
        return self

    def is_on(self) -> bool:
        return True

    def get_driver(self, *_: object, **__: object) -> _Strategy:
        """Return itself. It also stands for labgrid's target, and has no other driver."""
        return self

    def _nothing(self, *_: object) -> None:
        pass

    transition = force = switch_on = log_in = connect = invalidate = abandon = _nothing


class RunnerSession(NodeSession):
    """The session on this machine from the lease of its place until it is left; nothing boots it."""

    boots = False

    def __init__(self, node: Node) -> None:
        super().__init__(node, _Strategy())

    def reset(self) -> None:
        """Do not reboot: a request for fresh nodes gets this machine as it is."""
        self.reset_due = False

    def boot_with(self, tuning: Tuning, before: Mapping[str, Mapping[str, SettingReading]] | None = None) -> None:
        """Raises NoKnob for any setting that needs a boot."""
        if tuning:
            raise NoKnob(f"{self.node.name} is the machine that runs pytest, so it is not booted")

    def _connect(self, deadline: Deadline) -> None:
        # A local shell answers and ends in the same way as a shell over ssh.
        self._shell = SshShell(self.node.name, ["/bin/sh", "-c"])


def session_of(node: Node, targets: Targets, announce: Callable[[str], None], locks: TrialLocks) -> NodeSession:
    """Return the session of a leased node. ``targets`` makes its labgrid target, if it has one.

    ``announce`` takes a sentence for the user that must be read at once.
    """
    if node.runner:
        return RunnerSession(node)
    target = targets.make(node)
    kind = NodeSession if strategy_of(target).has_power else UnpoweredSession
    return kind(node, target, announce, locks)
