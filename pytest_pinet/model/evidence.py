"""What is known of the ends beside the traffic: their state, what they counted, and the diagnosis made from both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.quantities import Bitrate

# If the time around the traffic is a larger share of it than this, loads are shares of the whole window.
AROUND = 0.25


@dataclass(frozen=True)
class Trouble:
    """What makes a value invalid, in one sentence, and what to do about it; empty if that is not known."""

    text: str
    act: str = ""


@dataclass(frozen=True)
class PcieLink:
    """A PCIe link: GT/s per lane, number of lanes, and the largest payload of its packets (MPS) in bytes.

    ``payload`` is None if it is not known. Raises ValueError for impossible values.
    """

    gtps: float
    lanes: int
    payload: int | None = None

    def __post_init__(self) -> None:
        if not self.gtps > 0 or self.lanes < 1 or (self.payload is not None and self.payload < 1):
            raise ValueError(f"the values of a PCIe link must be above 0: {self!r}")

    @property
    def capacity(self) -> float:
        """GT/s times lanes; useful only to compare links."""
        return self.gtps * self.lanes

    def __str__(self) -> str:
        return f"{self.gtps:g} GT/s x{self.lanes}"


@dataclass(frozen=True)
class Throttling:
    """The bits of ``vcgencmd get_throttled``: bits 0 to 3 are the state now, bits 16 to 19 the states since boot."""

    bits: int

    _NAMES = ("under-voltage", "capped clock", "throttled", "hot")

    @property
    def now(self) -> tuple[str, ...]:
        return self._named(0)

    @property
    def since_boot(self) -> tuple[str, ...]:
        return self._named(16)

    def _named(self, offset: int) -> tuple[str, ...]:
        return tuple(name for index, name in enumerate(self._NAMES) if self.bits >> (offset + index) & 1)


@dataclass(frozen=True)
class Conditions:
    """The state of one end at one moment; None is a value that the end does not report.

    ``end`` and ``device`` are the names for messages. ``pcie`` is the current state of the NIC's PCIe link,
    ``pcie_best`` the best state that both NIC and slot support. ``usb_mbps`` is the signal rate at which a USB NIC was
    enumerated. ``under_voltage`` comes from a voltage monitor. ``cpu_busy`` is the share (0 to 1) of the time of all
    processors that other work used just before the traffic.
    """

    end: str
    device: str
    pcie: PcieLink | None = None
    pcie_best: PcieLink | None = None
    usb_mbps: float | None = None
    throttling: Throttling | None = None
    under_voltage: bool | None = None
    cpu_busy: float | None = None


@dataclass(frozen=True)
class ProcessorLoad:
    """The load of one CPU as shares (0 to 1) of the traffic's time.

    ``busy`` is all but idle time and waiting for disks.
    """

    cpu: int
    busy: float
    user: float = 0.0
    system: float = 0.0
    irq: float = 0.0
    softirq: float = 0.0
    steal: float = 0.0

    @property
    def interrupts(self) -> float:
        """Interrupts and softirqs together: the load in which a kernel receives."""
        return self.irq + self.softirq


@dataclass(frozen=True)
class Heat:
    """The clock rate and temperature of a processor at one moment; None is a value that the end does not report.

    ``clock_mhz`` is the rate that the firmware measured, or else the rate that the kernel requested for the fastest
    core. ``clock_max_mhz`` is the highest rate that the kernel may request.
    """

    clock_mhz: float | None = None
    clock_max_mhz: float | None = None
    temperature_c: float | None = None
    throttling: Throttling | None = None


@dataclass(frozen=True)
class Program:
    """A process and what it used, as a share of one CPU."""

    name: str
    pid: int
    share: float


@dataclass(frozen=True)
class OtherWork:
    """What user processes that are not ours used during the traffic, as a share of one CPU; the largest are named."""

    share: float
    programs: tuple[Program, ...] = ()


@dataclass(frozen=True)
class ManagementTraffic:
    """What ssh and an NFS root moved by the interface under test, in ``seconds`` around most of the traffic.

    ``share`` is their rate divided by the rate of the measured traffic (None: there was no traffic).
    """

    octets: int
    seconds: float
    share: float | None


@dataclass(frozen=True)
class EndEvidence:
    """The evidence of one end for one run of traffic: differences between readings just before and just after the run.

    `EvidenceRecord` says what the values are. None is a value that this end does not report; it is never replaced by 0.
    ``machine`` (the boot id) is equal for ends that share one kernel. ``window_s`` is the time between the readings,
    ``traffic_s`` the length of the traffic in it. ``first_connection`` is set if the differences cover several
    connections: it is the number of the first of them.
    """

    end: str
    device: str
    machine: str | None = None
    window_s: float | None = None
    traffic_s: float = 0.0
    processors: tuple[ProcessorLoad, ...] | None = None
    interrupts: Mapping[str, tuple[int, ...]] | None = None
    softirqs: Mapping[str, tuple[int, ...]] | None = None
    softnet: Mapping[str, tuple[int, ...]] | None = None
    interface: Mapping[str, int] | None = None
    nic: Mapping[str, int] | None = None
    kernel: tuple[str, ...] | None = None
    before: Heat | None = None
    under_load: Heat | None = None
    after: Heat | None = None
    restarted: tuple[str, ...] = ()
    first_connection: int | None = None
    management: ManagementTraffic | None = None
    others: OtherWork | None = None
    throttled: float | None = None

    @property
    def counted_s(self) -> float | None:
        """The time of which the loads of the processors are shares: the traffic, or else all of the window.

        Work in the short times around the traffic counts as work during the traffic. None: the window is not known.
        """
        window_s, traffic_s = self.window_s, self.traffic_s
        return traffic_s if window_s and 0 < traffic_s <= window_s <= (1 + AROUND) * traffic_s else window_s

    @property
    def stolen(self) -> float | None:
        """The processor time that a hypervisor or a quota took from this machine, as a share of one CPU."""
        known = self.processors if self.window_s is None or self.window_s >= 1.0 else None
        if known is None and self.throttled is None:
            # Of a shorter time, one tick would be a share that means nothing.
            return None
        return sum(load.steal for load in known or ()) + (self.throttled or 0.0)

    @property
    def busiest(self) -> ProcessorLoad | None:
        """The busiest CPU. The mean would show one saturated core of four as 25 %."""
        return max(self.processors or (), key=lambda load: load.busy, default=None)


@dataclass(frozen=True)
class PortCounters:
    """One reading of the counters of a switch port; None is a counter that the switch does not have.

    ``rx`` is what the switch received, so the node sent it. ``time_s`` is the runner's monotonic clock at the answer.
    ``epoch`` changes when the counters restart (a reboot, a discontinuity). ``frames``: octets count frames on the wire
    including the check sequence, as the MIBs require (RFC 3635). If not set, the port may count segments before they
    are cut into frames. ``bits`` is the width of the counters.
    """

    time_s: float
    rx_octets: int
    tx_octets: int
    rx_errors: int | None = None
    tx_errors: int | None = None
    rx_discards: int | None = None
    tx_discards: int | None = None
    epoch: str | None = None
    frames: bool = False
    bits: int = 64

    def octets_since(self, old: PortCounters) -> tuple[int, int]:
        """Return the octets received and sent since an earlier reading. A narrow counter may have wrapped once."""
        size = 1 << self.bits
        return (self.rx_octets - old.rx_octets) % size, (self.tx_octets - old.tx_octets) % size


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
    """What limited the goodput. ``cause`` is one or two words, ``text`` one sentence with numbers.

    ``cause`` is ``nothing decisive`` if no limit was found. ``numbers`` has the numbers behind the sentence: rates in
    bit/s, times in seconds, shares from 0 to 1.
    """

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
