"""Reads which CPU did the kernel's network work: the lines NET_RX and NET_TX of ``/proc/softirqs``."""

from __future__ import annotations

from pytest_pinet.evidence.sources import CpuCounters, cpu_numbers


class SoftIrqs(CpuCounters):
    """The number of runs of each kind on each CPU."""

    name = "softirqs"
    file = "/proc/softirqs"

    def parse(self, text: str) -> dict[str, dict[int, int]]:
        header, *lines = text.splitlines() or [""]
        cpus = cpu_numbers(header)
        found = {}
        for line in lines:
            name, _, rest = line.partition(":")
            counts = rest.split()
            if name.strip().startswith("NET_") and len(counts) >= len(cpus) and all(map(str.isdigit, counts)):
                found[name.strip()] = {cpu: int(count) for cpu, count in zip(cpus, counts, strict=False)}
        return found
