"""Reads how many interrupts each CPU handled: ``/proc/interrupts``, by action name because the numbers change."""

from __future__ import annotations

import re
from collections import defaultdict

from pytest_pinet.evidence.counting import is_count
from pytest_pinet.evidence.sources import CpuCounters, cpu_table

# The kernel prints the controller, its own number of the interrupt, the trigger and the name of the handler, or of
# several. Each of the first three may be missing. Two blanks precede the handlers (show_interrupts in
# kernel/irq/proc.c): "GICv2 189 Level     eth0", "PCI-MSIX-0000:00:03.0   1-edge      eth0-rx-0", "ARMCTRL-level  41
# Edge      dwc_otg", "ARMCTRL  BCM2708 Timer Tick".
_GAP = re.compile(r"\s{2,}")
# The last column before the handlers: "41 Edge", "189 Level", "1-edge", "9-fasteoi", "30".
_OF_CONTROLLER = re.compile(r"\d+(?:(?: (?:Edge|Level))|-[a-z]+)?|(?:Edge|Level)|-[a-z]+")


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
    columns = _GAP.split(described)
    # An interrupt without a handler ends with a column of the controller.
    has_handler = len(columns) > 1 and columns[-1] and not _OF_CONTROLLER.fullmatch(columns[-1])
    return columns[-1] if has_handler else f"irq {number}"
