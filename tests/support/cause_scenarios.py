"""Mixed scenarios for the rules that name what limited a value. Each also has symptoms of other causes.

Values of real boards have their source in ``source``; with "like", only the kind of fault is known from there. S0 to S4
are keys of ``facts/published_results.yaml``; RPD is ``geerlingguy/raspberry-pi-pcie-devices``, RPL
``raspberrypi/linux``, with the numbers of issues.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from pytest_pinet.model.evidence import Cause, Heat, OtherWork, PcieLink, Program, Throttling
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.measurement import Sockets
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from tests.support.cause_controls import controls
from tests.support.cause_scenario import End, Scenario, steps, tcp
from tests.support.tcp_model import SEGMENT, Bottleneck

# The kernel does not report the payload of packets; that of the CM4 is published.
GEN2, GEN3 = PcieLink(5.0, 1, 128), PcieLink(8.0, 1)


def _links(dice: random.Random) -> Iterator[Scenario]:
    busy = End(loads=(dice.uniform(0.8, 1.0), 0.3, 0.2, 0.1))
    yield Scenario("full wire, busy CPU", Cause.LINE_RATE, dice.uniform(935, 941.4), dut=busy, retransmits=200)
    yield Scenario(
        "full wire of a NIC on USB 2",
        Cause.LINE_RATE,
        94.1,
        dut=End(100, 100, bus=Bus.USB2, usb_mbps=480),
        peer=End(100, 100),
        source="S4",
    )
    yield Scenario(
        "full wire at 2.5 Gbit/s with the vendor's driver",
        Cause.LINE_RATE,
        2352,
        dut=End(2500, 2500, pcie=GEN2),
        peer=End(2500, 2500),
        source="RPD RTL8125B, 2021-12",
    )
    rate = dice.uniform(50, 600)
    yield Scenario(
        "capped sender",
        Cause.SENDER,
        rate * dice.uniform(0.98, 1.01),
        samples=steps(rate, 0.001),
        traffic=Traffic(Direction.TX, bitrate=Bitrate.mbps(rate)),
        source="like S1: 400 Mbit/s",
    )
    yield Scenario("port at 100 Mbit/s", Cause.LINK, dice.uniform(92, 94.1), dut=End(100), source="like RPL 2642")
    yield Scenario("peer's NIC of 100 Mbit/s", Cause.PEER, dice.uniform(92, 94.1), peer=End(100, 100))
    yield Scenario(
        "half duplex",
        Cause.LINK,
        dice.uniform(3, 7),
        dut=End(10, 100, duplex="half"),
        peer=End(10, 100),
        retransmits=120,
        source="like RPL 2554: losses at 10 Mbit/s half duplex",
    )
    yield Scenario(
        "class driver that calls its link half duplex",
        Cause.USB,
        163,
        dut=End(duplex="half", bus=Bus.USB3, usb_mbps=5000),
        back_mbps=902,
        traffic=Traffic(Direction.BIDIR),
        source="S1, cdc_ncm",
        control_of=Cause.LINK,
    )


def _boards(dice: random.Random) -> Iterator[Scenario]:
    hot = Heat(dice.uniform(600, 1200), 1500, dice.uniform(80, 86))
    yield Scenario(
        "hot board below its clock",
        Cause.POWER,
        dice.uniform(300, 900),
        source="like S0-5",
        dut=End(heat=hot, loads=(1.0, 0.5, 0.4, 0.3), softirq=0.7),
    )
    yield Scenario(
        "hot board at its clock, one core in interrupts",
        Cause.IRQ,
        700,
        dut=End(heat=Heat(1500, 1500, 82), loads=(0.99, 0.2, 0.1, 0.1), softirq=0.9),
        control_of=Cause.POWER,
    )
    yield Scenario(
        "firmware that throttles during the traffic",
        Cause.POWER,
        400,
        dut=End(before=Heat(throttling=Throttling(0)), after=Heat(throttling=Throttling(0x40000))),
    )
    usb = dice.choice([(224, "S0: LAN7515"), (321, "S0: AX88179")])
    yield Scenario("USB 2", Cause.USB, usb[0], dut=End(bus=Bus.USB2, usb_mbps=480), source=usb[1])
    yield Scenario(
        "USB 3 NIC in a USB 2 port, busy CPU",
        Cause.USB,
        dice.uniform(280, 330),
        dut=End(bus=Bus.USB3, usb_mbps=480, loads=(0.97, 0.1, 0.1, 0.1), softirq=0.6),
        source="S0",
    )
    both = dice.choice([(163.0, 902.0), (269.0, 880.0)])
    yield Scenario(
        "both directions of a USB 3 NIC",
        Cause.USB,
        both[0],
        dut=End(bus=Bus.USB3, usb_mbps=5000),
        back_mbps=both[1],
        traffic=Traffic(Direction.BIDIR),
        source="S1: AX88179",
    )
    yield Scenario(
        "RTL8153 in both directions",
        Cause.NOTHING,
        538,
        dut=End(bus=Bus.USB3, usb_mbps=5000),
        back_mbps=847,
        traffic=Traffic(Direction.BIDIR),
        source="S1",
        control_of=Cause.USB,
    )
    yield Scenario(
        "PCIe 2.0 x1 with packets of 128 bytes",
        Cause.PCIE,
        dice.uniform(2990, 3140),
        dut=End(10_000, 10_000, bus=Bus.PCIE2X1, pcie=GEN2),
        peer=End(10_000, 10_000),
        retransmits=900,
        source="S3: CM4, I340, 3.06 Gbit/s",
    )
    yield Scenario(
        "PCIe 3.0 x1",
        Cause.PCIE,
        dice.uniform(5500, 6000),
        peer=End(10_000, 10_000),
        dut=End(10_000, 10_000, bus=Bus.PCIE3X1, pcie=GEN3),
        source="RPD: AQC107 on a Pi 5, 5.5 to 6 Gbit/s",
    )
    yield Scenario(
        "PCIe 2.0 x1, far below its packets",
        Cause.NOTHING,
        1500,
        peer=End(10_000, 10_000),
        dut=End(10_000, 10_000, bus=Bus.PCIE2X1, pcie=GEN2),
        control_of=Cause.PCIE,
    )


def _processors(dice: random.Random) -> Iterator[Scenario]:
    one = (dice.uniform(0.97, 1.0), 0.3, 0.2, 0.2)
    yield Scenario(
        "one core in interrupts, PCIe not full",
        Cause.IRQ,
        1920,
        retransmits=300,
        source="RPD 40: CM4, RTL8125",
        dut=End(2500, 2500, pcie=GEN2, bus=Bus.PCIE2X1, loads=one, softirq=0.97),
        peer=End(2500, 2500),
    )
    yield Scenario(
        "one core in interrupts, both directions",
        Cause.IRQ,
        540,
        dut=End(loads=one, softirq=0.9),
        back_mbps=545,
        traffic=Traffic(Direction.BIDIR),
        source="Pi 4 genet, tomcore-website",
    )
    yield Scenario(
        "four cores at 90 %",
        Cause.NOTHING,
        800,
        dut=End(loads=(0.9, 0.9, 0.9, 0.9), softirq=0.6),
        control_of=Cause.IRQ,
    )
    yield Scenario(
        "one core in the program",
        Cause.CPU,
        dice.uniform(300, 800),
        dut=End(loads=one, softirq=0.1),
        control_of=Cause.IRQ,
    )
    yield Scenario(
        "own work that takes the CPU from the traffic",
        Cause.CPU,
        420,
        samples=steps(420, 0.1),
        sockets=Sockets(1, SEGMENT, 0.0009, rtt_min_s=0.0004, receiver_limited=0.1, sender_limited=0.0),
        dut=End(loads=(0.99, 0.98, 0.97, 0.98), tool_percent=dice.uniform(30, 45)),
        source="like issue 18: PINET_RUN=1 make",
    )
    yield Scenario(
        "one thread that fills its core, behind a queue of its own",
        Cause.CPU,
        dice.uniform(300, 800),
        samples=steps(500, 0.004),
        sockets=Sockets(1, SEGMENT, 0.0015, rtt_min_s=0.0004, receiver_limited=0.2, sender_limited=0.0),
        dut=End(loads=one, softirq=0.1, tool_percent=dice.uniform(85, 95)),
        control_of=Cause.SHAPER,
    )
    yield Scenario("one core of the peer", Cause.PEER, dice.uniform(300, 800), peer=End(loads=one, softirq=0.8))
    yield Scenario("loopback of the peer", Cause.PEER, 680, peer=End(ceiling=dice.uniform(690, 740)))
    work = OtherWork(dice.uniform(0.4, 1.5), (Program("cc1plus", 812, 0.4),))
    yield Scenario(
        "programs that start",
        Cause.OTHERS,
        420,
        retransmits=1000,
        samples=steps(420, 0.2),
        sockets=Sockets(1, SEGMENT, 0.0009, rtt_min_s=0.0006, receiver_limited=0.1, sender_limited=0.0),
        dut=End(loads=(0.98, 0.97), others=work),
        source="like issue 18: 5,000 retransmits in 15 s",
    )
    yield Scenario("stolen time", Cause.OTHERS, 500, dut=End(loads=(0.9, 0.9), steal=dice.uniform(0.05, 0.2)))
    yield tcp(
        "losses beside other programs that use one of four CPUs",
        Cause.LOSS,
        Bottleneck(941, 0.002, lost=0.01),
        3,
        dice,
        dut=End(loads=(0.45, 0.4, 0.1, 0.1), others=OtherWork(0.4, (Program("apt", 900, 0.4),))),
        control_of=Cause.OTHERS,
    )


def _flows(dice: random.Random, number: int) -> Iterator[Scenario]:
    rate, rtt_s = dice.uniform(20, 600), dice.uniform(0.0004, 0.02)
    held = rate * 1e6 / 8 / SEGMENT * rtt_s
    queue = round(dice.uniform(0.8, 4) * held + 20)
    yield tcp(
        f"shaper at {rate:.0f} Mbit/s, queue of {queue}",
        Cause.SHAPER,
        Bottleneck(rate, rtt_s, queue),
        number,
        dice,
        control_of=Cause.LOSS,
    )
    window = max(8, round(held * 6))
    yield tcp(
        "shaper that fills the window",
        Cause.SHAPER,
        Bottleneck(rate, rtt_s, 10 * window, window=window),
        number,
        dice,
        control_of=Cause.WINDOW,
    )
    own_work = End(loads=(dice.uniform(0.95, 1.0), 0.9, 0.9, 0.8), user=0.8, tool_percent=dice.uniform(5, 40))
    yield tcp(
        "shaper beside own work",
        Cause.SHAPER,
        Bottleneck(rate, rtt_s, queue),
        number,
        dice,
        dut=own_work,
        source="like issue 18: PINET_RUN=1 make",
    )
    loss = dice.choice([0.002, 0.005, 0.01, 0.03])
    yield tcp(
        f"{loss * 100} % of random losses",
        Cause.LOSS,
        Bottleneck(941, dice.uniform(0.001, 0.03), 2000, loss),
        number,
        dice,
    )
    few = dice.uniform(0.01, 0.04)
    yield tcp("window", Cause.WINDOW, Bottleneck(941, few, 2000, window=dice.randint(30, 300)), number, dice)
    yield Scenario(
        "lost datagrams",
        Cause.LOSS,
        dice.uniform(300, 800),
        lost=(dice.randint(3000, 9000), 100_000),
        samples=steps(500, 0.08),
        traffic=Traffic(Direction.TX, udp=True),
        retransmits=None,
    )
    shaped = dice.uniform(100, 500)
    yield Scenario(
        "datagrams beyond a shaper",
        Cause.SHAPER,
        shaped,
        lost=(40_000, 100_000),
        retransmits=None,
        samples=steps(shaped, 0.0005),
        traffic=Traffic(Direction.TX, udp=True),
    )
    yield Scenario("nothing that explains it", Cause.NOTHING, dice.uniform(500, 900), source="made up")


def scenarios(seed: int = 18) -> list[Scenario]:
    """Return 100 scenarios and more, in random order."""
    dice = random.Random(seed)
    kinds: tuple[Callable[[random.Random], Iterator[Scenario]], ...] = (_links, _boards, _processors)
    found = [one for _ in range(2) for kind in kinds for one in kind(dice)]
    found += [one for number in range(8) for one in _flows(dice, number)]
    found += controls(dice)
    dice.shuffle(found)
    return found
