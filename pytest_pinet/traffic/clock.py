"""The clocks of ends, relative to the runner's clock, so that events on several ends can be compared."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.errors import LabError
from pytest_pinet.execution.shell import Shell

# Each answer bounds the offset from both sides. Several answers give narrower bounds than one.
QUESTIONS = 3
ANSWER_S = 2.0
# /proc/uptime has two decimals; the rest is cut off.
GRAIN_S = 0.01
# The longest delay of a server's report that its streams stand: it polls every 10 ms, and a poll takes some time.
LOOK_S = 0.015
# Coverage factor: 95 of 100 errors lie within two standard deviations (GUM: expanded uncertainty, k = 2).
COVERAGE = 2.0


@dataclass(frozen=True)
class Clock:
    """The offset of an end's clock: uptime plus ``offset_s`` is the runner's monotonic clock.

    Its error is below ``within_s``.
    """

    offset_s: float
    within_s: float

    def here(self, uptime_s: float) -> float:
        """Return the runner's monotonic time for an uptime of the end."""
        return uptime_s + self.offset_s

    def there(self, monotonic_s: float) -> float:
        """Return the end's uptime for a monotonic time of the runner."""
        return monotonic_s - self.offset_s

    @property
    def moment_u_s(self) -> float:
        """Standard uncertainty of ``here`` for the uptime at which a server reported its streams.

        Each error is uniform within its bounds; the standard uncertainty of a uniform error within w is w / sqrt(3).
        """
        bounds = self.within_s, GRAIN_S / 2, LOOK_S / 2
        return math.sqrt(sum(bound**2 for bound in bounds) / 3)


def apart_within_s(first: Clock, last: Clock) -> float:
    """Return the uncertainty of the time between two such moments: 95 of 100 errors are smaller."""
    return COVERAGE * math.hypot(first.moment_u_s, last.moment_u_s)


def read_clock(shell: Shell) -> Clock | None:
    """Read the uptime of an end, which needs only a shell there. Return None if it cannot be read."""
    found = []
    for _ in range(QUESTIONS):
        asked = time.monotonic()
        try:
            text = shell.run("cat /proc/uptime", timeout_s=ANSWER_S).stdout
            uptime_s = float(text.split()[0])
        except (LabError, ValueError, IndexError):
            return None
        found.append((asked, uptime_s, time.monotonic()))
    return clock_of(found)


def clock_of(answers: Sequence[tuple[float, float, float]]) -> Clock:
    """Return the clock for answers of (time before the read, uptime, time after the read)."""
    bounds = [(asked - uptime_s - GRAIN_S, came - uptime_s) for asked, uptime_s, came in answers]
    low, high = max(low for low, _ in bounds), min(high for _, high in bounds)
    if low > high:
        # One clock was set meanwhile, so that no offset fits all answers.
        low, high = min(bounds, key=lambda bound: bound[1] - bound[0])
    return Clock((low + high) / 2, (high - low) / 2)
