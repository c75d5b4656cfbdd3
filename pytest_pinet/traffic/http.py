"""Measure HTTP once: nginx serves a cached file at the sending end, wrk requests the file at the other end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_pinet.errors import ConfigError, TrafficError
from pytest_pinet.execution.shell import Completed, Shell
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.measurement import Flow, Measurement, Sample
from pytest_pinet.model.traffic import RESPONSE_HEAD, Direction, HttpTraffic, Traffic
from pytest_pinet.traffic import wrk
from pytest_pinet.traffic.http_run import HttpRun, evidence
from pytest_pinet.traffic.mid_run_probe import MidRunProbe
from pytest_pinet.traffic.processes import ASK_TIMEOUT, PORTS, TIMEOUTS, PerEnd, on_a_free_port
from pytest_pinet.traffic.tool import TrafficJob

CONNECTIONS_MAX = 10_000
SIZE_MAX = 64 * 2**20
SECONDS_MAX = 3600
_PACKAGES = {"nginx": "nginx-light", "wrk": "wrk"}
# One line each: nginx version and wrk version (empty if the tool is missing), cores, form of timeout.
_ASK = (
    'PATH=$PATH:/usr/sbin:/sbin; first() { read -r v; echo "${v#nginx version: }"; }; '
    "if command -v nginx >/dev/null; then nginx -v 2>&1 | first; else echo; fi; "
    "if command -v wrk >/dev/null; then wrk -v 2>&1 | first; else echo; fi; "
    f"nproc 2>/dev/null || echo 1; {ASK_TIMEOUT} || echo"
)


@dataclass(frozen=True)
class _End:
    """The tools of an end: version texts (empty if the tool is missing), number of cores, form of timeout."""

    nginx: str
    wrk: str
    cores: int
    timeout: str


class Http:
    """Measures with nginx and wrk. Keep one object per session: it remembers the tools of every end."""

    @classmethod
    def for_lab(cls, _: Lab) -> Http:
        """Return the tool; it is the same for every lab."""
        return cls()

    def __init__(self, ports: Sequence[int] = PORTS) -> None:
        self._ports = ports
        self._ends = PerEnd(_read_end)

    def prepare(self, job: TrafficJob) -> None:
        """Check that the server's end has nginx and the client's end has wrk. Raises TrafficError."""
        server, client = _roles(job, validate(job.traffic))
        self._need(server, "nginx")
        self._need(client, "wrk")

    def measure(self, job: TrafficJob) -> Measurement:
        """Request the file for the duration of the traffic; the payload of good responses is counted.

        When this returns or raises, no process runs on and no file is left. Raises ConfigError or LabError.
        """
        http = validate(job.traffic)
        server, client = _roles(job, http)
        address = job.dut_address if server is job.dut else job.peer_address
        far, near = self._need(server, "nginx"), self._need(client, "wrk")

        def measure_on(port: int) -> Measurement:
            # The kernel sees the server as the sender of the flow.
            midway = MidRunProbe({http.direction: (server, client)}, port, http.streams, http.seconds / 2, job.watch)
            run = HttpRun(http, address, port, server, client, near.cores, near.timeout)
            return _measurement(run, *run.both(replace(job, watch=midway.look)), midway, (far, near))

        return on_a_free_port(self._ports, server, measure_on)

    def _need(self, shell: Shell, tool: str) -> _End:
        end = self._ends.of(shell)
        if not getattr(end, tool):
            raise TrafficError(f"{shell.name} has no {tool}", f"on {shell.name}: install the package {_PACKAGES[tool]}")
        return end


def _read_end(shell: Shell) -> _End:
    lines = [*shell.run(_ASK).stdout.splitlines(), "", "", "", ""]
    cores = int(lines[2]) if lines[2].isdigit() else 1
    return _End(lines[0], lines[1], cores, lines[3] if lines[3] in TIMEOUTS else "")


def validate(traffic: Traffic) -> HttpTraffic:
    """Check the values of the traffic. Raises ConfigError for impossible values."""
    if not isinstance(traffic, HttpTraffic) or traffic.direction is Direction.BIDIR:
        raise ConfigError(
            f"direction={str(traffic.direction)!r}: HTTP has one direction; expected 'tx' (the device under test "
            "serves) or 'rx' (its peer serves)"
        )
    for name, value, most in (("connections", traffic.streams, CONNECTIONS_MAX), ("size", traffic.size, SIZE_MAX)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise ConfigError(f"{name}={value!r}: expected 1 to {most}")
    if not 0 < traffic.duration_s <= SECONDS_MAX:
        raise ConfigError(f"duration={traffic.duration_s:g} s: expected more than 0 s, and {SECONDS_MAX} s at most")
    return traffic


def _roles(job: TrafficJob, traffic: HttpTraffic) -> tuple[Shell, Shell]:
    """Return the server's end and the client's end."""
    return (job.dut, job.peer) if traffic.direction is Direction.TX else (job.peer, job.dut)


def _measurement(
    run: HttpRun, served: Completed, asked: Completed, midway: MidRunProbe, ends: tuple[_End, _End]
) -> Measurement:
    """Return everything that arrived as one sample: wrk reports no intervals. Raises TrafficError."""
    traffic = run.traffic
    if asked.returncode != 0:
        said = (asked.stderr.strip() or asked.stdout.strip()).partition("\n")[0]
        raise TrafficError(
            f"wrk on {run.client.name} failed: {said or f'exit status {asked.returncode}'}",
            f"check address, cable, switch port and firewall between {run.client.name} and {run.server.name}",
            evidence(served, asked),
        )
    try:
        report = wrk.parse(asked.stdout)
    except ValueError as error:
        raise TrafficError(
            f"the output of wrk on {run.client.name} cannot be trusted: {error}",
            f"repeat; if it happens again, look at the wrk of {run.client.name}",
            evidence(served, asked),
        ) from None
    payload = report.good * traffic.size
    sample = Sample(0.0, report.seconds, payload)
    # When wrk ends, each connection has a response on its way that wrk may have read in part.
    head = max(0, round(report.read_bytes) - payload)
    on_its_way = traffic.streams * (traffic.size + RESPONSE_HEAD)
    flow = Flow(traffic.direction, (sample,), sent_bytes=payload + head + on_its_way, head_bytes=head)
    serving, asking = ("dut", "peer") if traffic.direction is Direction.TX else ("peer", "dut")
    return Measurement(
        traffic,
        midway.add({traffic.direction: flow}),
        {
            "server.cmd": run.server_command + "\n",
            "server.err": served.stderr,
            "client.cmd": run.client_command + "\n",
            "wrk.txt": asked.stdout,
            "client.err": asked.stderr,
        },
        versions={serving: ends[0].nginx, asking: ends[1].wrk},
        http=report,
    )
