"""The machine that pytest runs on as a node: its NIC is cabled to a switch port like any other.

It is leased by a labgrid place, so that its NIC is used by one test at a time, and has no power, console or boot of
its own. It is a peer only: what is under test is never the machine that judges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_pinet.lab.node_session import NodeSession
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.lab import Node
from pytest_pinet.model.tuning import Tuning
from pytest_pinet.tuning.setting import NoKnob


def session_of(node: Node, make_target: Callable[[Node], Any]) -> NodeSession:
    """A leased node as a session; ``make_target`` makes labgrid's target, where it has one."""
    return RunnerSession(node) if node.runner else NodeSession(node, make_target(node))


class _Strategy:
    """What a session asks of a labgrid strategy, for a machine that is up as long as anybody can ask."""

    path: tuple[str, ...] = ()
    record = None
    power = None

    @property
    def node_power(self) -> _Strategy:
        return self

    def is_on(self) -> bool:
        return True

    def get_driver(self, *_: object, **__: object) -> _Strategy:
        """As labgrid's target, too: there is no driver but this."""
        return self

    def _nothing(self, *_: object) -> None:
        pass

    transition = force = switch_on = log_in = connect = invalidate = abandon = _nothing


class RunnerSession(NodeSession):
    """This machine from the moment its place is leased until it is left; nothing boots it."""

    boots = False

    def __init__(self, node: Node) -> None:
        super().__init__(node, _Strategy())

    def reset(self) -> None:
        """Whoever asks for fresh nodes gets this one as it is."""
        self.reset_due = False

    def stage(self, put: Callable[[], object]) -> None:
        """Raises NoKnob."""
        raise NoKnob(f"{self.node.name} is the machine that pytest runs on: it is not booted")

    def boot_with(self, tuning: Tuning) -> None:
        """Raises NoKnob for any setting that takes a boot."""
        if tuning:
            raise NoKnob(f"{self.node.name} is the machine that pytest runs on: it is not booted")

    def _adopt(self, timeout_s: float) -> None:
        # A shell of this machine answers like one over ssh, and ends like one.
        self._shell = SshShell(self.node.name, ["/bin/sh", "-c"])
