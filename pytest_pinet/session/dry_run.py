"""``--pinet-dry-run``: print the measurements, their commands and their duration, and touch no node."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NoReturn

import pytest

from pytest_pinet.lab.link.link import addresses, in_family
from pytest_pinet.matrix.expansion import CombinationCase
from pytest_pinet.measure.comparison import StateComparison
from pytest_pinet.measure.events import Counted
from pytest_pinet.measure.figures import Probe
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab, Node
from pytest_pinet.model.traffic import Direction, HttpTraffic, Kselftest, LadderTraffic, Traffic
from pytest_pinet.report.text_wrap import wrap
from pytest_pinet.session.hook_calls import GateCall, GateJob
from pytest_pinet.traffic import http, iperf3_command
from pytest_pinet.traffic.iperf3_command import Iperf3Run, ProcessSide, client_argv, client_is_dut, server_argv
from pytest_pinet.tuning.registry import who_gets

# Time of a measurement beside its traffic, without boots.
FIXED_S = 1.0
# Why pytest skips a test that is planned.
PLANNED = "dry run"
# A real run takes any free port.
EXAMPLE_PORT = 20000


@dataclass(frozen=True)
class PlannedLink:
    """A link that is not opened."""

    combination: Combination

    @property
    def id(self) -> str:
        return self.combination.id


def _commands(traffic: Traffic, own: str, other: str) -> list[tuple[str, list[str]]]:
    """Return the command lines of a run, each with the end (``dut``, ``peer``) that runs it. Raises ConfigError."""
    if isinstance(traffic, HttpTraffic):
        server, client, address = ("dut", "peer", own) if traffic.direction is Direction.TX else ("peer", "dut", other)
        url = f"http://{address}:{EXAMPLE_PORT}/data"
        return [(server, ["nginx", "-c", "nginx.conf"]), (client, http.wrk_argv(http.validate(traffic), url, cores=1))]

    iperf3_command.validate(traffic)
    if traffic.apart:
        return [one for way in traffic.direction.parts for one in _commands(traffic.one_way(way), own, other)]
    is_dut = client_is_dut(traffic.direction)
    client, server = (own, other) if is_dut else (other, own)
    run = Iperf3Run(traffic, EXAMPLE_PORT, ProcessSide(client), ProcessSide(server), traffic.congestion)
    near, far = ("dut", "peer") if is_dut else ("peer", "dut")
    return [(far, server_argv(run)), (near, client_argv(run))]


class DryRun:
    """Implements ``MeasuringMode``: plans what gate calls would measure. Each test ends at its first gate call."""

    def __init__(self, lab: Lab | None) -> None:
        self._lab = lab
        self._lines: list[str] = []
        self._seconds = 0.0
        self._count = 0
        self._nodes: dict[str, float] = {}
        self._planned: set[str] = set()
        self._under_test: dict[str, None] = {}
        self._boots: dict[str, int] = {}
        self._turns: Callable[[str], str] | None = None
        self._builds: Sequence[str] = ()

    def of_builds(self, contents: Sequence[str], turns: Callable[[str], str] | None = None) -> None:
        """Plan with builds under test. ``contents`` are sentences about the builds.

        ``turns`` returns their boots for the names of the boards under test; exact boards have none.
        """
        self._builds = contents
        self._turns = turns

    def is_measuring(self, item: pytest.Item) -> bool:
        return False

    def open(self, item: pytest.Item, case: CombinationCase) -> AbstractContextManager[PlannedLink]:
        return nullcontext(PlannedLink(case.combination))

    def kept_nodes(self, nextitem: pytest.Item | None) -> Sequence[Node]:
        return ()

    def measure(self, call: GateCall, job: GateJob) -> NoReturn:
        """Plan one measurement and skip the rest of the test. Raises ConfigError for impossible traffic."""
        node = call.link.combination.dut.node.name
        match job:
            case Kselftest():
                self._plan(call, [f"    {node}$ ./run_kselftest.sh -t {job.test}"], job.timeout_s)
            case StateComparison():
                self._plan_traffic(call, job.traffic)
            case Traffic():
                self._plan_traffic(call, job)
            case Probe():
                times = job.rule.least_good if isinstance(job, Counted) else call.profile.fails_after
                self._plan(call, [f"    {node}: {job.key}, {times} times {job.seconds:g} s"], times * job.seconds)

    def _plan_traffic(self, call: GateCall, traffic: Traffic) -> NoReturn:
        combination = call.link.combination
        ips = [str(in_family(address, traffic.setup.family).ip) for address in addresses(combination)]
        at = [*zip(combination.ends, ips, strict=True)]
        lines = []
        steps = [traffic.step(rate) for rate in traffic.rates] if isinstance(traffic, LadderTraffic) else [traffic]
        for planned in combination.topology.runs(traffic.direction):
            (a, own), (b, other) = at[planned.a], at[planned.b]
            lines.append(
                f"  {planned.direction}: {a} ({a.interface.port}) with {b} ({b.interface.port}), "
                f"{traffic.seconds} s for each connection"
            )
            for step in steps:
                sent = step.towards(planned.direction)
                if (tool := self._other_tool(sent)) is not None:
                    lines.append(f"    traffic tool {tool} sends {sent.key}")
                    continue
                for end, argv in _commands(sent, own, other):
                    node = (a if end == "dut" else b).node.name
                    lines.append(f"    {node}$ {shlex.join(argv)}")
        self._plan(call, lines, traffic.seconds * len(steps))

    def _other_tool(self, traffic: Traffic) -> str | None:
        """Return the name of a traffic tool of another package, whose commands are not known here."""
        tool = self._lab.tool_for(traffic) if self._lab is not None else None
        return None if tool in (None, Lab.traffic_tool, Lab.http_tool) else tool

    def boot(self, item: pytest.Item, nic: str, builds: Sequence[str], boots: Sequence[int]) -> NoReturn:
        """Plan the boots of build A and build B on the exact board of a NIC, and skip the rest of the test."""
        self._lines.append(item.nodeid)
        for side, build, often in zip("AB", builds, boots, strict=True):
            often_text = f"{often} boot{'' if often == 1 else 's'}" if often else "no boot: its values are in the cache"
            self._lines.append(f"  {nic}: {side} {build}, {often_text}")
        self._boots[nic] = self._boots.get(nic, 0) + sum(boots)
        pytest.skip(PLANNED)

    def _plan(self, call: GateCall, lines: list[str], seconds: float) -> NoReturn:
        item, combination = call.item, call.link.combination
        if item.nodeid not in self._planned:
            self._planned.add(item.nodeid)
            self._lines.append(f"{item.nodeid}")
            for name, value in combination.tuning.settings:
                self._lines.append(f"  tune {name}={value} {who_gets(name)}, undone afterwards")
        self._lines += lines
        self._under_test[combination.dut.node.name] = None
        for node in combination.nodes:
            self._nodes[node.name] = node.boot_timeout_s
        self._seconds += seconds + FIXED_S
        self._count += 1
        pytest.skip(PLANNED)

    def lines(self) -> list[str]:
        builds = [line for text in self._builds for line in wrap(text, hanging="  ")]
        return [*builds, *([""] if builds else []), *self._plan_lines()]

    def _plan_lines(self) -> list[str]:
        if not self._lines:
            return ["nothing would be measured"]
        if self._boots:
            boots = sum(self._boots.values())
            plural = "" if boots == 1 else "s"
            total = f"total: {boots} boot{plural} of exact boards ({', '.join(self._boots)})"
            return [*self._lines, "", *wrap(f"{total}, and more for a NIC whose values differ", hanging="  ")]
        each = " in each turn" if self._turns is not None else ""
        total = (
            f"total: {self._count} measurement{'s' if self._count > 1 else ''} on {len(self._nodes)} nodes "
            f"({', '.join(self._nodes)}), about {self._seconds:.0f} s{each} if the first values decide, plus the boot "
            "of nodes that are off"
        )
        lines = [*self._lines, "", *wrap(total, hanging="  ")]
        turns = [] if self._turns is None else wrap(self._turns(", ".join(self._under_test)), hanging="  ")
        return [*lines, *turns]
