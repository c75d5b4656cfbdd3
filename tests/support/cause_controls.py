"""Negative controls of causes: a symptom of the cause is there, but not enough of it, or not at the right time."""

from __future__ import annotations

import random
from collections.abc import Iterator

from pytest_pinet.model.evidence import Cause, Heat, OtherWork, Program, Throttling
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.measurement import Sockets
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from tests.support.cause_scenario import End, Scenario, steps
from tests.support.tcp_model import SEGMENT

NEARLY_FULL = (0.9, 0.3, 0.2, 0.2)


def controls(dice: random.Random) -> Iterator[Scenario]:
    """Yield scenarios in which nothing is decisive, each with a symptom of one cause."""

    def control(name: str, of: Cause, mbps: float, dut: End | None = None, peer: End | None = None) -> Scenario:
        return Scenario(name, Cause.NOTHING, mbps, dut or End(), peer or End(), control_of=of)

    yield control("nearly full wire", Cause.LINE_RATE, dice.uniform(885, 925))
    limit = dice.uniform(100, 600)
    yield Scenario(
        "sender below its rate limit",
        Cause.NOTHING,
        limit * dice.uniform(0.6, 0.95),
        traffic=Traffic(Direction.TX, bitrate=Bitrate.mbps(limit)),
        control_of=Cause.SENDER,
    )
    yield control("port at 100 Mbit/s, not full", Cause.LINK, dice.uniform(40, 85), End(100))
    yield control("USB 2 bus, not full", Cause.USB, dice.uniform(80, 200), End(bus=Bus.USB2, usb_mbps=480))
    throttled = Heat(throttling=Throttling(0x40000))
    yield control(
        "firmware that throttled before the traffic",
        Cause.POWER,
        dice.uniform(300, 800),
        End(before=throttled, after=throttled),
    )
    yield control("program at 90 % of a core", Cause.CPU, dice.uniform(300, 800), End(loads=NEARLY_FULL, softirq=0.1))
    yield control("peer with a core at 90 %", Cause.PEER, dice.uniform(300, 800), peer=End(loads=NEARLY_FULL))
    yield control("peer with a fast loopback", Cause.PEER, 680, peer=End(ceiling=dice.uniform(800, 9000)))
    few = OtherWork(dice.uniform(0.05, 0.3), (Program("cc1plus", 812, 0.05),))
    yield control("few other programs, busy CPU", Cause.OTHERS, 420, End(loads=NEARLY_FULL, others=few))
    yield control(
        "little stolen time, busy CPU", Cause.OTHERS, 500, End(loads=(0.9, 0.9), steal=dice.uniform(0.003, 0.024))
    )
    yield control(
        "stolen time, no busy CPU",
        Cause.OTHERS,
        500,
        End(loads=(dice.uniform(0.4, 0.79), 0.3), steal=dice.uniform(0.05, 0.2)),
    )
    waited = dice.uniform(0.25, 0.45)
    yield Scenario(
        "window, seldom full",
        Cause.NOTHING,
        dice.uniform(100, 800),
        sockets=Sockets(1, SEGMENT, 0.0009, rtt_min_s=0.0008, receiver_limited=waited, sender_limited=0.0),
        control_of=Cause.WINDOW,
    )
    yield Scenario(
        "few losses",
        Cause.NOTHING,
        dice.uniform(600, 800),
        sockets=Sockets(1, SEGMENT, 0.0009, rtt_min_s=0.0008, receiver_limited=0.1, sender_limited=0.0),
        retransmits=dice.randint(10, 60),
        control_of=Cause.LOSS,
    )
    held = dice.uniform(900, 925)
    yield Scenario(
        "steady rate, hardly below the wire", Cause.NOTHING, held, samples=steps(held, 0.0005), control_of=Cause.SHAPER
    )
