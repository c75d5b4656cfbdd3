"""The lab for one process: started when it must be, connected to when the first link is opened, left at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_pinet.errors import PinetError
from pytest_pinet.lab.identity import Identity
from pytest_pinet.lab.launcher import LabUse, launcher_of
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import VIRTUAL, Lab, Node
from pytest_pinet.model.scale import Scale

if TYPE_CHECKING:
    from pytest_pinet.lab.link import Link
    from pytest_pinet.lab.session import LabSession, Prepare
    from pytest_pinet.traffic.http import Http
    from pytest_pinet.traffic.iperf3 import Iperf3

RUN_VARIABLE = "PINET_RUN"


class LabAccess:
    """Opens links; labgrid is imported, and the lab started, when the first one is asked for.

    A lab that could not be reached is not tried again: every later call raises the same error at once.
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
        self._tool: Iperf3 | None = None
        self._http: Http | None = None
        self._use: LabUse | None = None
        # Known as long as anybody may report on the run.
        self._last_scale = Scale()
        self._environment: dict[str, str | None] = {}
        # Tells where the run keeps the records of the consoles; asked for when the lab is connected to.
        self.folder: Callable[[], Path] | None = None
        # Has a build under test run on the nodes before their link is opened.
        self.prepare: Prepare = lambda *_: None
        # Raises KeyboardInterrupt once the run is broken off elsewhere.
        self.interrupt: Callable[[], None] = lambda: None

    @property
    def tool(self) -> Iperf3:
        """The traffic tool; it remembers the versions that it found on each end."""
        if self._tool is None:
            from pytest_pinet.traffic.iperf3 import Iperf3

            # Every question costs instructions, and falls into another moment of such an end's time each time.
            nodes = self._lab.nodes.values() if self._lab is not None else ()
            quiet = {node.name for node in nodes if node.clock == VIRTUAL}
            self._tool = Iperf3(quiet=quiet)
        return self._tool

    @property
    def http(self) -> Http:
        """The tool for HTTP; it remembers what it found on each end."""
        if self._http is None:
            from pytest_pinet.traffic.http import Http

            self._http = Http()
        return self._http

    @property
    def scale(self) -> Scale:
        """The share of their rate at which the links of a lab run that was started for us; all of it otherwise."""
        return self._last_scale

    def start(self) -> None:
        """Make sure that the lab is up and stays so while this process uses it. Raises PinetError."""
        assert self._lab is not None
        launcher = launcher_of(self._lab)
        if launcher is None or self._use is not None:
            return
        # Workers inherit their controller's; all of them are one run.
        run = os.environ.get(RUN_VARIABLE, "")
        run = run if run.isdigit() else str(os.getpid())
        lab = self._lab
        self._use = launcher.use(lab, run, lambda: self._on_wait(f"starting lab {lab.name}"))
        self._last_scale = self._use.scale
        for name, value in {**self._use.environment, RUN_VARIABLE: run}.items():
            self._environment.setdefault(name, os.environ.get(name))
            os.environ[name] = value

    def _connect(self) -> LabSession:
        if self._error is not None:
            raise self._error
        if self._session is None:
            assert self._lab is not None
            try:
                self.start()
                from pytest_pinet.lab.session import LabSession

                folder = self.folder() if self.folder is not None else None
                self._session = LabSession(self._lab, self._identity, self._timeout_s, self._waits, folder)
                self._session.scale = self.scale.share
            except PinetError as error:
                self._error = error
                raise
        return self._session

    def _waits(self, text: str) -> None:
        self.interrupt()
        self._on_wait(text)

    def open(self, combination: Combination, reset: bool = False) -> AbstractContextManager[Link]:
        """A link for this combination, on nodes that are booted anew with ``reset``.

        Raises PinetError, and KeyboardInterrupt once the run is broken off elsewhere.
        """
        self.interrupt()
        return self._connect().open(combination, reset, self.prepare)

    def watch(self) -> None:
        """Raise what the consoles of the open link have told of a broken kernel or supply; cheap.

        KeyboardInterrupt once the run is broken off elsewhere.
        """
        self.interrupt()
        if self._session is not None:
            self._session.watch()

    def exclusive(self, combination: Combination) -> AbstractContextManager[None]:
        """Measure alone in the contention domains of this combination."""
        return self._session.exclusive(combination) if self._session else nullcontext()

    def check(self, combination: Combination) -> None:
        """Make sure that the nodes are still ours. Raises LeaseError."""
        if self._session is not None:
            self._session.check(combination)

    def keep_only(self, nodes: Iterable[Node]) -> None:
        """Leave and release all nodes but these."""
        if self._session is not None:
            self._session.keep_only(nodes)

    def distrust(self, combination: Combination) -> None:
        """Log out of these nodes after trouble."""
        if self._session is not None:
            self._session.distrust(combination)

    def take_warnings(self) -> list[str]:
        """What could not be undone since the last call."""
        return self._session.take_warnings() if self._session is not None else []

    def close(self) -> list[str]:
        """Leave the lab, which the last one stops if pytest started it; returns what could not be undone.

        Harmless again.
        """
        warnings: list[str] = []
        if self._session is not None:
            session, self._session = self._session, None
            warnings += session.close()
        if self._use is not None:
            assert self._lab is not None
            use, self._use = self._use, None
            try:
                use.leave()
            except PinetError as error:
                warnings.append(f"could not stop lab {self._lab.name}: {error}")
        while self._environment:
            name, value = self._environment.popitem()
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        return warnings
