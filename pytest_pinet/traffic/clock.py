"""The clocks of ends, so that what happens on several of them can be put side by side."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.errors import LabError
from pytest_pinet.shell import Shell

# Each answer bounds the truth from both sides, and several at different moments bound it closer than one.
QUESTIONS = 3
ANSWER_S = 2.0
# /proc/uptime has two decimals, the rest is cut off.
GRAIN_S = 0.01
# How long a server may take from its streams to telling: it looks every 10 ms, and a look takes some more.
LOOK_S = 0.015
# Of 100 errors so many lie within two standard deviations (GUM: expanded uncertainty, k = 2): 95.
COVERAGE = 2.0


@dataclass(frozen=True)
class Clock:
    """``offset_s`` added to an end's uptime is the runner's monotonic clock; the truth is ``within_s`` of it."""

    offset_s: float
    within_s: float

    def here(self, uptime_s: float) -> float:
        """The runner's monotonic time of a moment that the end told."""
        return uptime_s + self.offset_s

    def there(self, monotonic_s: float) -> float:
        """The end's uptime at a moment of the runner."""
        return monotonic_s - self.offset_s

    @property
    def moment_u_s(self) -> float:
        """Standard uncertainty of ``here`` of the uptime at which a server told that its streams stood.

        Each part lies anywhere within its bounds: that of a clock within w has w / sqrt(3).
        """
        bounds = self.within_s, GRAIN_S / 2, LOOK_S / 2
        return math.sqrt(sum(bound**2 for bound in bounds) / 3)


def apart_within_s(first: Clock, last: Clock) -> float:
    """How sure the time between two such moments is: it is off by no more in 95 of 100 cases."""
    return COVERAGE * math.hypot(first.moment_u_s, last.moment_u_s)


def read_clock(shell: Shell) -> Clock | None:
    """Ask an end for its uptime, which needs nothing but a shell there; None where it does not tell."""
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
    """From when it was asked, the uptime that it told, and when that came: it was read somewhere in between."""
    bounds = [(asked - uptime_s - GRAIN_S, came - uptime_s) for asked, uptime_s, came in answers]
    low, high = max(low for low, _ in bounds), min(high for _, high in bounds)
    if low > high:
        # One of both clocks was moved meanwhile, so that no offset fits all answers.
        low, high = min(bounds, key=lambda bound: bound[1] - bound[0])
    return Clock((low + high) / 2, (high - low) / 2)
