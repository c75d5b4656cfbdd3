"""A second of traffic in both directions, as a share of the line rate: the goodput just after an event."""

from __future__ import annotations

from pytest_pinet.judge.oracle import tcp_goodput
from pytest_pinet.lab.link.link import Link
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.tool import TrafficJob, TrafficTool, Watch
from pytest_pinet.traffic.wrapping_tools import wrap_scaled

SECONDS = 1.0


def share_of_line(tool: TrafficTool, link: Link, watch: Watch | None = None) -> float:
    """Return the goodput of the slower direction as a share of what TCP can reach over this link.

    Both directions run at once, from the first byte on. Raises TrafficError if nothing flows.
    """
    traffic = Traffic(Direction.BIDIR, duration_s=SECONDS, warmup_s=0.0)
    job = TrafficJob(link.dut.shell, link.peer.shell, link.dut.ip, link.peer.ip, traffic, watch=watch)
    flows = wrap_scaled(tool, link.scale).measure(job).flows
    path = link.path
    most = tcp_goodput(path.speed_mbps, path.mtu, path.timestamps, both_ways=True)
    return min(flows[way].goodput.bps for way in traffic.direction.parts) / most.bps
