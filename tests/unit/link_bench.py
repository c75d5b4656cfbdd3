"""A link between the two nodes of the doctor's lab, as it stands when it was opened; no lab is behind it."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import doctor_lab

from pytest_pinet.evidence.interface import InterfaceState
from pytest_pinet.lab.end import End
from pytest_pinet.lab.link import Link
from pytest_pinet.lab.node_session import NodeSession
from pytest_pinet.model.attempt import Fresh
from pytest_pinet.model.combination import Combination, Endpoint
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.measurement import Flow, Measurement, Sample
from pytest_pinet.model.sockets import Sockets
from pytest_pinet.model.topology import Run, parse_topology
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.shell import Shell
from pytest_pinet.traffic.local import LocalShell
from pytest_pinet.tries import MeasuredFlow, Try

UP = InterfaceState(True, True, 1000, "full", 1500, "02:00:00:00:00:01", 1, True, 0, 0)
TX = Traffic(Direction.TX)


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
    """Ends with these interfaces (node, name), 0 the one under test; without ``shells`` the runner's own."""
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


def flow(
    sender: int = 0,
    receiver: int = 1,
    sockets: Sockets | None = None,
    retransmits: int | None = None,
    payload: int = 1_448_000,
    lost: tuple[int, int] | None = None,
    rtt_s: float | None = None,
) -> MeasuredFlow:
    """A flow of one second; ``lost`` are datagrams lost and sent."""
    measured = Flow(
        Direction.TX,
        (Sample(0.0, 1.0, payload),),
        retransmits=retransmits,
        lost_packets=None if lost is None else lost[0],
        packets=None if lost is None else lost[1],
        rtt_s=rtt_s,
        sockets=sockets,
    )
    return MeasuredFlow(sender, receiver, Run(sender, receiver, Direction.TX), Direction.TX, measured)


def one_try(*flows: MeasuredFlow, traffic: Traffic = TX, cpu: float | None = None, excluded: str = "") -> Try:
    """One run of these flows, each with a measurement of its own."""
    used = {} if cpu is None else {"dut": cpu}
    measurements = tuple(Measurement(traffic, {one.way: one.flow}, cpu_percent=used) for one in flows)
    return Try(Fresh.CONNECTION, datetime.now(UTC), 1.0, flows, measurements, excluded=excluded)
