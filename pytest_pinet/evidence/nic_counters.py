"""Reads the driver's own counters: ``ethtool -S``. Names differ by driver, and some drivers have no counters."""

from __future__ import annotations

from pytest_pinet.evidence.counting import is_count, rise
from pytest_pinet.evidence.sources import EvidenceSource, Texts, added
from pytest_pinet.model.evidence import EndEvidence


class NicCounters(EvidenceSource):
    """The counters that grew. Drivers that refresh counters on a timer report late by up to one period.

    Some drivers list levels among the counters (for example a queue length). If only a few values fell, they are left
    out. If more than half of the values fell, the counters restarted.
    """

    name = "ethtool"

    def command(self, device: str) -> str:
        return f"ethtool -S {device}"

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        before, after = _parse(texts.before), _parse(texts.after)
        if not before or not after:
            return evidence
        found = {name: rise(before[name], count) for name, count in after.items() if name in before}
        fell = [name for name, count in found.items() if count is None]
        if 2 * len(fell) > sum(before[name] > 0 for name in found):
            return added(evidence, self.name, nic=None)
        return added(evidence, self.name, nic={name: count for name, count in found.items() if count})


def _parse(text: str) -> dict[str, int]:
    # "     rx_packets: 5"; some names contain colons and blanks: "[0]:  rx_bytes: 7".
    pairs = (line.rpartition(":") for line in text.splitlines())
    return {name.strip(): int(value) for name, _, value in pairs if name and is_count(value.strip())}
