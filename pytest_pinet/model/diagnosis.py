"""The diagnosis of a result: the facts it is based on, the possible causes, and the cause found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_pinet.model.conditions import PcieLink
from pytest_pinet.model.evidence import Heat, OtherWork, ProcessorLoad
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.quantities import Bitrate


class Cause(StrEnum):
    """The causes that can limit goodput, by their names in reports."""

    LINE_RATE = "line rate"
    SENDER = "sender capped"
    LINK = "link speed or duplex"
    POWER = "thermal or under-voltage"
    USB = "USB bus"
    PCIE = "PCIe"
    CPU = "CPU"
    IRQ = "interrupts on one core"
    OTHERS = "other programs"
    PEER = "peer"
    WINDOW = "window"
    LOSS = "loss"
    SHAPER = "shaper"
    NOTHING = "nothing decisive"


@dataclass(frozen=True)
class EndFacts:
    """The facts about one end of the traffic; None is a value that is not known.

    ``machine`` is equal for ends that share one kernel. ``negotiated_mbps`` is the speed of the link, ``rated_mbps``
    the highest speed of the NIC. ``usb_mbps`` is the signal rate at which a USB NIC was enumerated. ``load`` is that of
    the busiest CPU, ``tool_percent`` the percent of one core that the traffic tool used. ``throttled`` lists the
    firmware's throttling during the traffic; ``heat`` was read during the traffic. ``ceiling`` is the goodput over the
    end's own loopback. ``others`` is the work of other programs, ``stolen`` the processor time that a hypervisor or a
    quota took (a share of one CPU): the largest of all connections.
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
    others: OtherWork | None = None
    stolen: float | None = None


@dataclass(frozen=True)
class DiagnosisFacts:
    """The facts about one direction of one result; None is a value that is not known.

    ``wire`` is the most that the link can carry and ``because`` says why. ``both`` is the sum of both directions if
    they ran at once. ``offered`` is the rate limit of ``sender``. ``retransmit_rate`` and ``loss_rate`` are shares of
    all segments and datagrams. ``window`` is the requested window (bytes, all streams). ``receiver_limited`` and
    ``sender_limited`` are shares of the time. ``spread`` is the relative spread of the rate over SPREAD_S (1.4826 times
    the median absolute deviation).
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
        """Goodput as a share of what the wire can carry."""
        return self.goodput.bps / self.wire.bps if self.wire.bps > 0 else 0.0

    @property
    def one_machine(self) -> bool:
        """Whether all ends share one kernel, so that processor load cannot be attributed to one end."""
        known = {end.machine for end in self.ends}
        return len(self.ends) > 1 and len(known) == 1 and None not in known


@dataclass(frozen=True)
class Diagnosis:
    """A cause, a line of ``text`` for readers, and the ``numbers`` that prove it (rates in bit/s, times in seconds)."""

    cause: Cause
    text: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Suspect:
    """A difference between two builds beside the goodput: its values in A and in B, and a sentence for readers."""

    name: str
    a: str
    b: str
    text: str
