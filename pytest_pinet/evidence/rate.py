"""The rate at which a device receives right now: for progress lines, never for a verdict."""

from __future__ import annotations

import time

from pytest_pinet.errors import SshError
from pytest_pinet.shell import Shell

# A question over an open ssh connection costs some 10 ms of the node's time.
INTERVAL_S = 1.0
TIMEOUT_S = 2.0


class RateMeter:
    """Reads a device's byte counter about once a second; works with every version of every traffic tool."""

    def __init__(self, shell: Shell, device: str) -> None:
        self._shell = shell
        self._command = f"cat /sys/class/net/{device}/statistics/rx_bytes"
        self._last: tuple[float, int] | None = None
        self._rate: float | None = None
        self._silent = False

    def read(self) -> float | None:
        """The latest rate in bit/s on the wire, None while there is none. Never raises: it is only a picture.

        A device that did not answer is not asked again: to wait for it would only delay the news that its node hangs.
        """
        if self._silent:
            return None
        now = time.monotonic()
        if self._last is not None and now - self._last[0] < INTERVAL_S:
            return self._rate
        try:
            received = int(self._shell.run(self._command, timeout_s=TIMEOUT_S).stdout)
        except (SshError, ValueError):
            self._silent = True
            return None
        if self._last is not None and received >= self._last[1]:
            self._rate = (received - self._last[1]) * 8 / (now - self._last[0])
        self._last = (now, received)
        return self._rate
