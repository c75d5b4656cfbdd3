"""Limits how long a process waits for a place or a turn to measure that others hold."""

from __future__ import annotations

import time
from collections.abc import Callable

# If a worker of our own run holds the same thing for this long, it hangs.
SIBLING_S = 3600.0


class Patience:
    """Is over when others have held the resource for ``timeout_s``; time for workers of our own run does not count.

    The tests of these workers end by themselves. The clock therefore stands still while such a worker holds the
    resource, but for no longer than ``sibling_s`` without a break.
    """

    def __init__(self, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.timeout_s = timeout_s
        self.sibling_s = max(timeout_s, SIBLING_S)
        self._clock = clock
        self._looked = clock()
        self._holder = ""
        self._sibling = False
        self._counted_s = self._siblings_s = self._stretch_s = 0.0

    def look(self, holder: str, sibling: bool) -> None:
        """Update the times. ``holder`` must differ if the same holder released and acquired again."""
        now = self._clock()
        passed, self._looked = now - self._looked, now
        if self._sibling:
            self._siblings_s += passed
            self._stretch_s += passed
        else:
            self._counted_s += passed
        if holder != self._holder:
            self._holder, self._stretch_s = holder, 0.0
        self._sibling = sibling

    @property
    def hangs(self) -> bool:
        """Return whether a worker of our own run has held the resource for too long."""
        return self._sibling and self._stretch_s >= self.sibling_s

    @property
    def over(self) -> bool:
        return self.hangs or (not self._sibling and self._counted_s >= self.timeout_s)

    @property
    def remaining_s(self) -> float:
        """The time until it is over, if the holder stays the same."""
        left = self.sibling_s - self._stretch_s if self._sibling else self.timeout_s - self._counted_s
        return max(0.0, left)

    @property
    def waited_s(self) -> float:
        """The total time waited, for holders of any kind."""
        return self._counted_s + self._siblings_s

    @property
    def waited(self) -> str:
        """The time waited, in words: ``7 s``, ``7 s, and 90 s for workers of this run``."""
        if not self._siblings_s:
            return f"{self._counted_s:.0f} s"
        return f"{self._counted_s:.0f} s, and {self._siblings_s:.0f} s for workers of this run"

    @property
    def progress(self) -> str:
        """The progress in words: ``waited 7 s of 900 s``."""
        if self._sibling:
            return f"a worker of this run; waited {self._stretch_s:.0f} s for it"
        return f"waited {self._counted_s:.0f} s of {self.timeout_s:.0f} s"
