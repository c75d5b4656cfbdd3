"""The clocks of ends, so that what happens on several of them can be put side by side."""

from __future__ import annotations

import time
from dataclasses import dataclass

from pytest_pinet.errors import LabError
from pytest_pinet.shell import Shell

# The best of so many questions: an answer that took long may have been written at any time before.
QUESTIONS = 2
ANSWER_S = 2.0


@dataclass(frozen=True)
class Clock:
    """``offset_s`` added to an end's uptime is the runner's monotonic clock, within half of ``round_trip_s``."""

    offset_s: float
    round_trip_s: float

    def here(self, uptime_s: float) -> float:
        """The runner's monotonic time of a moment that the end told."""
        return uptime_s + self.offset_s

    def there(self, monotonic_s: float) -> float:
        """The end's uptime at a moment of the runner."""
        return monotonic_s - self.offset_s


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
        answered = time.monotonic()
        found.append(Clock((asked + answered) / 2 - uptime_s, answered - asked))
    return min(found, key=lambda clock: clock.round_trip_s)
