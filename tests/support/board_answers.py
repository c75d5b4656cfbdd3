"""Answers of boards and switches to our commands."""

from __future__ import annotations

from pytest_pinet.execution.shell import Completed

# Output of Raspberry Pi OS on a Pi 4 B.
CLOCK = """\
throttled=throttled=0x0
tree=1
scaling_driver=cpufreq-dt
scaling_governor=ondemand
scaling_cur_freq=600000
scaling_max_freq=1800000
cpuinfo_max_freq=1800000
time=1000.200000000
"""


class Answering:
    """A board or switch that answers each command with the same text."""

    name = "sw"

    def __init__(self, answer: str) -> None:
        self._answer = answer

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        """Return the answer."""
        return Completed(0, self._answer, "")
