"""Counts the connections and the seconds of traffic of this run over a device: a verdict may depend on their order."""

from __future__ import annotations

import time

from pytest_pinet.lab.link.end import End
from pytest_pinet.measure.end_settings import once_per_boot
from pytest_pinet.model.lab import VIRTUAL
from pytest_pinet.traffic.clock import read_clock


class BootTraffic:
    """The traffic of this run over a device in one boot. ``booted_s`` is a moment of our monotonic clock."""

    def __init__(self, booted_s: float | None) -> None:
        self._booted_s = booted_s
        self._link_up: int | None = None
        self._number = 0
        self._seconds = 0.0

    def note_link_up(self, carrier_changes: int | None) -> None:
        """Count connections from 1 again if the carrier changed (None: the device does not count its changes)."""
        if carrier_changes != self._link_up:
            self._link_up, self._number = carrier_changes, 0

    def begin(self, fresh_link: bool) -> tuple[int, float | None, float]:
        """Count a connection. Return its number since the link-up, the age of the boot, and the traffic before it."""
        self._number = 1 if fresh_link else self._number + 1
        age_s = None if self._booted_s is None else time.monotonic() - self._booted_s
        return self._number, age_s, self._seconds

    def add(self, seconds: float) -> None:
        """Add the traffic of the latest connection."""
        self._seconds += seconds


def boot_traffic(end: End) -> BootTraffic:
    """Return the traffic over the device of this end since the boot of its node."""
    return once_per_boot(end, f"traffic {end.device}", lambda: BootTraffic(_booted_s(end)))


def _booted_s(end: End) -> float | None:
    """Return when the node booted on our monotonic clock; None if it has a clock of its own, or does not tell."""
    clock = None if end.endpoint.node.clock == VIRTUAL else read_clock(end.shell)
    return None if clock is None else clock.here(0.0)
