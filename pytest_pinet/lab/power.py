"""Power through labgrid's drivers, with a deadline for each request and a read-back after each set.

labgrid's HTTP backends call ``requests`` without a timeout, so that a dead PDU would hang the test, and several of its
backends report success without an answer: ``poe_mib``, ``raritan`` and ``eaton`` never look at what came back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pytest_pinet.errors import PowerError
from pytest_pinet.lab.bounded_call import call_within
from pytest_pinet.lab.deadline import Deadline

REQUEST_TIMEOUT_S = 5.0
# For a whole call, whatever the backend does: SNMP tries for 6 s, a command or a dripping socket has no end.
CALL_TIMEOUT_S = 12.0
SETTLE_TIMEOUT_S = 5.0
OFF_TIME_S = 2.0

T = TypeVar("T")


@contextmanager
def _request_timeout() -> Iterator[None]:
    import requests

    original = requests.Session.request

    def bounded(session: requests.Session, *args: Any, **keywords: Any) -> requests.Response:
        keywords.setdefault("timeout", REQUEST_TIMEOUT_S)
        return original(session, *args, **keywords)

    requests.Session.request = bounded  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        requests.Session.request = original  # type: ignore[method-assign]


def _asks_a_person(driver: Any) -> bool:
    """ManualPowerDriver: who is told to pull a plug may take his time."""
    return type(driver).__name__ == "ManualPowerDriver"


class Power:
    """One node's power, by a labgrid driver with PowerProtocol."""

    def __init__(self, node: str, driver: Any) -> None:
        self._node = node
        self._driver = driver
        self._off_at: float | None = None

    def _call(self, what: str, call: Callable[[], T]) -> T:
        try:
            with _request_timeout():
                return call() if _asks_a_person(self._driver) else call_within(CALL_TIMEOUT_S, call)
        except Exception as error:
            port: Any = getattr(self._driver, "port", None)
            place = f" ({port.host}, outlet {port.index})" if hasattr(port, "host") else ""
            raise PowerError(
                f"the power switch of {self._node}{place} failed to {what}: {type(error).__name__}: {error}",
                "the lab's admin: check that the power switch is on and reachable from here",
            ) from error

    def is_on(self) -> bool | None:
        """Whether the node has power; None when this power switch cannot tell. Raises PowerError."""
        if not hasattr(self._driver, "get"):
            return None

        def get() -> bool | None:
            try:
                return bool(self._driver.get())
            except NotImplementedError:
                # labgrid's way to say so (PDUDaemonDriver).
                return None

        return self._call("say whether it is on", get)

    def rest(self) -> None:
        """After ``switch`` off, stay off for as long as the driver says (labgrid's ``delay``, 2 s).

        Capacitors keep a board alive that long.
        """
        if self._off_at is not None:
            passed = time.monotonic() - self._off_at
            time.sleep(max(0.0, float(getattr(self._driver, "delay", OFF_TIME_S)) - passed))

    def switch(self, on: bool) -> None:
        """Switch on or off and read it back. Raises PowerError when the switch refuses or lies."""
        word = "on" if on else "off"
        self._call(f"switch {word}", self._driver.on if on else self._driver.off)
        deadline = Deadline(SETTLE_TIMEOUT_S)
        if not deadline.wait_until(lambda: self.is_on() in (on, None)):
            raise PowerError(
                f"the power switch of {self._node} said yes to '{word}' but still reports the opposite",
                "the lab's admin: check outlet number and wiring of the power switch",
            )
        self._off_at = None if on else time.monotonic()
