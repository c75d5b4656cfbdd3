"""Both builds begin their traffic at the same age of the boot, and as cool: else the warmer boot looks slower."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_pinet.errors import LabError
from pytest_pinet.evidence.node_state import COMMAND, parse_temperature
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.trace import doing
from pytest_pinet.lab.link.end import End
from pytest_pinet.measure.link_result import boot_traffic
from pytest_pinet.model.lab import VIRTUAL

# Starts whose ages (s) and temperatures (K) differ by less are alike. No turn waits longer than MOST_S.
AGE_S = 2.0
HOTTER_K = 2.0
MOST_S = 90.0
LOOK_S = 1.0


@dataclass
class EvenStarts:
    """The starts of the traffic of one gate call: the age of the boot, and the temperature if the board tells it."""

    ages_s: list[float] = field(default_factory=list)
    celsius: list[float] = field(default_factory=list)

    def wait(self, dut: End) -> list[str]:
        """Wait until the boot is as old as at the latest earlier start, and as cool as at the coolest.

        Return a sentence if that took too long.
        """
        if dut.endpoint.node.clock == VIRTUAL:
            return []
        old, cool = max(self.ages_s, default=0.0), min(self.celsius, default=1e3)
        boot = boot_traffic(dut)
        age_s = celsius = None

        def even() -> bool:
            nonlocal age_s, celsius
            age_s, celsius = boot.age_s, _celsius(dut)
            return (age_s is None or age_s > old - AGE_S) and (celsius is None or celsius < cool + HOTTER_K)

        with doing("wait until the boot is as old and as cool as in the other turns"):
            in_time = Deadline(MOST_S).wait_until(even, LOOK_S)
        self.ages_s += [] if age_s is None else [age_s]
        known = [] if celsius is None else [celsius]
        if in_time:
            self.celsius += known
            return []
        # A board that does not get so cool again, such as between loads of a module, is compared from here on.
        self.celsius = known or self.celsius
        own = [] if age_s is None else [f"{age_s:.0f} s after its boot, others up to {old:.0f} s"]
        own += [] if celsius is None else [f"at {celsius:.0f} C, others from {cool:.0f} C"]
        return [f"a turn began its traffic {' and '.join(own)}: they did not become alike in {MOST_S:.0f} s"]


def _celsius(dut: End) -> float | None:
    try:
        heat = parse_temperature(dut.shell.run(COMMAND).stdout)
    except LabError:
        return None
    return None if heat is None else heat.temperature_c
