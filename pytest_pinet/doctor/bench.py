"""The state that the checks share: the connected lab, its leased nodes with their logins, and all undo steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from pytest_pinet.doctor.finding import Finding
from pytest_pinet.errors import ConsoleError, LeaseError, PinetError, SshError, first_line
from pytest_pinet.evidence.interface import InterfaceState
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Shell
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.judge.hardware import identify
from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.labgrid.coordinator import Coordinator
from pytest_pinet.lab.labgrid.identity import Holding, Identity
from pytest_pinet.lab.labgrid.targets import Targets
from pytest_pinet.lab.lease import Leases
from pytest_pinet.lab.link.nics import with_devices
from pytest_pinet.lab.node.kinds import session_of
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.node.trial_locks import TrialLocks
from pytest_pinet.lab.places import Places, open_places
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch, open_switch
from pytest_pinet.model.hardware import FoundBoard
from pytest_pinet.model.lab import Interface, Lab, Node

# Returns what is wrong with a node, or unknown. A node without a finding is ok.
NodeCheck = Callable[[Node], Iterable[Finding]]
_THREADS = 16


class Bench:
    """The lab during the checks of ``nodes``. ``blocked`` says why a node is not checked further.

    ``targets`` are None for a lab that is not started yet.
    """

    def __init__(
        self, lab: Lab, nodes: Sequence[Node], on_wait: Callable[[str], None], targets: Targets | None = None
    ) -> None:
        self.lab = lab
        self.nodes = nodes
        self.blocked: dict[str, str] = {}
        # What each node is, from the ssh check on.
        self.boards: dict[str, FoundBoard] = {}
        # The state of each interface at the time of the link check.
        self.states: dict[Interface, InterfaceState] = {}
        # The deadlines of the nodes that the power check has switched on.
        self.boots: dict[str, Deadline] = {}
        # Errors of consoles that could not be opened before their nodes were powered on.
        self.refused: dict[str, ConsoleError] = {}
        self.undo = UndoStack()
        self._identity = Identity.of_this_process("doctor")
        self._on_wait = on_wait
        self._access = LabAccess(lab, self._identity, 0.0, on_wait)
        self._targets = targets
        self._places: Places | None = None
        self._locks: TrialLocks | None = None
        self._leases: Leases | None = None
        self._sessions: dict[str, NodeSession] = {}
        self._switches: dict[str, ManagedSwitch | PinetError] = {}
        self._warnings: list[str] = []

    @property
    def ready(self) -> list[Node]:
        """The nodes that are not blocked."""
        return [node for node in self.nodes if node.name not in self.blocked]

    @property
    def interfaces(self) -> list[Interface]:
        """The interfaces of the ready nodes, in the order of the lab file. An interface without its NIC is left out."""
        return [interface for node in self.ready for interface in node.interfaces]

    @property
    def scale(self) -> float:
        return self._access.scale.share

    @property
    def places(self) -> Places:
        """What keeps the leases; valid only after ``connect``."""
        assert self._places is not None, "connect comes first"
        return self._places

    @property
    def coordinator(self) -> Coordinator | None:
        """labgrid's coordinator; None for a lab without one."""
        return self._places if isinstance(self._places, Coordinator) else None

    def connect(self) -> str:
        """Start the lab if it has a launcher, and connect to its coordinator. Return the address. Raises PinetError."""
        self._access.start()
        self._targets = self._targets or Targets(self.lab)
        self._places = open_places(self.lab, self._targets, self._identity)
        self._locks = TrialLocks(self._places, self._targets, self._on_wait)
        self._leases = Leases(self._places, lambda _: None, self._on_wait)
        self._places.sync()
        return self._targets.address

    def lease(self, nodes: Iterable[Node]) -> dict[str, Holding | LeaseError | SshError]:
        """Lease the places that are free now. Return the holder, or the error, for each other node."""
        assert self._leases is not None, "connect comes first"
        wanted = list(nodes)
        missing = self._leases.acquire_free(node.place for node in wanted)
        return {node.name: missing[node.place] for node in wanted if node.place in missing}

    def session(self, node: Node) -> NodeSession:
        """Return the session of a leased node. Raises ConfigError or CoordinatorError if labgrid makes no target."""
        assert self._targets is not None, "connect comes first"
        assert self._locks is not None
        if node.name not in self._sessions:
            session = self._sessions[node.name] = session_of(node, self._targets.make, self._on_wait)
            self._locks.attach(session)
        return self._sessions[node.name]

    def shell(self, node: str) -> Shell:
        """Return a node's ssh shell; valid after the ssh check has passed."""
        return self._sessions[node].shell

    def switch(self, name: str) -> ManagedSwitch:
        """Return a switch of the lab. Raises LabError or ConfigError, the same error each time."""
        if name not in self._switches:
            try:
                self._switches[name] = open_switch(self.lab, name)
                # Reading the capabilities here detects a switch that does not answer, only once.
                _ = self._switches[name].capabilities  # type: ignore[union-attr]
            except PinetError as error:
                self._switches[name] = error
        found = self._switches[name]
        if isinstance(found, PinetError):
            raise found
        return found

    def find_nics(self) -> None:
        """Find the NICs of the nodes in ``boards``. From now on, interfaces have the devices of their NICs.

        An interface whose NIC is not that of the lab file is left out of ``nodes``: all other checks would judge
        another NIC.
        """
        named = {
            node.name: with_devices(node, self.boards[node.name]) for node in self.nodes if node.name in self.boards
        }
        self.lab = replace(self.lab, nodes={name: named.get(name, node) for name, node in self.lab.nodes.items()})
        self.nodes = [self._with_nics(self.lab.nodes[node.name]) for node in self.nodes]

    def _with_nics(self, node: Node) -> Node:
        board = self.boards.get(node.name)
        there = (i for i in node.interfaces if board is None or not identify(node, i, board)[1])
        return replace(node, interfaces=tuple(there))

    def in_parallel(self, look: NodeCheck) -> list[Finding]:
        """Check all ready nodes at once. ``look`` must not use labgrid (one thread). An error is a finding, too."""
        with ThreadPoolExecutor(_THREADS) as pool:
            return [finding for found in pool.map(partial(_guarded, look), self.ready) for finding in found]

    def one_by_one(self, look: NodeCheck) -> list[Finding]:
        """Check all ready nodes one after the other. An error is a finding, too."""
        return [finding for node in self.ready for finding in _guarded(look, node)]

    def close(self) -> list[str]:
        """Restore the lab. Return a message for each thing that could not be restored."""
        if self._places is not None:
            self._attempt("undo all changes", self._leave_nodes)
            self._attempt("release the places", self._release)
            if self._locks is not None:
                self._locks.close()
            self._places.close()
        for name, switch in self._switches.items():
            if isinstance(switch, ManagedSwitch):
                self._attempt(f"close switch {name}", switch.close)
        if self._targets is not None:
            self._attempt("clean up labgrid's targets", self._targets.close)
        self._warnings += self._access.close()
        return self._warnings

    def _leave_nodes(self) -> None:
        assert self._leases is not None
        lost_places = self._leases.lost([node.place for node in self.nodes if node.name in self._sessions])
        lost = {node.name for node in self.nodes if node.place in lost_places}
        self._warnings += self.undo.close(lost)
        ours = {name: session for name, session in self._sessions.items() if name not in lost}
        for name in lost & self._sessions.keys():
            self._attempt(f"restore {name}", self._sessions[name].abandon)
        for step in (NodeSession.begin_leave, NodeSession.leave, self._reboot_at_release):
            for name, session in ours.items():
                self._attempt(f"restore {name}", partial(step, session))

    def _reboot_at_release(self, session: NodeSession) -> None:
        assert self._locks is not None
        try:
            session.reboot_at_release()
        except Exception:
            self._locks.leave_to_guard(session)
            raise

    def _release(self) -> None:
        assert self._leases is not None
        assert self._locks is not None
        self._locks.release(self._leases.held)
        self._leases.release(self._leases.held)
        self._leases.settle()

    def _attempt(self, what: str, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception as error:
            warning = f"could not {what}: {first_line(error)}"
            self._warnings += [warning] if warning not in self._warnings else []


def _guarded(look: NodeCheck, node: Node) -> list[Finding]:
    try:
        return list(look(node))
    except PinetError as error:
        return [Finding.of(error, node.name)]


@contextmanager
def open_bench(
    lab: Lab,
    nodes: Sequence[Node],
    on_wait: Callable[[str], None],
    on_close: Callable[[list[str]], None],
    targets: Targets | None = None,
) -> Iterator[Bench]:
    """Open a bench that is always closed again. ``on_close`` gets the messages of things that could not be undone."""
    bench = Bench(lab, nodes, on_wait, targets)
    try:
        yield bench
    finally:
        on_close(bench.close())
