"""How a command works with a lab: links are opened one after the other, and everything is given back in the end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from pytest_pinet.lab.identity import Identity
from pytest_pinet.lab.link import Link
from pytest_pinet.lab_access import LabAccess
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.traffic.iperf3 import Iperf3

# As long as pytest waits for nodes that others have.
ACQUIRE_TIMEOUT_S = 300.0


class Visit:
    """A lab in use by a command; see ``visit``."""

    def __init__(self, lab: Lab, access: LabAccess) -> None:
        self.lab = lab
        self._access = access

    @property
    def tool(self) -> Iperf3:
        return self._access.tool

    @contextmanager
    def link(self, combination: Combination, reset: bool = False) -> Iterator[Link]:
        """A link for this combination, on nodes that are booted anew with ``reset``. Raises PinetError."""
        with self._access.open(combination, reset) as link:
            yield link

    def leave(self) -> None:
        """Give back all nodes, since those of the next combination may be others."""
        self._access.keep_only(())

    @contextmanager
    def measuring(self, combination: Combination) -> Iterator[None]:
        """Measure alone in the contention domains of this combination; afterwards its nodes must still be ours."""
        with self._access.exclusive(combination):
            yield
        self._access.watch()
        self._access.check(combination)

    def watch(self) -> None:
        """Raise what a console told of a broken kernel; cheap."""
        self._access.watch()


@contextmanager
def visit(
    lab: Lab, purpose: str, on_wait: Callable[[str], None], on_close: Callable[[list[str]], None]
) -> Iterator[Visit]:
    """A lab, started where it must be, and left as it was found whatever happens, a SIGTERM among it.

    ``on_close`` is told what could not be undone.
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
        # Signals are for the main thread to handle, whoever that is.
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
