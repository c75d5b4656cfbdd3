"""``--pinet-dry-run``: what would be measured, with which commands, for how long; nothing is touched."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import NoReturn

import pytest

from pytest_pinet.model.combination import Combination
from pytest_pinet.model.traffic import Traffic

# What boards and tools cost beside traffic; a first use of a node adds its boot.
FIXED_S = 1.0
# A run takes a fresh port.
EXAMPLE_PORT = 20000


@dataclass(frozen=True)
class PlannedLink:
    """Stands for a link that nobody opened."""

    combination: Combination

    @property
    def id(self) -> str:
        return self.combination.id


class DryRun:
    """Collects what tests ask for. A test ends at what it would do with a figure, and counts as skipped."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._seconds = 0.0
        self._nodes: dict[str, float] = {}
        self._planned: set[str] = set()

    def link(self, combination: Combination) -> PlannedLink:
        return PlannedLink(combination)

    def measure(self, item: pytest.Item, link: PlannedLink, traffic: Traffic) -> NoReturn:
        """Plan one measurement and skip the rest of the test. Raises UnsupportedError for senseless traffic."""
        from pytest_pinet.lab.addressing import addresses
        from pytest_pinet.traffic.iperf3_command import Run, Side, client_argv, client_is_dut, server_argv
        from pytest_pinet.traffic.iperf3_values import validate

        validate(traffic)
        combination = link.combination
        if item.nodeid not in self._planned:
            self._planned.add(item.nodeid)
            self._lines.append(f"{item.nodeid}")
        at = [(end, str(address.ip)) for end, address in zip(combination.ends, addresses(combination), strict=True)]
        for planned in combination.topology.runs(traffic.direction):
            (a, own), (b, other) = at[planned.a], at[planned.b]
            self._lines.append(
                f"  {planned.direction}: {a} ({a.interface.port}) with {b} ({b.interface.port}), "
                f"{traffic.seconds} s for each connection"
            )
            near, far = (a, own), (b, other)
            client, server = (near, far) if client_is_dut(planned.direction) else (far, near)
            run = Run(
                traffic.towards(planned.direction), EXAMPLE_PORT, Side(client[1]), Side(server[1]), traffic.congestion
            )
            for end, argv in ((server[0], server_argv(run)), (client[0], client_argv(run))):
                self._lines.append(f"    {end.node.name}$ {shlex.join(argv)}")
        for node in combination.nodes:
            self._nodes[node.name] = node.boot_timeout_s
        self._seconds += traffic.seconds + FIXED_S
        pytest.skip("dry run")

    def lines(self) -> list[str]:
        """The plan, ready to print."""
        if not self._lines:
            return ["nothing would be measured"]
        total = f"about {self._seconds:.0f} s of measuring on {len(self._nodes)} nodes ({', '.join(self._nodes)})"
        return [*self._lines, "", f"{total}, plus the boot of those that are off"]
