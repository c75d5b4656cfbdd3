"""The records of evidence (what each end counted during traffic) and of the bottleneck."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from pytest_pinet.model.conditions import Throttling
from pytest_pinet.model.evidence import ManagementTraffic, OtherWork, ProcessorLoad
from pytest_pinet.model.record.base import Rare, Record, SparseRecord


def _bits(throttling: object) -> object:
    return throttling.bits if isinstance(throttling, Throttling) else throttling


class HeatRecord(Record):
    """Clock, temperature and throttling of one end at one moment. A value that cannot be read is null.

    ``throttling`` has the bits that the firmware reports.
    """

    clock_mhz: float | None
    clock_max_mhz: float | None
    temperature_c: float | None
    throttling: Annotated[int | None, BeforeValidator(_bits)]


class EvidenceRecord(SparseRecord):
    """One end during one connection (numbered from 1): the differences of its counters before and after the traffic.

    ``interrupts`` (the most frequent actions), ``softirqs`` and ``softnet`` have one number for each CPU.
    ``interface`` has the kernel's counters of the device (changed counters only, and ``carrier_changes``), ``nic`` the
    counters of its driver. ``kernel`` has the lines of the kernel log that report trouble. A value is null if the end
    does not report it, or if its counter restarted; the name of that source is then in ``restarted``. ``under_load``
    was read during the traffic. With ``from_connection``, the differences span all connections from that one to this
    one. ``others`` is the work of user processes that are not ours, as a share of one CPU, and ``throttled`` the time
    that a CPU quota took from ours. ``management`` has the octets of ssh and of an NFS root, if they use this device,
    and their share of the traffic.
    """

    connection: int
    end: str
    device: str
    machine: str | None
    window_s: float | None
    traffic_s: float
    processors: tuple[ProcessorLoad, ...] | None
    interrupts: dict[str, tuple[int, ...]] | None
    softirqs: dict[str, tuple[int, ...]] | None
    softnet: dict[str, tuple[int, ...]] | None
    interface: dict[str, int] | None
    nic: dict[str, int] | None
    kernel: tuple[str, ...] | None
    before: HeatRecord | None
    under_load: HeatRecord | None
    after: HeatRecord | None
    restarted: tuple[str, ...]
    from_connection: Rare[int] = None
    management: Rare[ManagementTraffic] = None
    others: Rare[OtherWork] = None
    throttled: Rare[float] = None


class LimitedByRecord(Record):
    """What limited the goodput. ``cause`` is one or two words, ``text`` one sentence with numbers.

    ``cause`` is ``nothing decisive`` if no limit was found. ``numbers`` has the numbers behind the sentence: rates in
    bit/s, times in seconds, shares from 0 to 1.
    """

    cause: str
    text: str
    numbers: dict[str, float] = Field(default_factory=dict)
