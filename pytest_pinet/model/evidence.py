"""What was counted at one end while traffic ran, and how its processors and clock were: ground of the diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_pinet.model.conditions import Throttling


@dataclass(frozen=True)
class ProcessorLoad:
    """Shares (0 to 1) of the traffic's time that one CPU spent; ``busy`` is all but idling and waiting for disks."""

    cpu: int
    busy: float
    user: float = 0.0
    system: float = 0.0
    irq: float = 0.0
    softirq: float = 0.0
    steal: float = 0.0

    @property
    def interrupts(self) -> float:
        """Interrupts and softirqs together, which is where a kernel receives."""
        return self.irq + self.softirq


@dataclass(frozen=True)
class Heat:
    """How fast the processor ran and how warm it was at one moment; None is what nobody there tells.

    ``clock_mhz`` is what the firmware measured, else what the kernel asked for (the fastest core); ``clock_max_mhz`` is
    what the kernel may ask for at most.
    """

    clock_mhz: float | None = None
    clock_max_mhz: float | None = None
    temperature_c: float | None = None
    throttling: Throttling | None = None


@dataclass(frozen=True)
class EndEvidence:
    """One end during one run of traffic, as differences between just before and just after it.

    None is what this end does not tell, never 0. ``machine`` is the same for ends that share one kernel (its boot id).
    ``window_s`` lies between the two readings; the traffic in it took ``traffic_s``. ``interrupts`` (by action),
    ``softirqs`` and ``softnet`` (by column) have a number for each CPU. ``interface`` and ``nic`` are counters of the
    device, the latter its driver's own. ``restarted`` names the sources whose counters began anew. ``kernel`` are lines
    of the kernel's log that tell of trouble. ``under_load`` was read in mid-traffic. ``first_try`` is set where the
    differences are those of several tries together, from that one on.
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
    first_try: int | None = None

    @property
    def busiest(self) -> ProcessorLoad | None:
        """The CPU that had most to do: never the mean, in which one core of four that is at its end is 25 %."""
        return max(self.processors or (), key=lambda load: load.busy, default=None)
