"""A link between the two nodes of the doctor's lab, in its state after opening, without a lab."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_pinet.evidence.interface import InterfaceState
from pytest_pinet.execution.shell import Shell
from pytest_pinet.lab.link.end import End
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.combination import Combination, Endpoint
from pytest_pinet.model.connection import Connection, MeasuredFlow
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.judgement import DirectionJudgement
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.limits import Metric, Threshold
from pytest_pinet.model.measurement import Flow, Measurement, Sample, Sockets
from pytest_pinet.model.metric_key import CombinationId, MetricKey
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.topology import LinkEnd, LinkFacts, TopologyFlow, parse_topology
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict
from tests.support import doctor_lab
from tests.support.local_shell import LocalShell

UP = InterfaceState(True, True, 1000, "full", 1500, "02:00:00:00:00:01", 1, True, 0, 0)
TX = Traffic(Direction.TX)


def key(board: str, nic: str, direction: Direction = Direction.TX, both_ways: bool = False) -> MetricKey:
    """Return the key of one TCP stream over a pair."""
    traffic = Traffic(Direction.BIDIR if both_ways else direction)
    return MetricKey(CombinationId(board, nic, "pair"), traffic, direction)


class NoTarget:
    """A labgrid target without drivers."""

    def get_driver(self, *wanted: object, **settings: object) -> None:
        return None


def link(
    folder: Path,
    interfaces: Sequence[tuple[str, str]] = (("one", "onboard"), ("two", "onboard")),
    shells: Sequence[Shell] = (),
    topology: str = "pair",
    speeds_mbps: Sequence[int] = (),
) -> Link:
    """Return a link with these interfaces (node, name), the first one under test.

    Without ``shells``, all ends use this machine's shell.
    """
    lab: Lab = doctor_lab.lab(folder)
    chosen = [Endpoint(lab.nodes[node], lab.nodes[node].interface(name)) for node, name in interfaces]
    kind = parse_topology(topology)
    sessions = {name: NodeSession(node, NoTarget()) for name, node in lab.nodes.items()}
    ends = tuple(
        End(one, sessions[one.node.name], shell, ipaddress.IPv4Interface(f"192.0.2.{number}/24"))
        for number, (one, shell) in enumerate(
            zip(chosen, shells or [LocalShell(one.node.name) for one in chosen], strict=True), 1
        )
    )
    speeds = speeds_mbps or [one.interface.speed_mbps for one in chosen]
    states = tuple(replace(UP, speed_mbps=speed) for speed in speeds)
    return Link(Combination(kind, tuple(chosen), tuple(() for _ in kind.segments)), ends, states, {})


def _end(name: str, board: str, nic: str, bus: Bus = Bus.SOC, mbps: int = 1000) -> LinkEnd:
    node, _, interface = name.partition(":")
    return LinkEnd(node, interface, board, nic, "s", bus, mbps, mbps, mbps, "full", 1500, True)


# The ends of the doctor's lab.
_ENDS = {
    str(end): end
    for end in (
        _end("one:onboard", "pi4b", "onboard"),
        _end("one:usb", "pi4b", "ax88179", Bus.USB3),
        _end("two:onboard", "cm4", "onboard"),
        _end("two:pcie", "cm4", "aqc107", Bus.PCIE2X1, 10_000),
    )
}


def facts(
    ends: Sequence[str] = ("one:onboard", "two:onboard"),
    topology: str = "pair",
    speeds_mbps: Sequence[int] = (),
    mtu: int = 1500,
    scale: float = 1.0,
) -> LinkFacts:
    """Return the facts that judging knows about a link between these ends, the first one under test."""
    chosen = [_ENDS[name] for name in ends]
    speeds = speeds_mbps or [end.cabled_mbps for end in chosen]
    found = tuple(replace(end, negotiated_mbps=mbps, mtu=mtu) for end, mbps in zip(chosen, speeds, strict=True))
    kind = parse_topology(topology)
    name = CombinationId(found[0].board, found[0].nic, topology)
    return LinkFacts(name, kind, found, tuple(() for _ in kind.segments), scale)


def flow(
    sender: int = 0,
    receiver: int = 1,
    sockets: Sockets | None = None,
    retransmits: int | None = None,
    payload: int = 1_448_000,
    lost: tuple[int, int] | None = None,
    rtt_s: float | None = None,
) -> MeasuredFlow:
    """Return a flow of one second. ``lost`` is (lost datagrams, sent datagrams)."""
    measured = Flow(
        Direction.TX,
        (Sample(0.0, 1.0, payload),),
        retransmits=retransmits,
        lost_packets=None if lost is None else lost[0],
        packets=None if lost is None else lost[1],
        rtt_s=rtt_s,
        sockets=sockets,
    )
    return MeasuredFlow(sender, receiver, TopologyFlow(sender, receiver, Direction.TX), Direction.TX, measured)


def one_connection(
    *flows: MeasuredFlow, traffic: Traffic = TX, cpu: float | None = None, excluded: str = ""
) -> Connection:
    """Return one run of these flows, each with its own measurement."""
    used = {} if cpu is None else {"dut": cpu, "peer": cpu}
    measurements = tuple(Measurement(traffic, {one.way: one.flow}, cpu_percent=used) for one in flows)
    return Connection(flows, measurements=measurements, excluded=excluded, lasted_s=1.0)


def judged(goodput: float, limit: float | None = None, verdict: Verdict = Verdict.PASS) -> DirectionJudgement:
    """Return the judgement of a direction over a 1 Gbit/s link."""
    return DirectionJudgement(
        verdict,
        "slow" if verdict is Verdict.FAIL else "",
        Bitrate(goodput),
        Bitrate(941_482_445.0),
        "1000 Mbit/s link, MTU 1500, TCP timestamps",
        0.01,
        None if limit is None else Threshold(Metric.GOODPUT, limit, str(Bitrate(limit)), "the test's"),
    )
