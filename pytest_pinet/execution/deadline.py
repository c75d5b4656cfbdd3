"""A deadline that is passed down the calls, so that code waits for conditions and never sleeps for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable


class Deadline:
    """A point in monotonic time that all steps of a task share."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def remaining_s(self) -> float:
        return max(0.0, self._end - time.monotonic())

    @property
    def expired(self) -> bool:
        return time.monotonic() >= self._end

    def wait_until(self, condition: Callable[[], bool], interval_s: float = 0.05) -> bool:
        """Poll until the condition holds. Return False if the deadline passes first."""
        while not condition():
            if self.expired:
                return False
            time.sleep(min(interval_s, self.remaining_s))
        return True
