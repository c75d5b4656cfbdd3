"""Access of one process to its lab: start the lab if needed, connect at the first link, leave at the end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from pytest_pinet.errors import PinetError
from pytest_pinet.evidence.other_work import RUN_VARIABLE
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.launcher import LabUse, environment, launcher_of
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab, Node, Scale

if TYPE_CHECKING:
    from pytest_pinet.lab.link.link import Link
    from pytest_pinet.lab.session import LabSession, Prepare
    from pytest_pinet.model.traffic import Traffic
    from pytest_pinet.traffic.tool import TrafficTool

# How long a command waits for nodes that other runs hold; pytest waits for the same time.
ACQUIRE_TIMEOUT_S = 300.0


class LabAccess:
    """Opens links. The first link imports labgrid and starts the lab.

    If the lab cannot be reached, every later call raises the same error at once, without another attempt.
    """

    def __init__(
        self, lab: Lab | None, identity: Identity, acquire_timeout_s: float, on_wait: Callable[[str], None]
    ) -> None:
        self._lab = lab
        self._identity = identity
        self._timeout_s = acquire_timeout_s
        self._on_wait = on_wait
        self._session: LabSession | None = None
        self._error: PinetError | None = None
        self._tools: dict[str, TrafficTool] = {}
        self._use: LabUse | None = None
        # The share of the full rate at which the links run; the full rate for a lab without a launcher. Kept after the
        # lab is left, because reports read it until the run ends.
        self.scale = Scale()
        self._environment = ExitStack()
        self._started = False
        # Returns the folder for the console records of the run. Called when we connect to the lab.
        self.folder: Callable[[], Path] | None = None
        # Makes the nodes run the build under test before their link is opened.
        self.prepare: Prepare = lambda *_: None
        self._interrupt: Callable[[], None] = lambda: None

    @property
    def tool(self) -> TrafficTool:
        """The tool for TCP and UDP; it caches what each end supports. Raises ConfigError."""
        return self._tool(self._used_lab.traffic_tool)

    def tool_for(self, traffic: Traffic) -> TrafficTool:
        """The tool for this traffic. Raises ConfigError."""
        return self._tool(self._used_lab.tool_for(traffic))

    @property
    def _used_lab(self) -> Lab:
        assert self._lab is not None
        return self._lab

    def _tool(self, name: str) -> TrafficTool:
        if name not in self._tools:
            from pytest_pinet.traffic.tool import make_tool

            self._tools[name] = make_tool(name, self._used_lab)
        return self._tools[name]

    def start(self) -> None:
        """Start the lab if it is down, and keep it up while this process uses it. Raises PinetError."""
        lab = self._used_lab
        if self._started:
            return
        launcher = launcher_of(lab)
        # xdist workers inherit the variable of their controller; all of them are one run.
        run = os.environ.get(RUN_VARIABLE, "")
        run = run if run.isdigit() else str(os.getpid())
        variables = {RUN_VARIABLE: run}
        if launcher is not None:
            self._use = launcher.use(lab, run, lambda: self._on_wait(f"starting lab {lab.name}"))
            self.scale = self._use.scale
            variables |= self._use.environment
        self._environment.enter_context(environment(variables))
        self._started = True

    def _connect(self) -> LabSession:
        if self._error is not None:
            raise self._error
        if self._session is None:
            try:
                # Load the tool first: if that fails, no lab is started and no node booted in vain.
                _ = self.tool
                self.start()
                from pytest_pinet.lab.session import LabSession

                folder = self.folder() if self.folder is not None else None
                self._session = LabSession(self._used_lab, self._identity, self._timeout_s, self._waits, folder)
                self._session.scale = self.scale.share
            except PinetError as error:
                self._error = error
                raise
        return self._session

    def abort_by(self, interrupt: Callable[[], None]) -> None:
        """Call a function at each wait. It raises KeyboardInterrupt once another process has aborted the run."""
        self._interrupt = interrupt

    def _waits(self, text: str) -> None:
        self._interrupt()
        self._on_wait(text)

    def open(self, combination: Combination, reset: bool = False) -> AbstractContextManager[Link]:
        """Open a link; ``reset`` reboots its nodes first. Raises PinetError; KeyboardInterrupt in an aborted run."""
        self._interrupt()
        return self._connect().open(combination, reset, self.prepare)

    def take_if_free(self, combination: Combination) -> bool:
        """Lease the nodes of a combination without waiting. Return False, and lease none, if one is not free."""
        return self._connect().take_if_free(combination)

    def watch(self) -> None:
        """Raise the error of a kernel crash or supply fault on a console, or KeyboardInterrupt as ``open``. Cheap."""
        self._interrupt()
        if self._session is not None:
            self._session.watch()

    def exclusive(self, combination: Combination) -> AbstractContextManager[None]:
        """Measure alone in the contention domains of this combination."""
        return self._session.exclusive(combination) if self._session else nullcontext()

    @contextmanager
    def measuring(self, combination: Combination) -> Iterator[None]:
        """Measure alone in the contention domains of this combination; then check its consoles and its leases."""
        with self.exclusive(combination):
            yield
        self.watch()
        self.check(combination)

    def check(self, combination: Combination) -> None:
        if self._session is not None:
            self._session.check(combination)

    def keep_only(self, nodes: Iterable[Node]) -> None:
        if self._session is not None:
            self._session.keep_only(nodes)

    def distrust(self, combination: Combination) -> None:
        """Log out of these nodes after trouble."""
        if self._session is not None:
            self._session.distrust(combination)

    def take_warnings(self) -> list[str]:
        return self._session.take_warnings() if self._session is not None else []

    def close(self) -> list[str]:
        """Leave the lab, and return what could not be undone. A second call does nothing.

        If pytest started the lab, the last process to leave stops it.
        """
        warnings: list[str] = []
        if self._session is not None:
            session, self._session = self._session, None
            warnings += session.close()
        if self._use is not None:
            use, self._use = self._use, None
            try:
                use.leave()
            except PinetError as error:
                warnings.append(f"could not stop lab {self._used_lab.name}: {error}")
        self._environment.close()
        self._started = False
        return warnings


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
