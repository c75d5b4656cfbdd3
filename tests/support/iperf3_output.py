"""Parse the recorded output of iperf3, as a measurement does."""

from __future__ import annotations

from pytest_pinet.model.measurement import Flow
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.iperf3_parser import flows
from pytest_pinet.traffic.iperf3_report import read
from pytest_pinet.traffic.iperf3_trouble import Output, ProcessRole


def parse_client(
    stdout: str,
    stderr: str,
    returncode: int,
    traffic: Traffic,
    names: tuple[str, str] = ("client", "server"),
    server: Output | None = None,
    interval_s: float | None = None,
) -> dict[Direction, Flow]:
    """Return the flows of a run. ``names`` are the names of the ends. A client that receives may be its own server."""
    client = read(Output(ProcessRole.CLIENT, *names, returncode, stdout, stderr))
    return flows(traffic, client, client if server is None else read(server), interval_s=interval_s)
