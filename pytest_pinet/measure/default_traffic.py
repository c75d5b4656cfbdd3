"""The default traffic of commands such as ``pinet calibrate``, equal to the gate's, and the ids of the results."""

from __future__ import annotations

from dataclasses import replace

from pytest_pinet.lab.link.link import Link
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.metric_key import metric_keys
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import WARMUP_CAP_S, Direction, Traffic


def standard_traffic(way: Direction, connection_s: int, streams: int = 1) -> Traffic:
    """Return the default traffic of the gate, lasting ``connection_s`` per connection."""
    return Traffic(way, streams=streams, duration_s=connection_s - WARMUP_CAP_S, warmup_s=None)


def datagrams(way: Direction, connection_s: int, bitrate: Bitrate, length: int | None, streams: int = 1) -> Traffic:
    """Return UDP traffic; ``bitrate`` is per stream, ``length`` the payload of a datagram (None: iperf3's default)."""
    sent = standard_traffic(way, connection_s, streams)
    return replace(sent, udp=True, bitrate=bitrate, length=length)


def ways(combination: Combination, requested: Direction | None = None) -> list[Direction]:
    """Return the requested direction, or the topology's default ones. Raises ValueError for an impossible one."""
    topology = combination.topology
    if requested is not None:
        topology.runs(requested)
        return [requested]
    return [way for way in (Direction.TX, Direction.RX) if way in topology.directions] or list(topology.directions)


def figure_ids(link: Link, traffic: Traffic) -> dict[Direction, str]:
    """Return the id of each value that this traffic yields, by direction."""
    return {way: str(key) for way, key in metric_keys(link.combination.identity, traffic).items()}
