"""The kinds of node sessions: with power control, without it, and the machine that runs pytest.

The NIC of the machine that runs pytest is cabled to a switch port like the NIC of any node. A labgrid place leases it,
so that only one test at a time uses its NIC. It has no power switch, console or boot of its own. It can only be a peer:
the machine that judges is never under test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_pinet.lab.labgrid.targets import Targets
from pytest_pinet.lab.lease import TrialLocks
from pytest_pinet.lab.node.node_session import NodeSession, strategy_of
from pytest_pinet.lab.node.unpowered import UnpoweredSession
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.lab import Node
from pytest_pinet.model.tuning import Tuning
from pytest_pinet.tuning.setting import NoKnob, SettingReading


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

    def _connect(self, timeout_s: float) -> None:
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
