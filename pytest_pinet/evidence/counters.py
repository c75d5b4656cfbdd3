"""Counters that grow during traffic: of the kernel for a device, of its driver, and of network work on each CPU."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from pytest_pinet.evidence.counting import NARROW, is_count, rise, rises
from pytest_pinet.evidence.sources import CpuCounters, EvidenceSource, Texts, added, cpu_table
from pytest_pinet.model.evidence import EndEvidence


class InterfaceCounters(EvidenceSource):
    """Bytes, packets, errors, drops, and ``carrier_changes``."""

    name = "interface"

    def files(self, device: str) -> Sequence[str]:
        return (f"/sys/class/net/{device}/statistics/*", f"/sys/class/net/{device}/carrier_changes")

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        before, after = _parse_interface(texts.before), _parse_interface(texts.after)
        if not before or not after:
            return evidence
        # On 32-bit kernels the byte counters wrap every 34 s at 1 Gbit/s, so they show no restart.
        octets = {name for name in after if name.endswith("_bytes")}
        found = rises({name: count for name, count in before.items() if name not in octets}, after)
        if found is not None:
            known = {name: rise(before[name], after[name]) for name in octets if name in before}
            found |= {name: count for name, count in known.items() if count is not None}
        return added(evidence, self.name, interface=found)


def _parse_interface(text: str) -> dict[str, int]:
    pairs = (line.rpartition("/")[2].partition(":") for line in text.splitlines())
    return {name: int(value) for name, _, value in pairs if is_count(value.strip())}


class NicCounters(EvidenceSource):
    """The driver's own counters that grew. Drivers that refresh counters on a timer report late by up to one period.

    Some drivers list levels among the counters (for example a queue length). If only a few values fell, they are left
    out. If more than half of the values fell, the counters restarted.

    A driver may print a name twice: bcmgenet has ``rx_bytes`` of the kernel in 64 bits, and below of the hardware in 32
    bits. The larger growth counts, since a counter of 32 bits loses what is above.
    """

    name = "ethtool"

    def command(self, device: str) -> str:
        return f"ethtool -S {device}"

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        before, after = _parse_nic(texts.before), _parse_nic(texts.after)
        if not before or not after:
            return evidence
        found = {name: _largest_rise(before[name], counts) for name, counts in after.items() if name in before}
        fell = [name for name, count in found.items() if count is None]
        if 2 * len(fell) > sum(any(before[name]) for name in found):
            return added(evidence, self.name, nic=None)
        return added(evidence, self.name, nic={name: count for name, count in found.items() if count})


def _parse_nic(text: str) -> dict[str, list[int]]:
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


# A line of hexadecimal numbers per CPU. Newer kernels have more columns (net/core/net-procfs.c): 2.6.36 added
# received_rps, 5.10 the number of the CPU.
COLUMNS = {"processed": 0, "dropped": 1, "time_squeeze": 2, "received_rps": 9}
_CPU = 12


class Softnet(CpuCounters):
    """Packets processed and dropped, polls that ended before their work did, and packets from other CPUs (RPS)."""

    name = "softnet"
    file = "/proc/net/softnet_stat"

    def parse(self, text: str) -> dict[str, dict[int, int]]:
        found: dict[str, dict[int, int]] = {}
        for index, line in enumerate(text.splitlines()):
            try:
                values = [int(word, 16) for word in line.split()]
            except ValueError:
                return {}
            cpu = values[_CPU] if len(values) > _CPU else index
            for name, column in COLUMNS.items():
                if column < len(values):
                    found.setdefault(name, {})[cpu] = values[column]
        return found


# The kernel prints the controller, its own number of the interrupt, the trigger and the name of the handler, or of
# several. Each of the first three may be missing. Two blanks precede the handlers (show_interrupts in
# kernel/irq/proc.c): "GICv2 189 Level     eth0", "PCI-MSIX-0000:00:03.0   1-edge      eth0-rx-0", "ARMCTRL-level  41
# Edge      dwc_otg", "ARMCTRL  BCM2708 Timer Tick".
_GAP = re.compile(r"\s{2,}")
# The last column before the handlers: "41 Edge", "189 Level", "1-edge", "9-fasteoi", "30".
_OF_CONTROLLER = re.compile(r"\d+(?:(?: (?:Edge|Level))|-[a-z]+)?|(?:Edge|Level)|-[a-z]+")


class Interrupts(CpuCounters):
    """Interrupts by action (``eth0``, ``eth0, eth0``): numbers change. Lines of the same name are added up."""

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


class SoftIrqs(CpuCounters):
    """How often each CPU did the kernel's network work: NET_RX and NET_TX."""

    name = "softirqs"
    file = "/proc/softirqs"

    def parse(self, text: str) -> dict[str, dict[int, int]]:
        return {name: counts for name, counts, _ in cpu_table(text) if name.startswith("NET_")}
