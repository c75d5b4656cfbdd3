"""Power through labgrid's drivers, with a deadline for each request and a read-back after each switch.

labgrid's HTTP backends call ``requests`` without a timeout, so that a dead PDU would hang the test. Several backends
report success without reading the answer: ``poe_mib``, ``raritan`` and ``eaton``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pytest_pinet.errors import PinetError, PowerError
from pytest_pinet.execution.deadline import Deadline, call_within

REQUEST_TIMEOUT_S = 5.0
# For a whole call of any backend. SNMP retries for 6 s; a command or a slow socket may never end.
CALL_TIMEOUT_S = 12.0
SETTLE_TIMEOUT_S = 5.0
OFF_TIME_S = 2.0

T = TypeVar("T")


@contextmanager
def _request_timeout(timeout_s: float) -> Iterator[None]:
    import requests

    original = requests.Session.request

    def bounded(session: requests.Session, *args: Any, **keywords: Any) -> requests.Response:
        keywords.setdefault("timeout", timeout_s)
        return original(session, *args, **keywords)

    requests.Session.request = bounded  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        requests.Session.request = original  # type: ignore[method-assign]


class NoPower:
    """The power of a node whose lab file names no power switch: always on, for all that is known."""

    def __init__(self, node: str) -> None:
        self._node = node

    def is_on(self) -> None:
        """Return None: no switch can report it."""

    def rest(self) -> None:
        """Do nothing: the power was not switched."""

    def switch(self, on: bool) -> None:
        """Raises PowerError."""
        word = "on" if on else "off"
        raise PowerError(
            f"no power control: {self._node} cannot be switched {word}", f"unplug {self._node} and plug it in again"
        )


class Power:
    """The power of one node, through a labgrid driver with PowerProtocol.

    Each answer may take ``patience`` times as long as usual: a virtual switch has to end a board that runs on the same
    machine as all other work.
    """

    def __init__(self, node: str, driver: Any, patience: float = 1.0) -> None:
        self._node = node
        self._driver = driver
        self._patience = patience
        self._off_at: float | None = None

    def _call(self, what: str, call: Callable[[], T]) -> T:
        # A person who switches the power gets no deadline.
        manual = type(self._driver).__name__ == "ManualPowerDriver"
        timeout_s = getattr(self._driver, "call_timeout_s", CALL_TIMEOUT_S) * self._patience
        failed = f"the power switch of {self._node}{self._place} failed to {what}"
        act = "the lab's admin: check that the power switch is on and reachable from here"
        try:
            with _request_timeout(REQUEST_TIMEOUT_S * self._patience):
                return call() if manual else call_within(timeout_s, call)
        except PinetError as error:
            # Our own drivers say what is wrong, and what to do.
            raise PowerError(f"{failed}: {error.message}", getattr(error, "act", "") or act) from error
        except Exception as error:
            raise PowerError(f"{failed}: {type(error).__name__}: {error}", act) from error

    @property
    def _place(self) -> str:
        port: Any = getattr(self._driver, "port", None)
        if hasattr(port, "interface"):
            return f" (port {port.interface} of switch {port.switch})"
        return f" ({port.host}, outlet {port.index})" if hasattr(port, "host") else ""

    def is_on(self) -> bool | None:
        """Return whether the node has power; None if this power switch cannot report it. Raises PowerError."""
        if not hasattr(self._driver, "get"):
            return None

        def get() -> bool | None:
            try:
                return bool(self._driver.get())
            except NotImplementedError:
                # PDUDaemonDriver raises this because it cannot read the state.
                return None

        return self._call("report its state", get)

    def rest(self) -> None:
        """After an off, wait for labgrid's ``delay`` (default 2 s): capacitors keep a board alive for so long."""
        if self._off_at is not None:
            passed = time.monotonic() - self._off_at
            time.sleep(max(0.0, float(getattr(self._driver, "delay", OFF_TIME_S)) - passed))

    def switch(self, on: bool) -> None:
        """Switch on or off and read the state back. Raises PowerError if the switch refuses or reports the opposite."""
        word = "on" if on else "off"
        self._call(f"switch {word}", self._driver.on if on else self._driver.off)
        deadline = Deadline(SETTLE_TIMEOUT_S * self._patience)
        if not deadline.wait_until(lambda: self.is_on() in (on, None)):
            raise PowerError(
                f"the power switch of {self._node} accepted '{word}', but still reports the opposite",
                "the lab's admin: check the outlet number and the wiring of the power switch",
            )
        self._off_at = None if on else time.monotonic()
