"""How often a calibration repeats connections, link-ups and boots."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.model.attempt import Fresh

# Time of a connection besides traffic, of a link-up and of opening the link (s). A PHY of 1 Gbit/s negotiates for 2 to
# 4 s.
SET_UP_S = 0.4
LINK_UP_S = 4.0
OPENING_S = 5.0


@dataclass(frozen=True)
class Levels:
    """The repetitions: ``runs`` connections per link-up (at least 2), ``links`` fresh link-ups per boot, ``boots``
    reboots.

    The existing link-up and boot count, too: 2 fresh ones make 3.
    """

    runs: int
    links: int
    boots: int

    @property
    def connections(self) -> int:
        """The number of connections for each direction."""
        return (self.boots + 1) * (self.links + 1) * self.runs

    def seconds(self, ways: int, connection_s: int, boot_s: float) -> float:
        """Return the approximate duration for one combination in seconds."""
        ups = (self.boots + 1) * self.links * LINK_UP_S
        return OPENING_S + ways * self.connections * (connection_s + SET_UP_S) + ups + self.boots * (boot_s + OPENING_S)


def fresh_of(boot: int, link_up: int, run: int) -> Fresh:
    """Return what is fresh for the ``run``-th connection of a link-up and boot, all counted from 0."""
    if run or not (boot or link_up):
        return Fresh.CONNECTION
    return Fresh.LINK if link_up else Fresh.BOOT
