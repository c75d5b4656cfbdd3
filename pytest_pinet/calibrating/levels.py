"""What is drawn anew, and how often: connections on link-ups on boots."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.model.attempt import Fresh

# Beside its traffic a connection takes this long. A PHY of 1 Gbit/s negotiates for 2 to 4 s. Seconds.
SET_UP_S = 0.4
LINK_UP_S = 4.0
OPENING_S = 5.0


@dataclass(frozen=True)
class Levels:
    """``runs`` connections of each link-up (at least 2), ``links`` fresh link-ups of each boot, ``boots`` reboots.

    The link-up and the boot that are found count, too: 2 fresh ones make 3.
    """

    runs: int
    links: int
    boots: int

    @property
    def connections(self) -> int:
        """How many figures that gives of each direction."""
        return (self.boots + 1) * (self.links + 1) * self.runs

    def seconds(self, ways: int, connection_s: int, boot_s: float) -> float:
        """About how long it takes for one combination."""
        ups = (self.boots + 1) * self.links * LINK_UP_S
        return OPENING_S + ways * self.connections * (connection_s + SET_UP_S) + ups + self.boots * (boot_s + OPENING_S)


def fresh_of(boot: int, link_up: int, run: int) -> Fresh:
    """What is new for the ``run``-th connection of a link-up and boot, all counted from 0."""
    if run or not (boot or link_up):
        return Fresh.CONNECTION
    return Fresh.LINK if link_up else Fresh.BOOT
