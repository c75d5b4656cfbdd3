"""A lab in use by this process: coordinator, nodes, switches, links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pytest_pinet.errors import CoordinatorError, PinetError
from pytest_pinet.lab import contention, labgrid_steps, link, tuned
from pytest_pinet.lab.boot_tuned import boot_tuned
from pytest_pinet.lab.coordinator import Coordinator
from pytest_pinet.lab.identity import Identity
from pytest_pinet.lab.kernel_watch import KernelWatch
from pytest_pinet.lab.managed_switch import ManagedSwitch
from pytest_pinet.lab.node_pool import NodePool
from pytest_pinet.lab.node_session import NodeSession
from pytest_pinet.lab.switches import open_switch
from pytest_pinet.lab.targets import Targets
from pytest_pinet.lab.undo import UndoStack
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab, Node
from pytest_pinet.steps import doing
from pytest_pinet.tuning.registry import running_part

# What must run on the nodes of a combination, by their names, before their link is opened.
Prepare = Callable[[Combination, Mapping[str, NodeSession]], None]


class LabSession:
    """Opens links on a lab. ``on_wait`` is told what is waited for.

    Construction connects to the coordinator (CoordinatorError, ConfigError); ``close`` leaves every node as found.
    """

    def __init__(
        self,
        lab: Lab,
        identity: Identity,
        acquire_timeout_s: float,
        on_wait: Callable[[str], None],
        folder: Path | None = None,
    ) -> None:
        from pytest_pinet.lab import places

        self.lab = lab
        # Of a lab that somebody's program runs: the share of their rate at which its links run.
        self.scale = 1.0
        self._on_wait = on_wait
        self._timeout_s = acquire_timeout_s
        self._targets = Targets(lab)
        self.address = self._targets.address
        self._coordinator = Coordinator(self.address, identity)
        places.install(self._coordinator)
        self._pool = NodePool(self._coordinator, self._targets.make, on_wait, folder)
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
        """A link for this combination: nodes leased, booted, logged into, cabled, checked, tuned; all of it is undone.

        The nodes stay booted and leased until ``keep_only`` or ``close``; with ``reset`` they are booted anew first.
        ``prepare`` gets them before anything else is done with them, to have them run a build under test.
        What a console tells of a broken kernel ends it: KernelError, LabError or InvalidMeasurement.
        """
        nodes = combination.nodes
        sessions = {session.node.name: session for session in self._get(combination, reset)}
        prepare(combination, sessions)
        for session in sessions.values():
            session.fresh = False
        booted = boot_tuned(combination, sessions, lambda: self._get(combination, False))
        switches = {name: self._switch(name) for name in link.switches_of(combination)}
        undo = UndoStack()
        with self._watched(combination, sessions) as watch:
            try:
                with doing(f"cable and check {combination.id}"):
                    opened = link.connect(combination, sessions, switches, undo)
                opened.scale = self.scale
                opened.tunings = booted
                opened.tried += booted
                tuned.apply(opened, running_part(combination.tuning), undo)
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
        """Look at the consoles of these nodes; those whose kernel breaks are booted before anybody uses them again."""
        records = {name: session.record for name, session in sessions.items() if session.record is not None}
        watch = self._watch = KernelWatch(records, {combination.dut.node.name})
        for session in sessions.values():
            session.shell.watch = watch.interrupt
        try:
            watch.check()
            yield watch
            watch.last_look()
        except PinetError:
            # A node whose kernel broke does not answer over ssh either: that is the cause to name.
            watch.check()
            raise
        finally:
            self._watch = None
            watch.disarm()
            for node in combination.nodes:
                if node.name in watch.broken:
                    self._pool.distrust(node, reset=True)

    def watch(self) -> None:
        """Raise what the consoles of the open link have told of a broken kernel or supply; cheap."""
        if self._watch is not None:
            self._watch.check()

    def check(self, combination: Combination) -> None:
        """Make sure that nodes and uplinks are still leased to us. Raises LeaseError or CoordinatorError."""
        self._pool.check(combination.places)

    @contextmanager
    def exclusive(self, combination: Combination) -> Iterator[None]:
        """Measure alone in every contention domain that these nodes are in."""
        domains = contention.domains_of(self.lab, combination)
        key = contention.lab_key(self.lab, self.address)
        identity = self._coordinator.identity
        with ExitStack() as stack:
            # On this host first, so that of each host only one waits for the place.
            stack.enter_context(contention.exclusive(key, domains, self._timeout_s, self._on_wait, identity))
            places = {contention.PLACE_PREFIX + domain for domain in domains} & set(self._coordinator.places())
            for place in sorted(places):
                stack.enter_context(self._pool.also(place, self._timeout_s))
            yield

    def keep_only(self, nodes: Iterable[Node]) -> None:
        """Leave and release all nodes but these."""
        self._pool.keep_only(nodes)

    def distrust(self, combination: Combination) -> None:
        """Log out of the nodes of this combination after trouble, so that the next user starts afresh."""
        for node in combination.nodes:
            self._pool.distrust(node)

    def take_warnings(self) -> list[str]:
        """What could not be undone since the last call."""
        warnings = [*self._warnings, *self._pool.take_warnings()]
        self._warnings.clear()
        return warnings

    def close(self) -> list[str]:
        """Leave and release everything; returns what could not be undone."""
        steps: Mapping[str, Callable[[], object]] = {
            "release the nodes": lambda: self.keep_only(()),
            "give back what was leased": self._pool.settle,
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
        self._coordinator.close()
        self._stop_listening()
        return self.take_warnings()
