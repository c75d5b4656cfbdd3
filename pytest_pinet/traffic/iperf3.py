"""Measure once with iperf3: start a fresh server and a client, and read their reports."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.errors import TrafficError
from pytest_pinet.execution.shell import Shell
from pytest_pinet.model.lab import VIRTUAL, Lab
from pytest_pinet.model.measurement import Measurement, StreamStart
from pytest_pinet.model.traffic import WARMUP_CAP_S, Direction, Traffic
from pytest_pinet.traffic.iperf3_command import (
    SLOW_CLOCK_S,
    Iperf3Run,
    ProcessSide,
    client_command,
    client_is_dut,
    server_command,
)
from pytest_pinet.traffic.iperf3_effect import cpu_percent, notes, verify
from pytest_pinet.traffic.iperf3_parser import flows
from pytest_pinet.traffic.iperf3_run import PortTaken, run_both
from pytest_pinet.traffic.iperf3_trouble import Output
from pytest_pinet.traffic.iperf3_values import validate
from pytest_pinet.traffic.iperf3_version import Tool, Tools, check
from pytest_pinet.traffic.mid_run_probe import MidRunProbe
from pytest_pinet.traffic.tool import BeforeClient, Progress, Watch

# Below the ephemeral ports of the kernel (from 32768).
PORTS = range(20_000, 32_000)
PORT_ATTEMPTS = 5
GRACE_S = 15.0
DEFAULT_CONGESTION = "cubic"


@dataclass(frozen=True)
class TrafficEnd:
    """A shell, and the address of its end on the measured link."""

    shell: Shell
    side: ProcessSide


class Iperf3:
    """Measures with iperf3. Keep one object per session: it remembers the iperf3 of every end.

    ``quiet`` are the names of shells whose end has a virtual clock. Flows of such an end are not probed during the
    traffic. If such an end sends it is the client, so that the traffic lasts the requested time on its clock.
    """

    @classmethod
    def for_lab(cls, lab: Lab) -> Iperf3:
        """Return the tool for this lab.

        Nodes with a virtual clock are not probed: each probe costs them instructions.
        """
        return cls(quiet={node.name for node in lab.nodes.values() if node.clock == VIRTUAL})

    def __init__(self, ports: Sequence[int] = PORTS, quiet: Collection[str] = ()) -> None:
        self.tools = Tools()
        self._ports = ports
        self._quiet = frozenset(quiet)
        # An own generator: a test that seeds the shared one would give all workers the same ports.
        self._random = random.SystemRandom()

    def prepare(self, dut: Shell, peer: Shell, traffic: Traffic) -> None:
        """Check the traffic, and read the iperf3 version of both ends. Raises ConfigError or TrafficError."""
        validate(traffic)
        for shell in (dut, peer):
            self.tools.of(shell)

    def measure(
        self,
        dut: Shell,
        peer: Shell,
        dut_address: str,
        peer_address: str,
        traffic: Traffic,
        on_progress: Progress | None = None,
        grace_s: float = GRACE_S,
        watch: Watch | None = None,
        before_client: BeforeClient | None = None,
        warmup_cap_s: float = WARMUP_CAP_S,
    ) -> Measurement:
        """Send ``traffic`` between the two addresses and return what the receivers got.

        ``on_progress`` is called about twice a second with the seconds of traffic so far. ``watch`` is called
        throughout and can end the run by raising. ``before_client`` is called when everything but the traffic is ready;
        it may wait for other flows, and returns when the client begins. The moment at which the streams stood is then
        measured. ``grace_s`` is how much longer than the traffic iperf3 may run. A detected warm-up ends after
        ``warmup_cap_s`` at the latest. No iperf3 is left on either end, whatever happens.

        Raises ConfigError (the traffic is impossible), UnsupportedError (an iperf3 cannot do it), LabError (its message
        names the end), InvalidMeasurement (another congestion control was used). ``unmet`` of the result names windows
        that a kernel clamped.
        """
        validate(traffic)
        ends = {
            "dut": TrafficEnd(dut, ProcessSide(dut_address)),
            "peer": TrafficEnd(peer, ProcessSide(peer_address)),
        }
        sender = {Direction.TX: dut, Direction.RX: peer}.get(traffic.direction)
        sends = sender is not None and sender.name in self._quiet
        quiet = bool({dut.name, peer.name} & self._quiet)
        near, far = ("dut", "peer") if client_is_dut(traffic.direction, sends) else ("peer", "dut")
        client, server = ends[near], ends[far]
        tools = {near: self.tools.of(client.shell), far: self.tools.of(server.shell)}
        check(
            traffic,
            tools[near].version,
            tools[far].version,
            (client.shell.name, server.shell.name),
        )
        congestion = _congestion(traffic, tools)
        client_side = replace(client.side, timeout=tools[near].timeout)
        server_side = replace(server.side, timeout=tools[far].timeout)
        attempts = self._random.sample(self._ports, min(PORT_ATTEMPTS, len(self._ports)))
        for port in attempts:
            run = Iperf3Run(
                *(traffic, port, client_side, server_side, congestion, warmup_cap_s),
                reports_begin=before_client is not None,
                sends=sends,
                quiet=quiet,
            )
            asked = {} if quiet else _ends(traffic, client.shell, server.shell)
            midway = MidRunProbe(asked, port, traffic.streams, run.middle_s, watch)
            try:
                patience_s = grace_s + (SLOW_CLOCK_S if quiet else 0.0)
                outputs = run_both(run, client.shell, server.shell, patience_s, on_progress, midway.look, before_client)
            except PortTaken:
                continue
            return _measurement(run, *outputs, tools, midway)
        raise TrafficError(
            f"all of the ports {attempts} are in use on {server.shell.name}",
            f"look for programs that listen on {server.shell.name}",
        )


def _congestion(traffic: Traffic, tools: Mapping[str, Tool]) -> str | None:
    """Return the requested congestion control, or else cubic, so that kernels with different defaults are comparable.

    Return None (the kernels' default) for UDP, or if an end does not offer cubic.
    """
    if traffic.udp or traffic.congestion is not None:
        return traffic.congestion
    return DEFAULT_CONGESTION if all(DEFAULT_CONGESTION in t.congestion for t in tools.values()) else None


def _ends(traffic: Traffic, client: Shell, server: Shell) -> dict[Direction, tuple[Shell, Shell]]:
    """Return sender and receiver of each direction; empty for UDP, which has no TCP sockets to read."""
    if traffic.udp:
        return {}
    if traffic.direction is Direction.BIDIR:
        return {Direction.TX: (client, server), Direction.RX: (server, client)}
    return {traffic.direction: (server, client)}


def _measurement(
    run: Iperf3Run, client: Output, server: Output, tools: Mapping[str, Tool], midway: MidRunProbe
) -> Measurement:
    found = midway.add(flows(run.traffic, client, server, run.warmup_cap_s))
    unmet = verify(run, client, server)
    raw = {
        "client.cmd": client_command(run) + "\n",
        "client.json": client.stdout,
        "client.err": client.stderr,
        "server.cmd": server_command(run) + "\n",
        "server.json": server.stdout,
        "server.err": server.stderr,
        **midway.raw,
    }
    near, far = tools
    began = None if server.began_s is None else StreamStart(far, server.began_s)
    cpu = dict(zip((near, far), cpu_percent(client), strict=True))
    return Measurement(
        run.traffic,
        found,
        raw,
        versions={end: str(tool.version) for end, tool in tools.items()},
        cpu_percent=cpu,
        notes=notes(run, tools, cpu),
        began=began,
        unmet=unmet,
    )
