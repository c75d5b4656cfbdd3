"""Evidence of one end: its counters, processors and clock during traffic; and the counters of its switch port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_pinet.model.conditions import Throttling


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

    None is a value that this end does not report; it is never replaced by 0. ``machine`` (the boot id) is equal for
    ends that share one kernel. ``window_s`` is the time between the readings, ``traffic_s`` the length of the traffic
    in it. ``interrupts`` (by action), ``softirqs`` and ``softnet`` (by column) have one number per CPU. ``interface``
    has the counters of the device, ``nic`` the counters of its driver. ``restarted`` names the sources whose counters
    restarted. ``kernel`` are lines of the kernel log that report trouble. ``under_load`` was read during the traffic.
    ``first_connection`` is set if the differences cover several connections: it is the number of the first of them.
    ``management`` is set if our own connection to the node uses this device. ``others`` is the work of other programs.
    ``throttled`` is how long a CPU quota stopped our processes, as a share of one CPU.
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
