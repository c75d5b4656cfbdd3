"""One measurement with iperf3: a fresh server, a client, and what they say."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.errors import TrafficError
from pytest_pinet.model.measurement import Began, Measurement
from pytest_pinet.model.traffic import WARMUP_CAP_S, Direction, Traffic
from pytest_pinet.shell import Shell
from pytest_pinet.traffic.iperf3_command import (
    SLOW_CLOCK_S,
    Run,
    Side,
    client_command,
    client_is_dut,
    server_command,
)
from pytest_pinet.traffic.iperf3_effect import cpu_percent, notes, verify
from pytest_pinet.traffic.iperf3_parser import flows
from pytest_pinet.traffic.iperf3_run import PortTaken, run_both
from pytest_pinet.traffic.iperf3_tool import Tool, Tools
from pytest_pinet.traffic.iperf3_trouble import Output
from pytest_pinet.traffic.iperf3_values import validate
from pytest_pinet.traffic.iperf3_version import BIND_DEV, check
from pytest_pinet.traffic.midway import Midway
from pytest_pinet.traffic.tool import BeforeClient, Progress, Watch

# Below the ports that kernels hand out by themselves (from 32768).
PORTS = range(20_000, 32_000)
PORT_ATTEMPTS = 5
GRACE_S = 15.0
DEFAULT_CONGESTION = "cubic"


@dataclass(frozen=True)
class End:
    """A shell, and its place on the measured link."""

    shell: Shell
    side: Side


class Iperf3:
    """Measures with iperf3; keep one for a session, since it remembers the version of every end.

    Flows with an end in ``quiet`` (names of shells), whose clock is not the wall's, are asked nothing in mid-traffic;
    where such an end sends it is the client, so that they last as long as asked in its time.
    """

    def __init__(self, ports: Sequence[int] = PORTS, quiet: Collection[str] = ()) -> None:
        self.tools = Tools()
        self._ports = ports
        self._quiet = frozenset(quiet)
        # Not the shared generator: a test that seeds it would give all workers the same ports.
        self._random = random.SystemRandom()

    def prepare(self, dut: Shell, peer: Shell, traffic: Traffic) -> None:
        """Ask both ends for their iperf3. Raises TrafficError."""
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
        dut_device: str | None = None,
        peer_device: str | None = None,
        watch: Watch | None = None,
        before_client: BeforeClient | None = None,
        warmup_cap_s: float = WARMUP_CAP_S,
    ) -> Measurement:
        """Send ``traffic`` between the two addresses and return what the receivers got.

        Devices (``eth1``) are given where several interfaces of an end are in one subnet. ``on_progress`` is called
        about twice a second with the seconds of traffic so far, ``watch`` all the time: it ends the run by raising.
        ``before_client`` is called when everything stands but traffic, may wait for others, and says when the client
        begins; it is then measured when the streams stood. ``grace_s`` is how much
        longer than the traffic iperf3 may run. A warm-up that is found ends after ``warmup_cap_s``. No iperf3 is left
        behind on either end, whatever happens.

        Raises ConfigError (the traffic makes no sense), UnsupportedError (an iperf3 cannot do it), LabError (its
        message names the end), InvalidMeasurement (another congestion control was used). A window that a kernel
        clamped stands in ``unmet``.
        """
        validate(traffic)
        ends = {
            "dut": End(dut, Side(dut_address, dut_device)),
            "peer": End(peer, Side(peer_address, peer_device)),
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
            (BIND_DEV,) if dut_device or peer_device else (),
        )
        congestion = _congestion(traffic, tools)
        client_side = replace(client.side, timeout=tools[near].timeout)
        server_side = replace(server.side, timeout=tools[far].timeout)
        attempts = self._random.sample(self._ports, min(PORT_ATTEMPTS, len(self._ports)))
        for port in attempts:
            run = Run(
                *(traffic, port, client_side, server_side, congestion, warmup_cap_s),
                told=before_client is not None,
                sends=sends,
                quiet=quiet,
            )
            asked = {} if quiet else _ends(traffic, client.shell, server.shell)
            midway = Midway(asked, port, traffic.streams, run.middle_s, watch)
            try:
                patience_s = grace_s + (SLOW_CLOCK_S if quiet else 0.0)
                outputs = run_both(run, client.shell, server.shell, patience_s, on_progress, midway.look, before_client)
            except PortTaken:
                continue
            return _measurement(run, *outputs, tools, midway)
        raise TrafficError(
            f"the ports {attempts} are all taken on {server.shell.name}",
            f"look what listens on {server.shell.name}",
        )


def _congestion(traffic: Traffic, tools: Mapping[str, Tool]) -> str | None:
    """What was asked for, else cubic, so that two kernels with different defaults compare; else the kernels' own."""
    if traffic.udp or traffic.congestion is not None:
        return traffic.congestion
    return DEFAULT_CONGESTION if all(DEFAULT_CONGESTION in t.congestion for t in tools.values()) else None


def _ends(traffic: Traffic, client: Shell, server: Shell) -> dict[Direction, tuple[Shell, Shell]]:
    """Who sends in each direction, and who receives; nobody whose TCP could be asked for UDP."""
    if traffic.udp:
        return {}
    if traffic.direction is Direction.BIDIR:
        return {Direction.TX: (client, server), Direction.RX: (server, client)}
    return {traffic.direction: (server, client)}


def _measurement(run: Run, client: Output, server: Output, tools: Mapping[str, Tool], midway: Midway) -> Measurement:
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
    began = None if server.began_s is None else Began(far, server.began_s)
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
