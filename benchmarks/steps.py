"""A stopwatch for both sides of the benchmark. It prints its laps as JSON."""

from __future__ import annotations

import json
import time


class StopWatch:
    """Measures the seconds of each named step. Laps with the same name add up."""

    def __init__(self) -> None:
        self._laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self._laps[name] = self._laps.get(name, 0.0) + now - self._last
        self._last = now

    def print(self) -> None:
        print(json.dumps(self._laps))
