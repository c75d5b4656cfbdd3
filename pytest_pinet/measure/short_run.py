"""A second of traffic in both directions, as a share of the line rate: the goodput just after an event."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.judge.oracle import PacketSizes
from pytest_pinet.judge.starts import JITTER_S
from pytest_pinet.lab.link.link import Link
from pytest_pinet.model.measurement import Sample
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.traffic.tool import TrafficJob, TrafficTool, Watch
from pytest_pinet.traffic.wrapping_tools import in_virtual_time, wrap_scaled

# The sums and the intervals of a shorter run do not agree well enough.
SECONDS = 3.0
_COUNTED_S = 1.0


def share_of_line(tool: TrafficTool, link: Link, watch: Watch | None = None, family: int = 4) -> float:
    """Return the goodput of the slower direction in the first second, as a share of what TCP can reach over this link.

    Both directions run at once. Stalls count, too. Raises TrafficError if nothing flows.
    """
    traffic = Traffic(Direction.BIDIR, duration_s=SECONDS, warmup_s=0.0)
    job = TrafficJob(link.dut.shell, link.peer.shell, link.dut.ip, link.peer.ip, traffic, watch=watch)
    flows = in_virtual_time(wrap_scaled(tool, link.scale), link.virtual_ends).measure(job).flows
    path = link.path
    most = PacketSizes(path.mtu, path.timestamps, family=family).goodput(path.speed_mbps, both_ways=True)
    return min(_first_second_bps(flows[way].samples) for way in traffic.direction.parts) / most.bps


def _first_second_bps(samples: Sequence[Sample]) -> float:
    counted = [one for one in samples if one.start_s < samples[0].start_s + _COUNTED_S - JITTER_S]
    return sum(one.bytes for one in counted) * 8 / sum(one.seconds for one in counted)
