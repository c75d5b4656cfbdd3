"""A lab that this process uses: its coordinator, nodes, switches and links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pytest_pinet.errors import CoordinatorError, PinetError, SshError
from pytest_pinet.execution.trace import doing
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.console.kernel_watch import KernelWatch, SshKernelLog
from pytest_pinet.lab.labgrid import steps as labgrid_steps
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.labgrid.targets import Targets
from pytest_pinet.lab.link import link, tuning_session
from pytest_pinet.lab.link.tuning_session import boot_tuned
from pytest_pinet.lab.node.node_pool import NodePool
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.node.trial_locks import TrialLocks
from pytest_pinet.lab.places import open_places
from pytest_pinet.lab.queue import contention
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch, open_switch
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab, Node
from pytest_pinet.tuning.registry import running_part

# Prepares the nodes of a combination (given by name) before their link is opened.
Prepare = Callable[[Combination, Mapping[str, NodeSession]], None]


class LabSession:
    """Opens links on a lab. ``on_wait`` is called with a text that says what the session waits for.

    The constructor connects to the coordinator (CoordinatorError, ConfigError). ``close`` leaves every node as it was
    found.
    """

    def __init__(
        self,
        lab: Lab,
        identity: Identity,
        acquire_timeout_s: float,
        on_wait: Callable[[str], None],
        folder: Path | None = None,
    ) -> None:
        self.lab = lab
        # The share of the full rate at which the links of a lab run; below 1.0 only for a lab that a launcher started.
        self.scale = 1.0
        self._on_wait = on_wait
        self._timeout_s = acquire_timeout_s
        self._targets = Targets(lab)
        self.address = self._targets.address
        self._places = open_places(lab, self._targets, identity)
        self._locks = TrialLocks(self._places, self._targets, on_wait)
        self._pool = NodePool(self._places, self._targets.make, on_wait, self._locks, folder)
        self._watch: KernelWatch | None = None
        self._switches: dict[str, ManagedSwitch] = {}
        self._warnings: list[str] = []
        self._stop_listening = labgrid_steps.listen()

    def _switch(self, name: str) -> ManagedSwitch:
        if name not in self._switches:
            self._switches[name] = open_switch(self.lab, name)
        return self._switches[name]

    @contextmanager
    def open(
        self, combination: Combination, reset: bool = False, prepare: Prepare = lambda *_: None
    ) -> Iterator[link.Link]:
        """Open a link for this combination: lease, boot, log in, cable, check and tune its nodes. The exit undoes it.

        The nodes stay booted and leased until ``keep_only`` or ``close``; with ``reset`` they are rebooted first.
        ``prepare`` is called with the nodes before anything else uses them, to make them run a build under test. If a
        console shows a kernel crash, the link ends with KernelError, LabError or InvalidMeasurement.
        """
        nodes = combination.nodes
        sessions = {session.node.name: session for session in self._get(combination, reset)}
        prepare(combination, sessions)
        for session in sessions.values():
            session.fresh = False
        booted = boot_tuned(combination, sessions)
        switches = {name: self._switch(name) for name in link.switches_of(combination)}
        undo = UndoStack()
        with self._watched(combination, sessions) as watch:
            try:
                with doing(f"cable and check {combination.id}"):
                    opened = link.connect(combination, sessions, switches, undo)
                opened.scale = self.scale
                opened.tunings = booted
                opened.tried += booted
                tuning_session.apply(opened, running_part(combination.tuning), undo)
                yield opened
            finally:
                watch.disarm()
                for session in sessions.values():
                    if session.ready and session.node.name in watch.broken:
                        session.shell.doubt()
                self._warnings += undo.close([*self._pool.lost(nodes), *self._pool.lost_places(combination.places)])

    def _get(self, combination: Combination, reset: bool) -> list[NodeSession]:
        nodes = combination.nodes
        uplinks = set(combination.places) - {node.place for node in nodes}
        return self._pool.get(nodes, self._timeout_s, reset, uplinks)

    @contextmanager
    def _watched(self, combination: Combination, sessions: Mapping[str, NodeSession]) -> Iterator[KernelWatch]:
        """Watch the consoles of these nodes. A node whose kernel crashes is rebooted before its next use."""
        records = {name: session.record for name, session in sessions.items() if session.record is not None}
        logs = [SshKernelLog(n, s.shell) for n, s in sessions.items() if s.record is None and s.boots]
        records |= {log.record.node: log.record for log in logs}
        watch = self._watch = KernelWatch(records, {combination.dut.node.name})
        for session in sessions.values():
            session.shell.watch = watch.interrupt
        try:
            watch.check()
            yield watch
            for log in logs:
                log.look()
            watch.last_look()
        except PinetError:
            # A node with a crashed kernel does not answer over ssh either. Report the crash, which is the cause.
            for log in logs:
                with suppress(SshError):
                    log.look()
            watch.check()
            raise
        finally:
            self._watch = None
            watch.disarm()
            for node in combination.nodes:
                if node.name in watch.broken:
                    self._pool.distrust(node, reset=True)

    def watch(self) -> None:
        """Raise an error if a console of the open link has shown a kernel crash or a supply fault. Cheap to call."""
        if self._watch is not None:
            self._watch.check()

    def check(self, combination: Combination) -> None:
        """Check that nodes and uplinks are still leased to this run. Raises LeaseError or CoordinatorError."""
        self._pool.leases.check(combination.places)

    @contextmanager
    def exclusive(self, combination: Combination) -> Iterator[None]:
        """Measure alone in every contention domain of these nodes."""
        domains = contention.domains_of(self.lab, combination)
        key = contention.lab_key(self.lab, self.address)
        identity = self._places.identity
        with ExitStack() as stack:
            # First the queue of this host, so that only one process of each host waits for the place.
            stack.enter_context(contention.exclusive(key, domains, self._timeout_s, self._on_wait, identity))
            places = {contention.PLACE_PREFIX + domain for domain in domains} & set(self._places.places())
            for place in sorted(places):
                stack.enter_context(self._pool.leases.also(place, self._timeout_s))
            yield

    def take_if_free(self, combination: Combination) -> bool:
        """Lease the nodes of a combination without waiting. Return False, and lease none, if one is not free."""
        leases = self._pool.leases
        held = set(leases.held)
        missing = leases.acquire_free(combination.places)
        if missing:
            leases.release(set(leases.held) - held)
        return not missing

    def keep_only(self, nodes: Iterable[Node]) -> None:
        self._pool.keep_only(nodes)

    def distrust(self, combination: Combination) -> None:
        """Log out of the nodes of this combination after an error, so that the next user logs in again."""
        for node in combination.nodes:
            self._pool.distrust(node)

    def take_warnings(self) -> list[str]:
        """Return the undo failures since the last call, and clear the list."""
        warnings = [*self._warnings, *self._pool.take_warnings()]
        self._warnings.clear()
        return warnings

    def close(self) -> list[str]:
        """Leave and release everything; return what could not be undone."""
        steps: Mapping[str, Callable[[], object]] = {
            "release the nodes": lambda: self.keep_only(()),
            "release the remaining places": self._pool.leases.settle,
            **{f"close switch {name}": switch.close for name, switch in self._switches.items()},
            "clean up labgrid's targets": self._targets.close,
        }
        for what, step in steps.items():
            try:
                step()
            except CoordinatorError as error:
                self._warnings.append(f"could not {what}: {error.message}")
            except Exception as error:
                self._warnings.append(f"could not {what}: {type(error).__name__}: {error}")
        self._locks.close()
        self._places.close()
        self._stop_listening()
        return self.take_warnings()
