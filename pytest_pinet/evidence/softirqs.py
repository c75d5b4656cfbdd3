"""Reads which CPU did the kernel's network work: the lines NET_RX and NET_TX of ``/proc/softirqs``."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.evidence.counting import rises_by_cpu
from pytest_pinet.evidence.sources import Texts, added
from pytest_pinet.model.evidence import EndEvidence


class SoftIrqs:
    """The number of runs of each kind on each CPU."""

    name = "softirqs"

    def files(self, device: str) -> Sequence[str]:
        return ("/proc/softirqs",)

    def command(self, device: str) -> str:
        return ""

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        before, after = _parse(texts.before), _parse(texts.after)
        if not before or not after:
            return evidence
        return added(evidence, self.name, softirqs=rises_by_cpu(before, after))


def _parse(text: str) -> dict[str, dict[int, int]]:
    header, *lines = text.splitlines() or [""]
    cpus = [int(word[3:]) for word in header.split() if word.startswith("CPU") and word[3:].isdigit()]
    found = {}
    for line in lines:
        name, _, rest = line.partition(":")
        counts = rest.split()
        if name.strip().startswith("NET_") and len(counts) >= len(cpus) and all(map(str.isdigit, counts)):
            found[name.strip()] = {cpu: int(count) for cpu, count in zip(cpus, counts, strict=False)}
    return found
