"""What a driver counted by itself: ``ethtool -S``. Names differ by driver; some count nothing."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.evidence.counting import rises
from pytest_pinet.evidence.sources import Texts, added
from pytest_pinet.model.evidence import EndEvidence


class NicCounters:
    """Those that changed. A driver that refreshes them on a timer of its own may be late by that."""

    name = "ethtool"

    def files(self, device: str) -> Sequence[str]:
        return ()

    def command(self, device: str) -> str:
        return f"ethtool -S {device}"

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        before, after = _parse(texts.before), _parse(texts.after)
        if not before or not after:
            return evidence
        found = rises(before, after)
        changed = None if found is None else {name: count for name, count in found.items() if count}
        return added(evidence, self.name, nic=changed)


def _parse(text: str) -> dict[str, int]:
    # "     rx_packets: 5"; some have colons and blanks in their names: "[0]: rx_bytes: 7".
    pairs = (line.rpartition(":") for line in text.splitlines())
    return {name.strip(): int(value) for name, _, value in pairs if name and value.strip().isdigit()}
