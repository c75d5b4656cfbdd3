"""Access of one process to its lab: start the lab if needed, connect to it, open links, leave it as it was found."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from pytest_pinet.errors import CoordinatorError, InvalidMeasurement, LinkError, PinetError, SshError
from pytest_pinet.evidence.other_work import RUN_VARIABLE
from pytest_pinet.execution.trace import doing
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab import contention
from pytest_pinet.lab.console.kernel_watch import KernelWatch, SshKernelLog
from pytest_pinet.lab.labgrid import steps as labgrid_steps
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.labgrid.targets import Targets
from pytest_pinet.lab.launcher import LabUse, environment, launcher_of
from pytest_pinet.lab.link import tuning_session
from pytest_pinet.lab.link.link import Link, connect, switches_of, unopened
from pytest_pinet.lab.node.node_pool import NodePool
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.places import open_places
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch, open_switch
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab, Node, Scale
from pytest_pinet.tuning.registry import running_part

if TYPE_CHECKING:
    from pytest_pinet.model.traffic import Traffic
    from pytest_pinet.traffic.tool import TrafficTool

# How long a command waits for nodes that other runs hold; pytest waits for the same time.
ACQUIRE_TIMEOUT_S = 300.0
# Prepares the nodes of a combination (given by name) before their link is opened.
Prepare = Callable[[Combination, Mapping[str, NodeSession]], None]


@dataclass(frozen=True)
class OpenLink:
    """The link that is open now. ``connected`` opens it again after ``undo`` was closed."""

    undo: UndoStack
    watch: KernelWatch
    connected: Callable[[], Link]


class LabAccess:
    """Opens links. The first link imports labgrid, starts the lab, and connects to its coordinator.

    If the lab cannot be reached, every later call raises the same error at once, without another attempt.

    ``on_wait`` takes a text that says what is waited for. ``folder`` returns the folder of the run, for the records of
    the consoles; it is called when we connect to the lab.
    """

    def __init__(
        self,
        lab: Lab | None,
        identity: Identity,
        acquire_timeout_s: float,
        on_wait: Callable[[str], None],
        folder: Callable[[], Path] | None = None,
    ) -> None:
        self._lab = lab
        self._identity = identity
        self._timeout_s = acquire_timeout_s
        self._on_wait = on_wait
        self._folder = folder
        self._prepare: Prepare = lambda *_: None
        self._interrupt: Callable[[], None] = lambda: None
        self._tools: dict[str, TrafficTool] = {}
        self._use: LabUse | None = None
        # The share of the full rate at which the links run; the full rate for a lab without a launcher. Kept after the
        # lab is left, because reports read it until the run ends.
        self.scale = Scale()
        self._started: ExitStack | None = None
        self._pool: NodePool | None = None
        self._error: PinetError | None = None
        self._switches: dict[str, ManagedSwitch] = {}
        self._watches: list[KernelWatch] = []
        self._open: OpenLink | None = None
        self._warnings: list[str] = []

    def prepare_with(self, prepare: Prepare) -> None:
        """Call ``prepare`` with the nodes of each link before it is opened, to make them run the build under test."""
        self._prepare = prepare

    def interrupt_with(self, interrupt: Callable[[], None]) -> None:
        """Call ``interrupt`` before each wait. It raises KeyboardInterrupt if another process has aborted the run."""
        self._interrupt = interrupt

    # -- the lab --------------------------------------------------------------------------------------------------

    @property
    def lab(self) -> Lab:
        assert self._lab is not None
        return self._lab

    @property
    def tool(self) -> TrafficTool:
        """The tool for TCP and UDP; it caches what each end supports. Raises ConfigError."""
        return self._tool(self.lab.traffic_tool)

    def tool_for(self, traffic: Traffic) -> TrafficTool:
        """The tool for this traffic. Raises ConfigError."""
        return self._tool(self.lab.tool_for(traffic))

    def _tool(self, name: str) -> TrafficTool:
        if name not in self._tools:
            from pytest_pinet.traffic.tool import make_tool

            self._tools[name] = make_tool(name, self.lab)
        return self._tools[name]

    def start(self) -> None:
        """Start the lab if it is down, and keep it up while this process uses it. Raises PinetError."""
        if self._started is not None:
            return
        launcher = launcher_of(self.lab)
        # xdist workers inherit the variable of their controller; all of them are one run.
        run = os.environ.get(RUN_VARIABLE, "")
        run = run if run.isdigit() else str(os.getpid())
        variables = {RUN_VARIABLE: run}
        if launcher is not None:
            self._use = launcher.use(self.lab, run, lambda: self._on_wait(f"starting lab {self.lab.name}"))
            self.scale = self._use.scale
            variables |= self._use.environment
        self._started = ExitStack()
        self._started.enter_context(environment(variables))

    @property
    def pool(self) -> NodePool:
        """The nodes. The first call starts the lab, and connects to its coordinator. Raises PinetError."""
        if self._error is not None:
            raise self._error
        if self._pool is None:
            try:
                self.start()
                folder = self._folder() if self._folder is not None else None
                targets = Targets(self.lab)
                self._pool = NodePool(open_places(self.lab, targets, self._identity), targets, self._waits, folder)
            except PinetError as error:
                self._error = error
                raise
            # While the lab is left, too.
            assert self._started is not None
            self._started.callback(labgrid_steps.listen())
        return self._pool

    def _waits(self, text: str) -> None:
        self._interrupt()
        self._on_wait(text)

    def switch(self, name: str) -> ManagedSwitch:
        """Return a switch of the lab. Raises SwitchError, ConfigError."""
        if name not in self._switches:
            self._switches[name] = open_switch(self.lab, name)
        return self._switches[name]

    # -- links ----------------------------------------------------------------------------------------------------

    @contextmanager
    def open(self, combination: Combination, reset: bool = False, link_required: bool = True) -> Iterator[Link]:
        """Open a link for this combination: lease, boot, log in, cable, check and tune its nodes. The exit undoes it.

        The nodes stay booted and leased until ``keep_only`` or ``close``; with ``reset`` they are rebooted first. If a
        console shows a kernel crash, the link ends with KernelError, LabError or InvalidMeasurement. Raises PinetError;
        KeyboardInterrupt in an aborted run. Without ``link_required``, a link that does not come up is its ``trouble``.
        """
        self._interrupt()
        # If the tool cannot be loaded, no lab is started and no node is booted in vain.
        _ = self.tool
        pool, nodes = self.pool, combination.nodes
        uplinks = set(combination.places) - {node.place for node in nodes}
        sessions = {session.name: session for session in pool.get(nodes, self._timeout_s, reset, uplinks)}
        self._prepare(combination, sessions)
        for session in sessions.values():
            session.begin_use()
        booted = tuning_session.boot_tuned(combination, sessions)
        switches = {name: self.switch(name) for name in switches_of(combination)}
        undo = UndoStack()
        with self._watched(combination, sessions) as watch:

            def connected() -> Link:
                with doing(f"cable and check {combination.id}"):
                    opened = connect(combination, sessions, switches, undo, booted, self.scale.share)
                tuning_session.apply(opened, running_part(combination.tuning), undo)
                return opened

            try:
                self._open = OpenLink(undo, watch, connected)
                try:
                    opened = connected()
                except (LinkError, InvalidMeasurement) as error:
                    if link_required:
                        raise
                    opened = unopened(combination, sessions, switches, self.scale.share, error)
                yield opened
            finally:
                self._open = None
                watch.disarm()
                for session in sessions.values():
                    if session.ready and session.name in watch.broken:
                        session.shell.doubt()
                self._warnings += undo.close([*pool.lost(nodes), *pool.lost_places(combination.places)])

    def reboot(self, link: Link) -> None:
        """Undo all changes of the open link, boot its device under test once, and log in; ``reconnect`` comes next.

        Raises ConsoleError, SshError or BuildError if the board does not come up, LabError.
        """
        opened, session = self._open, link.dut.session
        assert opened is not None, "the link is not open"
        self._warnings += opened.undo.close()
        opened.watch.disarm()
        try:
            session.boot_once()
            session.begin_use()
        finally:
            opened.watch.restarted(session.name, session.shell if session.ready else None)
            if session.ready:
                session.shell.watch_with(opened.watch.interrupt)

    def reconnect(self, link: Link) -> None:
        """Open the link again after ``reboot``: ``link`` is then what a new link would be. Raises PinetError."""
        assert self._open is not None, "the link is not open"
        found = self._open.connected()
        link.ends, link.states, link.tunings = found.ends, found.states, found.tunings
        link.combination, link.trouble = found.combination, None

    @contextmanager
    def _watched(self, combination: Combination, sessions: Mapping[str, NodeSession]) -> Iterator[KernelWatch]:
        """Watch the consoles of these nodes. A node whose kernel crashes is rebooted before its next use."""
        records = {name: session.record for name, session in sessions.items() if session.record is not None}
        logs = [SshKernelLog(n, s.shell) for n, s in sessions.items() if s.record is None and s.boots]
        watch = KernelWatch(records, {combination.dut.node.name}, logs)
        self._watches.append(watch)
        for session in sessions.values():
            session.shell.watch_with(watch.interrupt)
        try:
            watch.check()
            yield watch
            watch.look()
            watch.last_look()
        except PinetError:
            # A node with a crashed kernel does not answer over ssh either. Report the crash, which is the cause.
            with suppress(SshError):
                watch.look()
            watch.check()
            raise
        finally:
            self._watches.remove(watch)
            watch.disarm()
            for node in combination.nodes:
                if node.name in watch.broken:
                    self.pool.distrust(node, reset=True)

    def watch(self) -> None:
        """Raise the error of a kernel crash or supply fault on a console, or KeyboardInterrupt as ``open``. Cheap."""
        self._interrupt()
        for watch in self._watches:
            watch.check()

    @contextmanager
    def exclusive(self, combination: Combination) -> Iterator[None]:
        """Measure alone in the contention domains of this combination."""
        with ExitStack() as stack:
            if self._pool is not None:
                places, leases = self._pool.places, self._pool.leases
                domains = contention.domains_of(self.lab, combination)
                key = contention.lab_key(self.lab, self._pool.address)
                # First the queue of this host, so that only one process of each host waits for the place.
                wait = contention.exclusive(key, domains, self._timeout_s, self._waits, places.identity)
                stack.enter_context(wait)
                for place in sorted({contention.PLACE_PREFIX + domain for domain in domains} & set(places.places())):
                    stack.enter_context(leases.also(place, self._timeout_s))
            yield

    @contextmanager
    def measuring(self, combination: Combination) -> Iterator[None]:
        """Measure alone in the contention domains of this combination; then check its consoles and its leases."""
        with self.exclusive(combination):
            yield
        self.watch()
        self.check(combination)

    def check(self, combination: Combination) -> None:
        """Check that nodes and uplinks are still leased to this run. Raises LeaseError or CoordinatorError."""
        if self._pool is not None:
            self._pool.leases.check(combination.places)

    # -- nodes between links, and the end -------------------------------------------------------------------------

    def take_if_free(self, combination: Combination) -> bool:
        """Lease the nodes of a combination without waiting. Return False, and lease none, if one is not free."""
        leases = self.pool.leases
        held = set(leases.held)
        missing = leases.acquire_free(combination.places)
        if missing:
            leases.release(set(leases.held) - held)
        return not missing

    def keep_only(self, nodes: Iterable[Node]) -> None:
        """Give back all other nodes."""
        if self._pool is not None:
            self._pool.keep_only(nodes)

    def distrust(self, combination: Combination) -> None:
        """Log out of these nodes after trouble, so that the next user logs in again."""
        for node in combination.nodes if self._pool is not None else ():
            self.pool.distrust(node)

    def lost(self, nodes: Iterable[Node]) -> list[str]:
        """Return the names of the nodes that are no longer leased to us. Their power is not switched."""
        return self._pool.lost(nodes) if self._pool is not None else []

    def take_warnings(self) -> list[str]:
        """Return what could not be undone, and other warnings for the user, since the last call; forget them."""
        warnings, self._warnings = self._warnings, []
        return warnings + (self._pool.take_warnings() if self._pool is not None else [])

    def close(self) -> list[str]:
        """Leave the lab, and return what could not be undone. A second call does nothing.

        If pytest started the lab, the last process to leave stops it.
        """
        pool, self._pool = self._pool, None
        steps: dict[str, Callable[[], object]] = {}
        if pool is not None:
            steps["release the nodes"] = lambda: pool.keep_only(())
            steps["release the remaining places"] = pool.leases.settle
        steps |= {f"close switch {name}": switch.close for name, switch in self._switches.items()}
        if pool is not None:
            steps["end the connections to the lab"] = pool.close
        if self._use is not None:
            steps[f"stop lab {self.lab.name}"] = self._leave
        failed = []
        for what, step in steps.items():
            try:
                step()
            except PinetError as error:
                failed.append(f"could not {what}: {error.message if isinstance(error, CoordinatorError) else error}")
            except Exception as error:
                failed.append(f"could not {what}: {type(error).__name__}: {error}")
        warnings = [*self.take_warnings(), *(pool.take_warnings() if pool is not None else []), *failed]
        self._switches.clear()
        if self._started is not None:
            self._started.close()
            self._started = None
        return warnings

    def _leave(self) -> None:
        use, self._use = self._use, None
        if use is not None:
            use.leave()


@contextmanager
def visit(
    lab: Lab, purpose: str, on_wait: Callable[[str], None], on_close: Callable[[list[str]], None]
) -> Iterator[LabAccess]:
    """Use a lab for a command: start it if needed, and leave it as it was found, even after an exception or SIGTERM.

    ``on_close`` gets a list of what could not be undone.
    """
    access = LabAccess(lab, Identity.of_this_process(purpose), ACQUIRE_TIMEOUT_S, on_wait)
    with _terminated_like_interrupted():
        try:
            yield access
        finally:
            on_close(access.close())


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        # Only the main thread can handle signals.
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
