"""What a command sends when it speaks for the gate, and which figures that gives."""

from __future__ import annotations

from dataclasses import replace

from pytest_pinet.lab.link import Link
from pytest_pinet.model.attempt import Attempt
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import WARMUP_CAP_S, Direction, Traffic
from pytest_pinet.tries import Try, attempts_of


def standard_traffic(way: Direction, connection_s: int, streams: int = 1) -> Traffic:
    """What the gate sends when a test asks for nothing else, for ``connection_s`` on each connection."""
    return Traffic(way, streams=streams, duration_s=connection_s - WARMUP_CAP_S, warmup_s=None)


def datagrams(way: Direction, connection_s: int, bitrate: Bitrate, length: int | None, streams: int = 1) -> Traffic:
    """UDP for as long; ``bitrate`` is of each stream, ``length`` the payload of a datagram (None: iperf3's own)."""
    sent = standard_traffic(way, connection_s, streams)
    return replace(sent, udp=True, bitrate=bitrate, length=length)


def ways(combination: Combination, asked: Direction | None = None) -> list[Direction]:
    """What is measured: the direction asked for, or each that the topology has by itself. Raises ValueError."""
    topology = combination.topology
    if asked is not None:
        topology.runs(asked)
        return [asked]
    return [way for way in (Direction.TX, Direction.RX) if way in topology.directions] or list(topology.directions)


def attempt_at(one: Try, way: Direction) -> Attempt:
    """One try as an attempt at the figure of this one-way direction: the sum of the flows that count for it."""
    chosen = [index for index, flow in enumerate(one.flows) if flow.run.counted and flow.way is way]
    return attempts_of([one], chosen)[0]


def figure_ids(link: Link, traffic: Traffic) -> dict[Direction, str]:
    """The id of each figure that this traffic gives."""
    from pytest_pinet.figures import figure_id

    return {way: figure_id(link, traffic, way) for way in traffic.direction.parts}
