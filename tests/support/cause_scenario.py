"""A scenario with a known cause: what a run measured at two ends, and what limited it.

The course of TCP over losses, queues and windows comes from `tcp_model`, which knows nothing of the rules.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from pytest_pinet.judge.bottleneck import limited_by
from pytest_pinet.judge.oracle import PacketSizes, physical_limit
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.evidence import (
    Cause,
    Conditions,
    Diagnosis,
    EndEvidence,
    Heat,
    OtherWork,
    PcieLink,
    ProcessorLoad,
)
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.measurement import Sample, Sockets
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.topology import LinkFacts
from pytest_pinet.model.traffic import Direction, Traffic
from tests.support import link_stand_in
from tests.support.link_stand_in import flow, judged, one_connection
from tests.support.tcp_model import SEGMENT, Bottleneck, Course, run

IDLE = (0.12, 0.2, 0.08, 0.1)


@dataclass(frozen=True)
class End:
    """One end: link and NIC (Mbit/s), bus, load of each CPU (the first one in ``softirq`` by that share), and so on."""

    mbps: int = 1000
    rated: int = 1000
    duplex: str = "full"
    bus: Bus = Bus.SOC
    usb_mbps: float | None = None
    pcie: PcieLink | None = None
    loads: tuple[float, ...] = IDLE
    softirq: float = 0.05
    user: float = 0.0
    heat: Heat | None = None
    before: Heat | None = None
    after: Heat | None = None
    ceiling: float | None = None
    others: OtherWork | None = None
    steal: float = 0.0
    tool_percent: float | None = None


@dataclass(frozen=True)
class Scenario:
    """What a run measured, and what limited it.

    ``control_of`` is a cause whose symptoms are there, although it is not the cause: a negative control.
    """

    name: str
    cause: Cause
    mbps: float
    dut: End = End()
    peer: End = End()
    back_mbps: float | None = None
    samples: tuple[Sample, ...] = ()
    sockets: Sockets | None = None
    retransmits: int | None = 0
    lost: tuple[int, int] | None = None
    traffic: Traffic = field(default_factory=lambda: Traffic(Direction.TX))
    source: str = "made up"
    control_of: Cause | None = None

    @property
    def is_published(self) -> bool:
        """Whether its goodput was published for a real board; a range is drawn from."""
        return self.source != "made up" and not self.source.startswith("like ")

    def found(self) -> Diagnosis:
        """Return what the rules name."""
        link = self._link()
        oracle = physical_limit(link.path.speed_mbps, PacketSizes(1500, True), Bus.SOC, self.traffic.direction)
        judgements = {Direction.TX: replace(judged(self.mbps * 1e6), oracle=oracle.goodput)}
        if self.back_mbps is not None:
            judgements[Direction.RX] = replace(judged(self.back_mbps * 1e6), oracle=oracle.goodput)
        conditions = [
            Conditions(name, "eth0", pcie=end.pcie, usb_mbps=end.usb_mbps)
            for name, end in (("one", self.dut), ("two", self.peer))
        ]
        named = (("one:onboard", self.dut), ("two:onboard", self.peer))
        ceilings = {name: Bitrate.mbps(end.ceiling) for name, end in named if end.ceiling is not None}
        return limited_by(link, self.traffic, [self._connection()] * 3, judgements, conditions, ceilings)

    def _link(self) -> LinkFacts:
        facts = link_stand_in.facts()
        ends = tuple(
            replace(
                old,
                negotiated_mbps=end.mbps,
                cabled_mbps=end.mbps,
                rated_mbps=end.rated,
                duplex=end.duplex,
                bus=end.bus,
            )
            for old, end in zip(facts.ends, (self.dut, self.peer), strict=True)
        )
        return replace(facts, ends=ends)

    def _connection(self) -> Connection:
        one = flow(sockets=self.sockets, retransmits=self.retransmits, lost=self.lost)
        samples = self.samples or steps(self.mbps)
        flows = [
            replace(
                one, flow=replace(one.flow, samples=samples, rtt_s=None if self.sockets is None else self.sockets.rtt_s)
            )
        ]
        if self.back_mbps is not None:
            back = replace(flow(1, 0), way=Direction.RX)
            flows.append(replace(back, flow=replace(back.flow, samples=steps(self.back_mbps))))
        made = one_connection(*flows, traffic=self.traffic)
        used = {"dut": self.dut.tool_percent, "peer": self.peer.tool_percent}
        cpu = {role: percent for role, percent in used.items() if percent is not None}
        made = replace(made, measurements=tuple(replace(one, cpu_percent=cpu) for one in made.measurements))
        return replace(made, evidence=(_evidence("one", self.dut), _evidence("two", self.peer)))


def _evidence(name: str, end: End) -> EndEvidence:
    loads = tuple(
        ProcessorLoad(
            cpu,
            busy,
            user=busy * end.user,
            system=busy * (1 - end.user) / 2,
            softirq=busy * (end.softirq if cpu == 0 else 0.05),
            steal=end.steal,
        )
        for cpu, busy in enumerate(end.loads)
    )
    return EndEvidence(
        f"{name}:onboard",
        "eth0",
        machine=name,
        processors=loads,
        before=end.before,
        under_load=end.heat,
        after=end.after,
        others=end.others,
        traffic_s=3.0,
    )


def steps(mbps: float, spread: float = 0.03) -> tuple[Sample, ...]:
    """Return samples whose rate varies from half second to half second, by about this share."""
    factors = [1 + spread * step for step in (-1.2, 0.9, -0.5, 1.3, 0.6, -1.1)]
    return tuple(Sample(i / 10, 0.1, round(mbps * 12_500 * factors[i // 5])) for i in range(30))


def tcp(
    name: str,
    cause: Cause,
    path: Bottleneck,
    seed: int,
    dice: random.Random,
    source: str = "made up",
    control_of: Cause | None = None,
    dut: End | None = None,
) -> Scenario:
    """Return a scenario of the TCP model, with the jitter of a clock, and a load that explains nothing."""
    course: Course = run(path, seed)
    samples = tuple(replace(s, bytes=round(s.bytes * (1 + dice.gauss(0, 0.002)))) for s in course.samples)
    sockets = Sockets(
        1,
        SEGMENT,
        course.rtt_s,
        rtt_min_s=course.rtt_min_s,
        receiver_limited=course.limited,
        sender_limited=0.0,
    )
    ends = End(loads=(dice.uniform(0.1, 0.6), 0.2, 0.1, 0.1))
    return Scenario(
        name,
        cause,
        course.mbps,
        dut or ends,
        ends,
        samples=samples,
        sockets=sockets,
        retransmits=course.retransmits,
        source=source,
        control_of=control_of,
    )
