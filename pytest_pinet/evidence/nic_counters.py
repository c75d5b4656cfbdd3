"""Reads the driver's own counters: ``ethtool -S``. Names differ by driver, and some drivers have no counters."""

from __future__ import annotations

from pytest_pinet.evidence.counting import NARROW, is_count, rise
from pytest_pinet.evidence.sources import EvidenceSource, Texts, added
from pytest_pinet.model.evidence import EndEvidence


class NicCounters(EvidenceSource):
    """The counters that grew. Drivers that refresh counters on a timer report late by up to one period.

    Some drivers list levels among the counters (for example a queue length). If only a few values fell, they are left
    out. If more than half of the values fell, the counters restarted.

    A driver may print a name twice: bcmgenet has ``rx_bytes`` of the kernel in 64 bits, and below of the hardware in 32
    bits. The larger growth counts, since a counter of 32 bits loses what is above.
    """

    name = "ethtool"

    def command(self, device: str) -> str:
        return f"ethtool -S {device}"

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        before, after = _parse(texts.before), _parse(texts.after)
        if not before or not after:
            return evidence
        found = {name: _largest_rise(before[name], counts) for name, counts in after.items() if name in before}
        fell = [name for name, count in found.items() if count is None]
        if 2 * len(fell) > sum(any(before[name]) for name in found):
            return added(evidence, self.name, nic=None)
        return added(evidence, self.name, nic={name: count for name, count in found.items() if count})


def _parse(text: str) -> dict[str, list[int]]:
    """Return the values of each name, in their order."""
    found: dict[str, list[int]] = {}
    # "     rx_packets: 5"; some names contain colons and blanks: "[0]:  rx_bytes: 7".
    for name, _, value in (line.rpartition(":") for line in text.splitlines()):
        if name and is_count(value.strip()):
            found.setdefault(name.strip(), []).append(int(value))
    return found


def _largest_rise(old: list[int], new: list[int]) -> int | None:
    """Return the largest growth of counters with one name; None if they restarted."""
    pairs = list(zip(old, new, strict=False))
    if any(after < before and before >= NARROW for before, after in pairs):
        return None
    return max((grown for one in pairs if (grown := rise(*one)) is not None), default=None)
