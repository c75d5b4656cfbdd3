"""From an open link to a judged result record: traffic, evidence, physical limit, limit, verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from pytest_pinet.evidence.build import read_build
from pytest_pinet.evidence.crossing import Crossing, Device
from pytest_pinet.evidence.rate import RateMeter
from pytest_pinet.judge.limits import most_specific
from pytest_pinet.judge.oracle import Oracle, physical_limit
from pytest_pinet.judge.verdict import judge
from pytest_pinet.lab.deadline import Deadline
from pytest_pinet.lab.link import End, Link
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.measurement import Measurement
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict, worst
from pytest_pinet.report.record import DirectionRecord, ResultRecord, combination_record, direction_record
from pytest_pinet.traffic.iperf3 import Iperf3

# Some drivers refresh their counters once a second.
COUNTER_TIMEOUT_S = 3.0


def result_id(link: Link, traffic: Traffic) -> str:
    """Stable across runs: board, NIC, topology, traffic, direction."""
    way = "" if traffic.direction is Direction.BIDIR else f"-{traffic.direction}"
    return f"{link.id}/{traffic.key}{way}"


def oracle_of(link: Link, traffic: Traffic) -> Oracle:
    """The physical limit of this link for this traffic: the slower of its two ends."""
    limits = [
        physical_limit(
            link.path.speed_mbps,
            link.path.mtu,
            link.path.timestamps,
            end.endpoint.interface.bus,
            traffic.direction,
            traffic.udp,
            traffic.length if traffic.udp else traffic.mss,
        )
        for end in (link.dut, link.peer)
    ]
    return min(limits, key=lambda oracle: oracle.goodput)


def _build_of(end: End) -> dict[str, str | None]:
    """Read once for each time that a node is booted: nothing but a boot or a module load changes it."""
    facts = end.session.facts
    key = f"build {end.device}"
    if key not in facts:
        facts[key] = read_build(end.shell, end.device)
    build: dict[str, str | None] = facts[key]
    return build


def _offered(traffic: Traffic) -> Bitrate | None:
    """What the senders of one direction were told to send at most."""
    return None if traffic.bitrate is None else Bitrate(traffic.streams * traffic.bitrate.bps)


def _progress(
    link: Link, traffic: Traffic, on_progress: Callable[[float, Mapping[str, float | None]], None] | None
) -> Callable[[float], None] | None:
    if on_progress is None:
        return None
    receivers = {Direction.TX: link.peer, Direction.RX: link.dut}
    meters = {str(d): RateMeter(receivers[d].shell, receivers[d].device) for d in traffic.direction.parts}
    return lambda elapsed_s: on_progress(elapsed_s, {way: meter.read() for way, meter in meters.items()})


def measure(
    link: Link,
    traffic: Traffic,
    limits: Sequence[Limit],
    tool: Iperf3,
    on_progress: Callable[[float, Mapping[str, float | None]], None] | None,
) -> tuple[ResultRecord, Measurement]:
    """Measure once and judge each direction. Raises LabError or UnsupportedError, and then no figure exists.

    ``test``, ``files`` and ``rerun`` of the record are the caller's to fill in. ``on_progress`` is given the seconds of
    traffic so far and the latest rate of each direction (bit/s).
    """
    started = datetime.now(UTC)
    clock = time.monotonic()
    build = _build_of(link.dut)
    crossing = Crossing(*(Device(end.shell, end.device, str(end)) for end in (link.dut, link.peer)))
    traffic_clock = time.monotonic()
    measurement = tool.measure(
        link.dut.shell,
        link.peer.shell,
        str(link.dut.address.ip),
        str(link.peer.address.ip),
        traffic,
        on_progress=_progress(link, traffic, on_progress),
    )
    traffic_seconds = time.monotonic() - traffic_clock
    crossing.check(measurement.flows, Deadline(COUNTER_TIMEOUT_S).wait_until)
    oracle = oracle_of(link, traffic)
    directions: dict[str, DirectionRecord] = {}
    for direction, flow in measurement.flows.items():
        here = link.combination
        both_ways = traffic.direction is Direction.BIDIR
        limit = most_specific(limits, here.board, here.nic, here.topology, direction, both_ways)
        directions[direction.value] = direction_record(
            flow, judge(flow.goodput, oracle, limit, _offered(traffic)), oracle
        )
    verdict = worst([Verdict(d["verdict"]) for d in directions.values()])
    worst_direction = next(name for name, d in directions.items() if d["verdict"] == verdict)
    record: ResultRecord = {
        "id": result_id(link, traffic),
        "test": "",
        "verdict": verdict.value,
        "message": f"{link.id} {worst_direction}: {directions[worst_direction]['reason']}",
        "combination": combination_record(link.combination, traffic),
        "build": build,
        "link": f"{link.path.speed_mbps} Mbit/s {link.path.duplex or 'unknown'} duplex, MTU {link.path.mtu}",
        "versions": dict(measurement.versions),
        "cpu_percent": dict(measurement.cpu_percent),
        "notes": list(measurement.notes),
        "started": started.isoformat(),
        "seconds": time.monotonic() - clock,
        "traffic_seconds": traffic_seconds,
        "directions": directions,
        "files": [],
        "rerun": "",
    }
    return record, measurement
