"""Reads how busy each CPU was from ``/proc/stat`` (proc(5)). Few nodes have sysstat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_pinet.evidence.counting import is_count
from pytest_pinet.evidence.sources import EvidenceSource, Texts, added
from pytest_pinet.model.evidence import EndEvidence, ProcessorLoad

# user nice system idle iowait irq softirq steal. The time of guests is part of user and nice.
_FIELDS = 8
_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = range(_FIELDS)
# If the time around the traffic is a larger share of it than this, the loads are not scaled.
AROUND = 0.25


class Processors(EvidenceSource):
    """CPU times, read nearest to the traffic, with the uptime and the boot ID."""

    name = "stat"

    def files(self, device: str) -> Sequence[str]:
        return ("/proc/uptime", "/proc/sys/kernel/random/boot_id", "/proc/stat")

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        old, new = uptime(texts.before), uptime(texts.after)
        machines = [_machine(text) for text in (texts.before, texts.after)]
        if machines[0] != machines[1]:
            return added(evidence, self.name, processors=None)
        evidence = replace(
            evidence, machine=machines[1], window_s=None if old is None or new is None else max(0.0, new - old)
        )
        before, after = _times(texts.before), _times(texts.after)
        common = [cpu for cpu in sorted(after) if cpu in before]
        if not common:
            return evidence
        scale = _scale(evidence)
        loads = tuple(_load(cpu, before[cpu], after[cpu], scale) for cpu in common)
        return replace(evidence, processors=tuple(load for load in loads if load is not None) or None)


def uptime(text: str) -> float | None:
    """Return the seconds since boot at a reading; None if the reading has none."""
    word = text.partition(" ")[0]
    try:
        return float(word)
    except ValueError:
        return None


def _machine(text: str) -> str | None:
    lines = text.splitlines()
    return lines[1].strip() if len(lines) > 1 and not lines[1].startswith("cpu") else None


def _times(text: str) -> dict[int, list[int]]:
    """Return the clock ticks by CPU, without the line of their sum."""
    found = {}
    for line in text.splitlines():
        name, *words = line.split() or [""]
        number = name.removeprefix("cpu")
        if name.startswith("cpu") and is_count(number) and len(words) > _IOWAIT and all(map(is_count, words)):
            ticks = [int(word) for word in words[:_FIELDS]]
            found[int(number)] = ticks + [0] * (_FIELDS - len(ticks))
    return found


def _scale(evidence: EndEvidence) -> float:
    """Return the factor from shares of the window to shares of the traffic.

    Work in the short times around the traffic counts as work during the traffic.
    """
    window, traffic = evidence.window_s, evidence.traffic_s
    if not window or not traffic or window > (1 + AROUND) * traffic:
        return 1.0
    return max(1.0, window / traffic)


def _load(cpu: int, before: list[int], after: list[int], scale: float) -> ProcessorLoad | None:
    # The ticks of idle and iowait can fall by a few (proc(5)). This is no restart.
    spent = [max(0, new - old) for old, new in zip(before, after, strict=True)]
    total = sum(spent)
    if total == 0:
        return None
    busy = 1 - (spent[_IDLE] + spent[_IOWAIT]) / total
    # A load never exceeds 1.
    scale = min(scale, 1 / busy) if busy > 0 else 1.0
    part = [scale * one / total for one in spent]
    return ProcessorLoad(
        cpu,
        busy * scale,
        user=part[_USER] + part[_NICE],
        system=part[_SYSTEM],
        irq=part[_IRQ],
        softirq=part[_SOFTIRQ],
        steal=part[_STEAL],
    )
