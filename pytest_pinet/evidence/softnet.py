"""Reads the work of the network softirqs: ``/proc/net/softnet_stat``, a line of hexadecimal numbers per CPU.

Newer kernels have more columns (net/core/net-procfs.c): 2.6.36 added received_rps, 5.10 the number of the CPU.
"""

from __future__ import annotations

from pytest_pinet.evidence.sources import CpuCounters

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
