"""Reads which CPU did the kernel's network work: the lines NET_RX and NET_TX of ``/proc/softirqs``."""

from __future__ import annotations

from pytest_pinet.evidence.sources import CpuCounters, cpu_table


class SoftIrqs(CpuCounters):
    """The number of runs of each kind on each CPU."""

    name = "softirqs"
    file = "/proc/softirqs"

    def parse(self, text: str) -> dict[str, dict[int, int]]:
        return {name: counts for name, counts, _ in cpu_table(text) if name.startswith("NET_")}
