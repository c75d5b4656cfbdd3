"""Reads how many interrupts each CPU handled: ``/proc/interrupts``, by action name because the numbers change."""

from __future__ import annotations

import re
from collections import defaultdict

from pytest_pinet.evidence.counting import is_count
from pytest_pinet.evidence.sources import CpuCounters, cpu_table

# "GICv2 189 Level eth0", "PCI-MSI 524288-edge eth0-rx-0", "BRCM STB PCIe MSI 524288 Edge xhci_hcd".
_TRIGGER = re.compile(r"(?:^|[\s-])(?:edge|level|fasteoi|none)\b(?:\s+|$)", re.IGNORECASE)


class Interrupts(CpuCounters):
    """Interrupts by action, named as in the file (``eth0``, ``eth0, eth0``). Lines of the same name are added up."""

    name = "interrupts"
    file = "/proc/interrupts"
    only_growing = True

    def parse(self, text: str) -> dict[str, dict[int, int]]:
        found: dict[str, dict[int, int]] = defaultdict(dict)
        for number, counts, described in cpu_table(text):
            own = found[_action(number, described)]
            for cpu, count in counts.items():
                own[cpu] = own.get(cpu, 0) + count
        return dict(found)


def _action(number: str, described: str) -> str:
    if not is_count(number):
        # LOC, IPI0: interrupts of the architecture, described by a sentence.
        return described or number
    trigger = list(_TRIGGER.finditer(described))
    name = described[trigger[0].end() :].strip() if trigger else described.rpartition(" ")[2]
    # An interrupt without a handler has no action name.
    return name or f"irq {number}"
