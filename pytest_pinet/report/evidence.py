"""Builds the records of evidence (what each end counted during traffic) and of the bottleneck."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple

from pytest_pinet.model.diagnosis import Diagnosis
from pytest_pinet.model.evidence import EndEvidence, Heat, ProcessorLoad
from pytest_pinet.model.record.evidence import EvidenceRecord, HeatRecord, LimitedByRecord

# Only the most frequent interrupts are recorded; the raw files have all.
INTERRUPTS = 6


def evidence_record(attempt: int, found: EndEvidence) -> EvidenceRecord:
    """Return the evidence of one end and attempt as plain data."""
    interrupts = found.interrupts
    if interrupts is not None:
        often = sorted(interrupts.items(), key=lambda entry: -sum(entry[1]))
        interrupts = dict(often[:INTERRUPTS])
    interface = found.interface
    if interface is not None:
        interface = {name: count for name, count in interface.items() if count or name == "carrier_changes"}
    return EvidenceRecord(
        attempt=attempt,
        end=found.end,
        device=found.device,
        machine=found.machine,
        window_s=found.window_s,
        traffic_s=found.traffic_s,
        processors=None if found.processors is None else tuple(_rounded(load) for load in found.processors),
        interrupts=_by_cpu(interrupts),
        softirqs=_by_cpu(found.softirqs),
        softnet=_by_cpu(found.softnet),
        interface=None if interface is None else dict(interface),
        nic=None if found.nic is None else dict(found.nic),
        kernel=None if found.kernel is None else tuple(found.kernel),
        before=_heat(found.before),
        under_load=_heat(found.under_load),
        after=_heat(found.after),
        restarted=tuple(found.restarted),
        from_attempt=found.first_try,
    )


def limited_by_record(found: Diagnosis) -> LimitedByRecord:
    """Return a diagnosis as plain data."""
    return LimitedByRecord(cause=str(found.cause), text=found.text, numbers=dict(found.numbers))


def _by_cpu(counts: Mapping[str, tuple[int, ...]] | None) -> dict[str, tuple[int, ...]] | None:
    return None if counts is None else {name: tuple(values) for name, values in counts.items()}


def _rounded(load: ProcessorLoad) -> ProcessorLoad:
    cpu, *shares = astuple(load)
    return ProcessorLoad(cpu, *(round(share, 4) for share in shares))


def _heat(heat: Heat | None) -> HeatRecord | None:
    if heat is None:
        return None
    return HeatRecord(
        clock_mhz=heat.clock_mhz,
        clock_max_mhz=heat.clock_max_mhz,
        temperature_c=heat.temperature_c,
        throttling=None if heat.throttling is None else heat.throttling.bits,
    )
