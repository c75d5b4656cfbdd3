"""Measure once with iperf3: start a fresh server and a client, and read their reports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from pytest_pinet.errors import InvalidMeasurement, TrafficError
from pytest_pinet.execution.shell import Shell
from pytest_pinet.judge.preconditions import window_text
from pytest_pinet.model.lab import VIRTUAL, Lab
from pytest_pinet.model.measurement import Measurement, StreamStart
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic import iperf3_json
from pytest_pinet.traffic.iperf3_command import (
    Iperf3Run,
    ProcessSide,
    Tool,
    client_command,
    client_is_dut,
    server_command,
    supported_tool,
    validate,
)
from pytest_pinet.traffic.iperf3_json import BadJson
from pytest_pinet.traffic.iperf3_parser import flows
from pytest_pinet.traffic.iperf3_report import Iperf3Report, read, trusted
from pytest_pinet.traffic.iperf3_run import run_both
from pytest_pinet.traffic.iperf3_trouble import Output
from pytest_pinet.traffic.processes import GRACE_S, PORTS, MidRunProbe, PerEnd, on_a_free_port
from pytest_pinet.traffic.tool import TrafficJob

DEFAULT_CONGESTION = "cubic"
# An iperf3 that uses this much of what its threads can use limits the goodput; the link does not.
CPU_LIMIT_PERCENT = 95.0


class Iperf3:
    """Measures with iperf3. Keep one object per session: it remembers the iperf3 of every end.

    ``quiet`` are the names of shells whose end has a virtual clock. Flows of such an end are not probed during the
    traffic. If such an end sends it is the client, so that the traffic lasts the requested time on its clock.
    iperf3 may run ``grace_s`` longer than the traffic.
    """

    @classmethod
    def for_lab(cls, lab: Lab) -> Iperf3:
        """Return the tool for this lab.

        Nodes with a virtual clock are not probed: each probe costs them instructions.
        """
        return cls(quiet={node.name for node in lab.nodes.values() if node.clock == VIRTUAL})

    def __init__(self, ports: Sequence[int] = PORTS, quiet: Collection[str] = (), grace_s: float = GRACE_S) -> None:
        self._tools = PerEnd(supported_tool)
        self._ports = ports
        self._quiet = frozenset(quiet)
        self._grace_s = grace_s

    def prepare(self, job: TrafficJob) -> None:
        """Check the traffic, and read the iperf3 version of both ends. Raises ConfigError or TrafficError."""
        validate(job.traffic)
        for shell in (job.dut, job.peer):
            self._tools.of(shell)

    def measure(self, job: TrafficJob) -> Measurement:
        """Send the traffic and return what the receivers got. No iperf3 is left on either end, whatever happens.

        Raises ConfigError (the traffic is impossible), UnsupportedError (an iperf3 cannot do it), LabError (its message
        names the end), InvalidMeasurement (another congestion control was used). ``unmet`` of the result names windows
        that a kernel clamped.
        """
        traffic = job.traffic
        validate(traffic)
        sender = {Direction.TX: job.dut, Direction.RX: job.peer}.get(traffic.direction)
        sends = sender is not None and sender.name in self._quiet
        ends = {"dut": (job.dut, job.dut_address), "peer": (job.peer, job.peer_address)}
        near, far = ("dut", "peer") if client_is_dut(traffic.direction, sends) else ("peer", "dut")
        (client, client_address), (server, server_address) = ends[near], ends[far]
        tools = {near: self._tools.of(client), far: self._tools.of(server)}
        quiet = bool({job.dut.name, job.peer.name} & self._quiet)
        probed = {} if quiet else _ends(traffic, client, server)
        single = traffic.streams == 1 and traffic.direction is not Direction.BIDIR
        source_port = job.source_port if single else None

        def measure_on(port: int) -> Measurement:
            run = Iperf3Run(
                traffic,
                port,
                ProcessSide(client_address, tools[near].timeout, job.at_end.get(client.name, "")),
                ProcessSide(server_address, tools[far].timeout, job.at_end.get(server.name, "")),
                _congestion(traffic, tools),
                job.warmup_cap_s,
                reports_begin=job.before_client is not None,
                sends=sends,
                quiet=quiet,
                grace_s=self._grace_s,
                source_port=source_port,
            )
            midway = MidRunProbe(probed, port, traffic.streams, run.middle_s, job.watch)
            return _measurement(run, *run_both(run, replace(job, watch=midway.look)), tools, midway)

        # A hash of the flow has both ports.
        return on_a_free_port(self._ports, server, measure_on, first=source_port)


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
    client_report, server_report = read(client), read(server)
    own = flows(run.traffic, client_report, server_report, run.warmup_cap_s, not run.quiet, run.interval_s)
    found = midway.add(own)
    unmet = _verify(run, client_report, server_report)
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
    cpu = _cpu_percent(client_report, near, far)
    return Measurement(
        run.traffic,
        found,
        raw,
        versions={end: str(tool.version) for end, tool in tools.items()},
        cpu_percent=cpu,
        notes=(*_notes(run, tools, cpu), *_repeated(client_report)),
        began=began,
        unmet=unmet,
        at_end={end: output.at_end for end, output in ((near, client), (far, server)) if output.at_end},
    )


def _verify(run: Iperf3Run, client: Iperf3Report, server: Iperf3Report) -> tuple[str, ...]:
    """Check that both processes talked to each other, for the requested time and with the requested congestion control.

    Return a sentence for each end whose kernel clamped the window. The MSS is not checked: with ``-M`` iperf3 reports
    the requested one, whatever the kernel used. Raises TrafficError or InvalidMeasurement.
    """
    unmet: list[str] = []
    for report in (client, server):
        with trusted(report.output):
            _check_ran_as_requested(run, report)
            unmet += _window(run, report)
    near, far = client.output, server.output
    with trusted(near):
        strangers = client.cookie != server.cookie
    if strangers:
        raise TrafficError(
            f"the iperf3 client on {near.end} was connected to a foreign server on {far.end} (port {run.port})",
            f"repeat; look for other programs that listen on {far.end}",
            near.evidence + far.evidence,
        )
    for key in ("sender_tcp_congestion", "receiver_tcp_congestion"):
        used = client.end.get(key)
        if run.congestion is not None and used is not None and used != run.congestion:
            raise InvalidMeasurement(
                f"congestion control {run.congestion} was requested between {near.end} and {far.end}, "
                f"but the {key.partition('_')[0]} used {used}"
            )
    return tuple(unmet)


def _check_ran_as_requested(run: Iperf3Run, report: Iperf3Report) -> None:
    for key, expected in (("duration", run.seconds), ("omit", 0)):
        if (found := iperf3_json.number(report.test, key)) != expected:
            raise BadJson(f"iperf3 ran with {key} {found:g}, not {expected}")


def _window(run: Iperf3Run, report: Iperf3Report) -> list[str]:
    requested = run.traffic.window
    if requested is None:
        return []
    for key, sysctl in (("sndbuf_actual", "wmem_max"), ("rcvbuf_actual", "rmem_max")):
        # Linux limits the requested value to its maximum first, without an error, and then doubles it.
        if (actual := iperf3_json.count(report.start, key)) < 2 * requested:
            return [window_text(requested, actual, report.output.end, sysctl)]
    return []


def _cpu_percent(client: Iperf3Report, near: str, far: str) -> dict[str, float]:
    """Return the percent of one core that iperf3 used, by end. It is evidence only, so an impossible one is left out.

    A clock of 32 bits wraps after 36 minutes, and iperf3 then reports less than 0.
    """
    found = {}
    for end, key in ((near, "host_total"), (far, "remote_total")):
        with suppress(BadJson):
            found[end] = iperf3_json.number(iperf3_json.member(client.end, "cpu_utilization_percent"), key)
    return found


def _repeated(client: Iperf3Report) -> list[str]:
    """Return a note for each direction in which datagrams arrived twice. The client knows the losses of both."""
    with trusted(client.output):
        sums = [one for key in ("sum", "sum_bidir_reverse") if isinstance(one := client.end.get(key), Mapping)]
        extra = [-iperf3_json.lost(one) for one in sums if "lost_packets" in one]
    return [f"at least {count} datagrams arrived twice; none is counted as lost" for count in extra if count > 0]


def _notes(run: Iperf3Run, tools: Mapping[str, Tool], cpu: Mapping[str, float]) -> tuple[str, ...]:
    """Return notes that readers of the result need; ``tools`` and ``cpu`` are by end."""
    found = []
    flows = run.traffic.streams * (2 if run.traffic.direction is Direction.BIDIR else 1)
    for end, tool in tools.items():
        threads = flows if tool.version.threaded else 1
        if cpu.get(end, 0.0) >= CPU_LIMIT_PERCENT * threads:
            found.append(f"limited by the processor of the {end}: its iperf3 used {cpu[end]:.0f} % of a core")
    if not run.traffic.udp and run.congestion is None:
        found.append("the kernels' default congestion control was used, since cubic is not available on both ends")
    if len({tool.version.threaded for tool in tools.values()}) > 1:
        found.append("iperf3 has threads on one end only (3.16 and newer): do not compare with other iperf3 versions")
    return tuple(found)
