"""How commands reach a node: by a network interface of its own or by the interface under test."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

FORM = "separate, same, vlan:N (N from 1 to 4094) or wifi"
_VLAN = re.compile(r"vlan:([1-9][0-9]{0,3})")


class ManagementMode(StrEnum):
    """The kinds of ``management:`` in a lab file."""

    SEPARATE = "separate"
    SAME = "same"
    VLAN = "vlan"
    WIFI = "wifi"


_COSTS = {
    ManagementMode.SEPARATE: "no cost",
    ManagementMode.SAME: (
        "the port stays in its VLAN, the link is never taken down, and settings that take it down are skipped"
    ),
    ManagementMode.VLAN: (
        "as with 'same'; it also shares queues, interrupts and offloads with the traffic, "
        "and every kernel under test needs 802.1Q"
    ),
    ManagementMode.WIFI: "Wi-Fi driver and firmware run beside the traffic, and the connection may roam",
}


@dataclass(frozen=True)
class Management:
    """How commands reach a node; its text is the form in the lab file. ``vlan`` is the VLAN's number, or None."""

    mode: ManagementMode
    vlan: int | None = None

    @classmethod
    def parse(cls, text: str) -> Management:
        """Parse ``same`` or ``vlan:4000``. Raises ValueError with the accepted form."""
        if tagged := _VLAN.fullmatch(text):
            if (vlan := int(tagged[1])) <= 4094:
                return cls(ManagementMode.VLAN, vlan)
        elif text != ManagementMode.VLAN and text in list(ManagementMode):
            return cls(ManagementMode(text))
        raise ValueError(f"expected {FORM}, got {text!r}")

    @property
    def shares_interface(self) -> bool:
        """Whether the connection uses an interface under test, whose link must stay up."""
        return self.mode in (ManagementMode.SAME, ManagementMode.VLAN)

    @property
    def cost(self) -> str:
        """What this costs, as the end of a sentence."""
        return _COSTS[self.mode]

    def __str__(self) -> str:
        return str(self.mode) if self.vlan is None else f"{self.mode}:{self.vlan}"


def cuts_management(setting: str, end: str) -> str:
    """Return the sentence about a setting that must not be applied to an interface that carries the management."""
    return f"{setting} may take down the link of {end}, which also carries the connection to this node"
