"""Check in both reports that the requested settings took effect."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_pinet.errors import InvalidMeasurement, TrafficError
from pytest_pinet.judge.preconditions import window_text
from pytest_pinet.model.traffic import Direction
from pytest_pinet.traffic import iperf3_json
from pytest_pinet.traffic.iperf3_command import Iperf3Run
from pytest_pinet.traffic.iperf3_json import BadJson
from pytest_pinet.traffic.iperf3_report import Iperf3Report, trusted
from pytest_pinet.traffic.iperf3_version import Tool

# An iperf3 that uses this much of what its threads can use limits the goodput; the link does not.
CPU_LIMIT_PERCENT = 95.0


def verify(run: Iperf3Run, client: Iperf3Report, server: Iperf3Report) -> tuple[str, ...]:
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
                f"congestion control {run.congestion} was requested, but {used} was used between {near.end} and "
                f"{far.end}"
            )
    return tuple(unmet)


def _check_ran_as_requested(run: Iperf3Run, report: Iperf3Report) -> None:
    for key, expected in (("duration", run.seconds), ("omit", 0)):
        if (found := iperf3_json.number(report.test, key)) != expected:
            raise BadJson(f"it ran with {key} {found:g}, not {expected}")


def _window(run: Iperf3Run, report: Iperf3Report) -> list[str]:
    asked = run.traffic.window
    if asked is None:
        return []
    for key, sysctl in (("sndbuf_actual", "wmem_max"), ("rcvbuf_actual", "rmem_max")):
        # Linux limits the requested value to its maximum first, without an error, and then doubles it.
        if (actual := iperf3_json.count(report.start, key)) < 2 * asked:
            return [window_text(asked, actual, report.output.end, sysctl)]
    return []


def cpu_percent(client: Iperf3Report) -> tuple[float, float]:
    """Return the percent of one core that iperf3 used, at client and server. Raises TrafficError."""
    with trusted(client.output):
        used = iperf3_json.member(client.end, "cpu_utilization_percent")
        return iperf3_json.number(used, "host_total"), iperf3_json.number(used, "remote_total")


def notes(run: Iperf3Run, tools: Mapping[str, Tool], cpu: Mapping[str, float]) -> tuple[str, ...]:
    """Return notes that readers of the result need; ``tools`` and ``cpu`` are by end."""
    found = []
    flows = run.traffic.streams * (2 if run.traffic.direction is Direction.BIDIR else 1)
    for end, tool in tools.items():
        threads = flows if tool.version.threaded else 1
        if cpu[end] >= CPU_LIMIT_PERCENT * threads:
            found.append(f"limited by the processor of the {end}: its iperf3 used {cpu[end]:.0f} % of a core")
    if not run.traffic.udp and run.congestion is None:
        found.append("the kernels' default congestion control was used, since cubic is not available on both ends")
    if len({tool.version.threaded for tool in tools.values()}) > 1:
        found.append("iperf3 has threads on one end only (3.16 and newer): do not compare with other pairs of versions")
    return tuple(found)
