"""How long one waits for what others hold, be it a place or a turn to measure."""

from __future__ import annotations

import time
from collections.abc import Callable

# A worker of our own run that holds the very same thing for as long as this hangs.
SIBLING_S = 3600.0


class Patience:
    """Ends when others have been in the way for ``timeout_s``; workers of our own run are waited for besides.

    Their tests end by themselves, so that the clock stands still while one of them is in the way, but for no longer
    than ``sibling_s`` at a stretch.
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
        """Take in who is in the way now: one who has let go meanwhile and holds again must be called differently."""
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
        """Whether it is a worker of our own run that is in the way, and for too long."""
        return self._sibling and self._stretch_s >= self.sibling_s

    @property
    def over(self) -> bool:
        return self.hangs or (not self._sibling and self._counted_s >= self.timeout_s)

    @property
    def remaining_s(self) -> float:
        """Until it is over, unless somebody else is in the way by then."""
        left = self.sibling_s - self._stretch_s if self._sibling else self.timeout_s - self._counted_s
        return max(0.0, left)

    @property
    def waited_s(self) -> float:
        """How long we have waited for anybody."""
        return self._counted_s + self._siblings_s

    @property
    def waited(self) -> str:
        """The same in words: ``7 s``, ``7 s, and 90 s for workers of this run``."""
        if not self._siblings_s:
            return f"{self._counted_s:.0f} s"
        return f"{self._counted_s:.0f} s, and {self._siblings_s:.0f} s for workers of this run"

    @property
    def progress(self) -> str:
        """How far it has come: ``waited 7 s of 900 s``."""
        if self._sibling:
            return f"a worker of this run; waited {self._stretch_s:.0f} s for it"
        return f"waited {self._counted_s:.0f} s of {self.timeout_s:.0f} s"
