"""What limited a figure: the numbers that may say so, the causes, and the one that was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_pinet.model.conditions import PcieLink
from pytest_pinet.model.evidence import Heat, ProcessorLoad
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.quantities import Bitrate


class Cause(StrEnum):
    """What can limit goodput, as reports name it."""

    LINE_RATE = "line rate"
    SENDER = "sender capped"
    LINK = "link speed or duplex"
    POWER = "thermal or under-voltage"
    USB = "USB bus"
    PCIE = "PCIe"
    CPU = "CPU"
    IRQ = "interrupts on one core"
    PEER = "peer"
    WINDOW = "window"
    LOSS = "loss"
    SHAPER = "shaper"
    NOTHING = "nothing decisive"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class EndFacts:
    """One end of the traffic; None is what nobody told.

    ``machine`` is the same for ends that share one kernel. ``negotiated_mbps`` is its link, ``rated_mbps`` what its NIC
    can. ``usb_mbps`` is the signal rate at which a USB NIC was enumerated. ``load`` is that of its busiest CPU,
    ``tool_percent`` what the traffic tool used of one core. ``throttled`` is what the firmware did in that time;
    ``heat`` was read in mid-traffic. ``ceiling`` is what the end moves over its own loopback.
    """

    name: str
    under_test: bool = False
    machine: str | None = None
    negotiated_mbps: int | None = None
    rated_mbps: int | None = None
    duplex: str | None = None
    bus: Bus | None = None
    usb_mbps: float | None = None
    pcie: PcieLink | None = None
    pcie_leaves: tuple[Bitrate, Bitrate] | None = None
    load: ProcessorLoad | None = None
    tool_percent: float | None = None
    throttled: tuple[str, ...] = ()
    heat: Heat | None = None
    ceiling: Bitrate | None = None


@dataclass(frozen=True)
class Facts:
    """One direction of one result; None is what nobody told.

    ``wire`` is the most that the link carries and ``because`` says why; ``both`` is what both directions got together
    where they ran at once. ``offered`` is what ``sender`` was told to send at most. ``retransmit_rate`` and
    ``loss_rate`` are parts of all segments and datagrams. ``window`` is what was asked for (bytes, all streams);
    ``receiver_limited`` and ``sender_limited`` are parts of the time. ``spread`` is the relative spread of the rate
    over SPREAD_S (1.4826 times the median absolute deviation).
    """

    direction: str
    goodput: Bitrate
    wire: Bitrate
    because: str = ""
    both: Bitrate | None = None
    offered: Bitrate | None = None
    sender: str = ""
    ends: tuple[EndFacts, ...] = ()
    streams: int = 1
    mss: int | None = None
    rtt_s: float | None = None
    rtt_min_s: float | None = None
    window: int | None = None
    receiver_limited: float | None = None
    sender_limited: float | None = None
    retransmit_rate: float | None = None
    loss_rate: float | None = None
    spread: float | None = None

    @property
    def share(self) -> float:
        """The part of the wire that was reached."""
        return self.goodput.bps / self.wire.bps if self.wire.bps > 0 else 0.0

    @property
    def one_machine(self) -> bool:
        """Whether all ends share one kernel, so that nobody can tell whose work its processors did."""
        known = {end.machine for end in self.ends}
        return len(self.ends) > 1 and len(known) == 1 and None not in known


@dataclass(frozen=True)
class Diagnosis:
    """``text`` is a line for a reader; ``numbers`` are those that it rests on, rates in bit/s and times in seconds."""

    cause: Cause
    text: str
    numbers: Mapping[str, float] = field(default_factory=dict)
