"""The record types of evidence (what each end counted during traffic) and of the bottleneck."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from pytest_pinet.model.diagnosis import Diagnosis
from pytest_pinet.model.evidence import EndEvidence, Heat, ProcessorLoad

# Only the most frequent interrupts are recorded; the raw files have all.
INTERRUPTS = 6


class ProcessorRecord(TypedDict):
    """Shares (0 to 1) of the traffic's time that one CPU spent."""

    cpu: int
    busy: float
    user: float
    system: float
    irq: float
    softirq: float
    steal: float


class HeatRecord(TypedDict):
    """One moment of an end: what nobody told is None. ``throttling`` are the firmware's bits."""

    clock_mhz: float | None
    clock_max_mhz: float | None
    temperature_c: float | None
    throttling: int | None


class SeveralRecord(TypedDict, total=False):
    """``from_attempt``: the differences are those of all attempts from that one to this one, and the time between."""

    from_attempt: int


class EvidenceRecord(SeveralRecord):
    """One end during one attempt (from 1): what changed between just before and just after the traffic.

    ``interrupts`` (by action, the most frequent), ``softirqs`` and ``softnet`` have a number for each CPU;
    ``interface`` are the kernel's counters of the device (those that changed, and ``carrier_changes``), ``nic`` its
    driver's. ``kernel`` are lines of its log that tell of trouble. None is what this end does not tell, or a counter
    that began anew (then its source stands in ``restarted``). ``under_load`` was read in mid-traffic.
    """

    attempt: int
    end: str
    device: str
    machine: str | None
    window_s: float | None
    traffic_s: float
    processors: list[ProcessorRecord] | None
    interrupts: dict[str, list[int]] | None
    softirqs: dict[str, list[int]] | None
    softnet: dict[str, list[int]] | None
    interface: dict[str, int] | None
    nic: dict[str, int] | None
    kernel: list[str] | None
    before: HeatRecord | None
    under_load: HeatRecord | None
    after: HeatRecord | None
    restarted: list[str]


class LimitedByRecord(TypedDict):
    """What limited a figure: ``cause`` in a word or two (``nothing decisive`` when so), and in a line with numbers.

    ``numbers`` are those that the line rests on; rates in bit/s, times in seconds, shares from 0 to 1.
    """

    cause: str
    text: str
    numbers: dict[str, float]


def evidence_record(attempt: int, found: EndEvidence) -> EvidenceRecord:
    """Return the evidence of one end and attempt as plain data."""
    interrupts = found.interrupts
    if interrupts is not None:
        often = sorted(interrupts.items(), key=lambda entry: -sum(entry[1]))
        interrupts = dict(often[:INTERRUPTS])
    interface = found.interface
    if interface is not None:
        interface = {name: count for name, count in interface.items() if count or name == "carrier_changes"}
    record: EvidenceRecord = {
        "attempt": attempt,
        "end": found.end,
        "device": found.device,
        "machine": found.machine,
        "window_s": found.window_s,
        "traffic_s": found.traffic_s,
        "processors": None if found.processors is None else [_processor(load) for load in found.processors],
        "interrupts": _by_cpu(interrupts),
        "softirqs": _by_cpu(found.softirqs),
        "softnet": _by_cpu(found.softnet),
        "interface": None if interface is None else dict(interface),
        "nic": None if found.nic is None else dict(found.nic),
        "kernel": None if found.kernel is None else list(found.kernel),
        "before": _heat(found.before),
        "under_load": _heat(found.under_load),
        "after": _heat(found.after),
        "restarted": list(found.restarted),
    }
    if found.first_try is not None:
        record["from_attempt"] = found.first_try
    return record


def limited_by_record(found: Diagnosis) -> LimitedByRecord:
    """Return a diagnosis as plain data."""
    return {"cause": str(found.cause), "text": found.text, "numbers": dict(found.numbers)}


def _by_cpu(counts: Mapping[str, tuple[int, ...]] | None) -> dict[str, list[int]] | None:
    return None if counts is None else {name: list(values) for name, values in counts.items()}


def _processor(load: ProcessorLoad) -> ProcessorRecord:
    return {
        "cpu": load.cpu,
        "busy": round(load.busy, 4),
        "user": round(load.user, 4),
        "system": round(load.system, 4),
        "irq": round(load.irq, 4),
        "softirq": round(load.softirq, 4),
        "steal": round(load.steal, 4),
    }


def _heat(heat: Heat | None) -> HeatRecord | None:
    if heat is None:
        return None
    return {
        "clock_mhz": heat.clock_mhz,
        "clock_max_mhz": heat.clock_max_mhz,
        "temperature_c": heat.temperature_c,
        "throttling": None if heat.throttling is None else heat.throttling.bits,
    }
