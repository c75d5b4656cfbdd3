"""Reads how many interrupts each CPU handled: ``/proc/interrupts``, by action name because the numbers change."""

from __future__ import annotations

import re
from collections import defaultdict

from pytest_pinet.evidence.sources import CpuCounters, cpu_numbers

# "GICv2 189 Level eth0", "PCI-MSI 524288-edge eth0-rx-0", "BRCM STB PCIe MSI 524288 Edge xhci_hcd".
_TRIGGER = re.compile(r"(?:^|[\s-])(?:edge|level|fasteoi|none)\b(?:\s+|$)", re.IGNORECASE)


class Interrupts(CpuCounters):
    """Interrupts by action, named as in the file (``eth0``, ``eth0, eth0``). Lines of the same name are added up."""

    name = "interrupts"
    file = "/proc/interrupts"
    only_growing = True

    def parse(self, text: str) -> dict[str, dict[int, int]]:
        header, *lines = text.splitlines() or [""]
        cpus = cpu_numbers(header)
        found: dict[str, dict[int, int]] = defaultdict(dict)
        for line in lines:
            number, colon, rest = line.partition(":")
            words = rest.split()
            counts = words[: len(cpus)]
            # ERR and MIS have one count for all CPUs.
            if not colon or len(counts) < len(cpus) or not all(map(str.isdigit, counts)):
                continue
            own = found[_action(number.strip(), " ".join(words[len(cpus) :]))]
            for cpu, count in zip(cpus, counts, strict=True):
                own[cpu] = own.get(cpu, 0) + int(count)
        return dict(found)


def _action(number: str, described: str) -> str:
    if not number.isdigit():
        # LOC, IPI0: interrupts of the architecture, described by a sentence.
        return described or number
    trigger = list(_TRIGGER.finditer(described))
    name = described[trigger[0].end() :].strip() if trigger else described.rpartition(" ")[2]
    # An interrupt without a handler has no action name.
    return name or f"irq {number}"
