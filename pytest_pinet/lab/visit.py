"""The use of a lab by a command: it opens links one after the other, and gives everything back at the end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from pytest_pinet.lab.access import LabAccess
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.link.link import Link
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.traffic.tool import TrafficTool

# The same time that pytest waits for nodes that other runs hold.
ACQUIRE_TIMEOUT_S = 300.0


class Visit:
    """A lab that a command uses; see ``visit``."""

    def __init__(self, lab: Lab, access: LabAccess) -> None:
        self.lab = lab
        self._access = access

    @property
    def tool(self) -> TrafficTool:
        return self._access.tool

    @contextmanager
    def link(self, combination: Combination, reset: bool = False) -> Iterator[Link]:
        """Open a link for this combination. With ``reset`` its nodes are rebooted first. Raises PinetError."""
        with self._access.open(combination, reset) as link:
            yield link

    def leave(self) -> None:
        """Give back all nodes. The next combination may use other nodes."""
        self._access.keep_only(())

    @contextmanager
    def measuring(self, combination: Combination) -> Iterator[None]:
        """Measure alone in the contention domains of this combination; then check that its nodes are still leased."""
        with self._access.exclusive(combination):
            yield
        self._access.watch()
        self._access.check(combination)

    def watch(self) -> None:
        """Raise an error if a console has shown a kernel crash. This check is cheap."""
        self._access.watch()


@contextmanager
def visit(
    lab: Lab, purpose: str, on_wait: Callable[[str], None], on_close: Callable[[list[str]], None]
) -> Iterator[Visit]:
    """Use a lab: start it if needed, and leave it as it was found, even after an exception or SIGTERM.

    ``on_close`` gets a list of what could not be undone.
    """
    access = LabAccess(lab, Identity.of_this_process(purpose), ACQUIRE_TIMEOUT_S, on_wait)
    with _terminated_like_interrupted():
        try:
            yield Visit(lab, access)
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
