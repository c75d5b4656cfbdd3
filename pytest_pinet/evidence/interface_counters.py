"""Reads the kernel's counters of a device, for every driver: sysfs ``statistics`` and ``carrier_changes``."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.evidence.counting import is_count, rise, rises
from pytest_pinet.evidence.sources import EvidenceSource, Texts, added
from pytest_pinet.model.evidence import EndEvidence


class InterfaceCounters(EvidenceSource):
    """Bytes, packets, errors, drops, and ``carrier_changes``."""

    name = "interface"

    def files(self, device: str) -> Sequence[str]:
        return (f"/sys/class/net/{device}/statistics/*", f"/sys/class/net/{device}/carrier_changes")

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        before, after = _parse(texts.before), _parse(texts.after)
        if not before or not after:
            return evidence
        # On 32-bit kernels the byte counters wrap every 34 s at 1 Gbit/s, so they show no restart.
        octets = {name for name in after if name.endswith("_bytes")}
        found = rises({name: count for name, count in before.items() if name not in octets}, after)
        if found is not None:
            known = {name: rise(before[name], after[name]) for name in octets if name in before}
            found |= {name: count for name, count in known.items() if count is not None}
        return added(evidence, self.name, interface=found)


def _parse(text: str) -> dict[str, int]:
    pairs = (line.rpartition("/")[2].partition(":") for line in text.splitlines())
    return {name: int(value) for name, _, value in pairs if is_count(value.strip())}
