"""Data of a link, its connections and its ends are combined to name the bottleneck."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_pinet.judge.bottleneck import RULES, diagnose, kernel_notes, limited_by
from pytest_pinet.model.connection import Connection, MeasuredFlow
from pytest_pinet.model.evidence import (
    Cause,
    Conditions,
    Diagnosis,
    DiagnosisFacts,
    EndEvidence,
    EndFacts,
    Heat,
    PcieLink,
    ProcessorLoad,
    Throttling,
)
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.measurement import Sample, Sockets
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.topology import LinkFacts
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict
from tests.support import link_stand_in
from tests.support.link_stand_in import flow, judged, one_connection

TX = Traffic(Direction.TX)
IDLE = (ProcessorLoad(0, 0.1), ProcessorLoad(1, 0.2))


def evidence(end: str, *loads: ProcessorLoad, machine: str | None = None, **more: Any) -> EndEvidence:
    return EndEvidence(end, "eth0", machine=machine or end, traffic_s=1.0, processors=loads or IDLE, **more)


def ends(one: EndEvidence | None = None, two: EndEvidence | None = None) -> tuple[EndEvidence, ...]:
    return (one or evidence("one:onboard"), two or evidence("two:onboard"))


def seen(*found: EndEvidence, measured: MeasuredFlow | None = None, excluded: str = "") -> Connection:
    return replace(one_connection(measured or flow(), excluded=excluded), evidence=found or ends())


def cause(
    link: LinkFacts, *connections: Connection, mbps: float = 700, traffic: Traffic = TX, **more: Any
) -> Diagnosis:
    return limited_by(link, traffic, connections, {Direction.TX: judged(mbps * 1e6)}, **more)


@pytest.fixture
def link() -> LinkFacts:
    return link_stand_in.facts()


def test_the_wire_limit_is_that_of_the_link(link: LinkFacts) -> None:
    found = cause(link, seen(), mbps=941)
    assert found.cause is Cause.LINE_RATE
    assert found.numbers["limit_bps"] == pytest.approx(941.48e6, rel=1e-4)


def test_a_port_below_its_nic_is_seen_in_the_state_of_the_link() -> None:
    slow = link_stand_in.facts(speeds_mbps=(100, 1000))
    found = cause(slow, seen(), mbps=94.1)
    assert found.text.startswith("the link of one:onboard runs at 100 Mbit/s, though its NIC supports 1000")


def test_the_busiest_cpu_of_the_try_in_the_middle_is_named(link: LinkFacts) -> None:
    def busy(share: float, cpu: int) -> Connection:
        return seen(*ends(evidence("one:onboard", *IDLE, ProcessorLoad(cpu, share, softirq=share))))

    found = cause(link, busy(0.3, 1), busy(0.97, 2), busy(1.0, 3))
    assert found.cause is Cause.IRQ
    assert found.text == "CPU 2 of one:onboard was 97 % busy, 97 % in interrupts and softirqs"


def test_an_excluded_try_is_ignored(link: LinkFacts) -> None:
    hot = evidence("one:onboard", ProcessorLoad(0, 1.0))
    assert cause(link, seen(), seen(*ends(hot), excluded="link dropped")).cause is Cause.NOTHING


def test_ends_with_the_same_boot_id_are_one_machine(link: LinkFacts) -> None:
    busy = evidence("two:onboard", ProcessorLoad(0, 1.0), machine="boot")
    found = cause(link, seen(*ends(evidence("one:onboard", machine="boot"), busy)))
    assert "of the machine that carries one:onboard and two:onboard was 100 % busy" in found.text


def test_the_rate_limit_of_a_sender_is_the_cause(link: LinkFacts) -> None:
    found = cause(link, seen(), mbps=398, traffic=replace(TX, streams=2, bitrate=Bitrate.mbps(200)))
    assert found.text == "the rate limit of the sender one:onboard is 400.0 Mbit/s"


def test_socket_values_of_the_sender_are_used(link: LinkFacts) -> None:
    sockets = Sockets(1, 1448, rtt_s=0.0001, receiver_limited=0.1, sender_limited=0.8)
    small = seen(measured=flow(sockets=sockets))
    found = cause(link, small, mbps=330, traffic=replace(TX, window=4096))
    assert found.cause is Cause.WINDOW
    assert found.numbers["window_over_rtt_bps"] == pytest.approx(4096 * 8 / 0.0001)
    lossy = seen(measured=flow(sockets=Sockets(1, 1448, rtt_s=0.001), retransmits=20))
    assert cause(link, lossy, mbps=300).cause is Cause.LOSS


def test_a_steady_rate_needs_two_seconds_of_samples(link: LinkFacts) -> None:
    def steady(seconds: int) -> Connection:
        samples = tuple(Sample(i / 10, 0.1, 5_000_000) for i in range(seconds * 10))
        measured = flow()
        return seen(measured=replace(measured, flow=replace(measured.flow, samples=samples)))

    assert cause(link, steady(3), mbps=400).cause is Cause.SHAPER
    assert cause(link, steady(1), mbps=400).cause is Cause.NOTHING


def test_bytes_counted_late_do_not_hide_a_steady_rate(link: LinkFacts) -> None:
    # Measured values: the receiver was read 2 s after the start of a connection limited to 47.1 Mbit/s.
    rates = [47.05] * 19 + [38.72, 55.44] + [47.05] * 19
    samples = tuple(Sample(i / 10, 0.1, round(rate * 1e6 / 80)) for i, rate in enumerate(rates))
    measured = flow()
    held = seen(measured=replace(measured, flow=replace(measured.flow, samples=samples)))
    assert cause(link, held, mbps=47.1).cause is Cause.SHAPER


def test_the_enumerated_speed_of_a_usb_nic_is_used() -> None:
    link = link_stand_in.facts(("one:usb", "two:onboard"))
    conditions = [Conditions("one", "eth1", usb_mbps=480), Conditions("two", "eth0")]
    assert cause(link, seen(), mbps=320, conditions=conditions).cause is Cause.USB
    conditions = [replace(conditions[0], usb_mbps=5000), conditions[1]]
    assert cause(link, seen(), mbps=320, conditions=conditions).cause is Cause.NOTHING


def test_only_throttling_during_the_traffic_counts(link: LinkFacts) -> None:
    def told(before: int, after: int) -> Diagnosis:
        heats: dict[str, Any] = {
            "before": Heat(throttling=Throttling(before)),
            "after": Heat(throttling=Throttling(after)),
        }
        return cause(link, seen(*ends(evidence("one:onboard", **heats))))

    assert told(0, 0x40000).text == "one:onboard had throttled during the traffic"
    assert told(0x40000, 0x40000).cause is Cause.NOTHING
    assert told(0, 0x1).text == "one:onboard had under-voltage during the traffic"


def test_the_loopback_goodput_of_a_peer_is_the_cause(link: LinkFacts) -> None:
    assert cause(link, seen(), ceilings={"two:onboard": Bitrate.mbps(720)}).cause is Cause.PEER


def test_the_direction_with_the_worse_verdict_is_explained(link: LinkFacts) -> None:
    connections = [replace(one_connection(flow(), replace(flow(1, 0), way=Direction.RX)), evidence=ends())]
    directions = {Direction.TX: judged(500e6), Direction.RX: judged(930e6, 940e6, Verdict.FAIL)}
    found = limited_by(link, replace(TX, direction=Direction.BIDIR), connections, directions)
    assert found.numbers["goodput_bps"] == 930e6
    directions[Direction.RX] = judged(930e6, 940e6)
    found = limited_by(link, replace(TX, direction=Direction.BIDIR), connections, directions)
    assert found.numbers["goodput_bps"] == 500e6


def test_without_evidence_there_is_no_cause(link: LinkFacts) -> None:
    bare = one_connection(flow())
    assert cause(link, bare).cause is Cause.NOTHING


def test_a_kernel_message_is_reported_once(link: LinkFacts) -> None:
    line = "[ 101.5] NETDEV WATCHDOG: eth0: transmit queue 2 timed out"
    one = seen(*ends(evidence("one:onboard", kernel=(line,))))
    assert kernel_notes([one, one]) == [f"the kernel of one:onboard logged: {line}"]
    assert kernel_notes([seen()]) == []


WIRE = Bitrate(941_482_445.0)
LINK = {"negotiated_mbps": 1000, "rated_mbps": 1000, "duplex": "full"}
DUT = EndFacts("pi4b-1:onboard", under_test=True, machine="a", load=ProcessorLoad(0, 0.4), **LINK)  # type: ignore[arg-type]
PEER = EndFacts("pi5-1:onboard", machine="b", load=ProcessorLoad(2, 0.3), **LINK)  # type: ignore[arg-type]


def facts(mbps: float = 700.0, dut: EndFacts = DUT, peer: EndFacts = PEER, **more: Any) -> DiagnosisFacts:
    return DiagnosisFacts("tx", Bitrate.mbps(mbps), WIRE, "1000 Mbit/s link", ends=(dut, peer), sender=DUT.name, **more)


def found(cause: Cause, given_facts: DiagnosisFacts) -> Diagnosis:
    diagnosis = diagnose(given_facts)
    assert diagnosis.cause is cause, diagnosis.text
    assert diagnosis.numbers["goodput_bps"] == given_facts.goodput.bps
    return diagnosis


def test_a_full_wire_is_the_cause_even_if_a_cpu_was_busy() -> None:
    busy = replace(DUT, load=ProcessorLoad(0, 1.0))
    assert "941.0 Mbit/s of 941.5 Mbit/s" in found(Cause.LINE_RATE, facts(941, busy)).text
    assert found(Cause.CPU, facts(925, busy))


def test_a_value_above_the_physical_limit_has_no_cause() -> None:
    busy = replace(DUT, load=ProcessorLoad(0, 1.0))
    assert "212.4 % of what the link carries" in found(Cause.NOTHING, facts(2000, busy)).text
    assert found(Cause.LINE_RATE, facts(945, busy))


def test_with_both_directions_at_once_acknowledgements_share_the_wire() -> None:
    assert found(Cause.LINE_RATE, facts(920, both=Bitrate.mbps(1840)))
    assert found(Cause.NOTHING, facts(920))


def test_a_sender_at_its_rate_limit_is_the_cause() -> None:
    text = found(Cause.SENDER, facts(398, offered=Bitrate.mbps(400))).text
    assert text == "the rate limit of the sender pi4b-1:onboard is 400.0 Mbit/s"
    assert found(Cause.NOTHING, facts(300, offered=Bitrate.mbps(400)))
    # A sender cannot exceed the link's rate.
    assert found(Cause.LINE_RATE, facts(940, offered=Bitrate.mbps(1000)))


def test_a_port_slower_than_its_nic_is_the_cause() -> None:
    slow = facts(94.1, peer=replace(PEER, negotiated_mbps=100))
    slow = replace(slow, wire=Bitrate.mbps(94.15))
    text = found(Cause.LINK, slow).text
    assert text.startswith("the link of pi5-1:onboard runs at 100 Mbit/s, though its NIC supports 1000: 94.1 Mbit/s of")
    # The port does not explain a rate far below its own.
    assert found(Cause.NOTHING, replace(slow, goodput=Bitrate.mbps(40)))


def test_a_peer_with_a_slower_nic_is_the_cause() -> None:
    slow = facts(94.1, peer=replace(PEER, negotiated_mbps=100, rated_mbps=100))
    text = found(Cause.PEER, replace(slow, wire=Bitrate.mbps(94.15))).text
    assert text.startswith("the peer pi5-1:onboard has a link of 100 Mbit/s, but the NIC under test supports 1000")
    # Not if the NIC under test itself is not faster.
    both = replace(
        slow, wire=Bitrate.mbps(94.15), ends=(replace(DUT, negotiated_mbps=100, rated_mbps=100), slow.ends[1])
    )
    assert found(Cause.LINE_RATE, both)


def test_half_duplex_is_the_cause() -> None:
    text = found(Cause.LINK, facts(dut=replace(DUT, duplex="half"))).text
    assert text == "the link of pi4b-1:onboard runs in half duplex at 1000 Mbit/s"


def test_throttling_by_the_firmware_is_the_cause() -> None:
    heat = Heat(clock_mhz=600, clock_max_mhz=1500, temperature_c=83)
    text = found(Cause.POWER, facts(dut=replace(DUT, throttled=("throttled", "hot"), heat=heat))).text
    assert text == "pi4b-1:onboard had throttled and hot during the traffic at 83 C"
    text = found(Cause.POWER, facts(dut=replace(DUT, throttled=("under-voltage",)))).text
    assert text == "pi4b-1:onboard had under-voltage during the traffic"


@pytest.mark.parametrize(
    ("heat", "cause"),
    [
        (Heat(1000, 1500, 85.0), Cause.POWER),
        (Heat(1500, 1500, 85.0), Cause.NOTHING),
        (Heat(600, 1500, 50.0), Cause.NOTHING),  # idle, and cool
        (Heat(None, 1500, 85.0), Cause.NOTHING),
        (Heat(1000, None, 85.0), Cause.NOTHING),
        (Heat(1000, 1500, None), Cause.NOTHING),
    ],
)
def test_a_hot_board_below_its_maximum_clock_is_the_cause(heat: Heat, cause: Cause) -> None:
    assert diagnose(facts(dut=replace(DUT, heat=heat))).cause is cause


@pytest.mark.parametrize(
    ("mbps", "bus", "seen", "both", "cause"),
    [
        (321, Bus.USB2, None, None, Cause.USB),  # S0: AX88179 on a Pi 3
        (224, Bus.USB2, None, None, Cause.USB),  # S0: LAN7515 of a Pi 3B+
        (140, Bus.USB2, None, 326, Cause.USB),  # both directions together
        (140, Bus.USB2, None, None, Cause.NOTHING),
        (321, Bus.USB3, 480, None, Cause.USB),  # a USB 3 NIC that was enumerated at 480 Mbit/s
        (321, Bus.USB3, 5000, None, Cause.NOTHING),
        (321, Bus.USB2, 5000, None, Cause.NOTHING),  # the detected speed takes precedence over the lab file
        (163, Bus.USB3, None, 1065, Cause.USB),  # S1: AX88179 on USB 3
        (269, Bus.USB3, None, 1149, Cause.USB),  # S1: the same at 2 GHz
        (538, Bus.USB3, None, 1385, Cause.NOTHING),  # S1: RTL8153
        (321, Bus.SOC, None, None, Cause.NOTHING),
    ],
)
def test_a_full_usb_bus_is_the_cause(
    mbps: float, bus: Bus, seen: float | None, both: float | None, cause: Cause
) -> None:
    dut = replace(DUT, bus=bus, usb_mbps=seen)
    assert diagnose(facts(mbps, dut, both=None if both is None else Bitrate.mbps(both))).cause is cause


def test_a_usb_bus_faster_than_the_wire_is_not_the_cause() -> None:
    fast_ethernet = replace(facts(90, replace(DUT, bus=Bus.USB2)), wire=Bitrate.mbps(94.15))
    assert found(Cause.NOTHING, fast_ethernet)


def test_pcie_packets_are_the_cause() -> None:
    card = replace(DUT, pcie=PcieLink(5.0, 1), pcie_leaves=(Bitrate(2.86e9), Bitrate(3.4e9)), negotiated_mbps=10_000)
    ten = replace(facts(3020, replace(card, rated_mbps=10_000)), wire=Bitrate(9.41e9))
    diagnosis = found(Cause.PCIE, ten)
    assert diagnosis.text == "the PCIe link of pi4b-1:onboard (5 GT/s x1) allows 2.86 Gbit/s to 3.40 Gbit/s"
    assert diagnosis.numbers["most_bps"] == 3.4e9
    assert found(Cause.NOTHING, replace(ten, goodput=Bitrate(2e9)))
    assert found(Cause.NOTHING, replace(ten, ends=(replace(card, pcie_leaves=None), PEER)))
    # A link that the bus can fill.
    assert found(Cause.NOTHING, replace(ten, goodput=Bitrate(2.9e9), wire=Bitrate(2.85e9 * 1.2), ends=(DUT, PEER)))


def test_a_saturated_cpu_is_the_cause_with_its_kind_of_work() -> None:
    load = ProcessorLoad(3, 0.99, user=0.1, irq=0.05, softirq=0.8)
    text = found(Cause.IRQ, facts(dut=replace(DUT, load=load))).text
    assert text == "CPU 3 of pi4b-1:onboard was 99 % busy, 85 % in interrupts and softirqs"
    diagnosis = found(Cause.CPU, facts(dut=replace(DUT, load=ProcessorLoad(1, 0.97, user=0.9))))
    assert diagnosis.numbers["busy"] == 0.97
    assert found(Cause.NOTHING, facts(dut=replace(DUT, load=ProcessorLoad(1, 0.94))))


def test_a_saturated_cpu_of_a_peer_means_the_peer_is_the_cause() -> None:
    text = found(Cause.PEER, facts(peer=replace(PEER, load=ProcessorLoad(0, 1.0, softirq=1.0)))).text
    assert text == "CPU 0 of the peer pi5-1:onboard was 100 % busy, 100 % in interrupts and softirqs"


def test_cpu_load_of_ends_on_one_machine_is_not_attributed_to_one_end() -> None:
    peer = replace(PEER, machine="a", load=ProcessorLoad(0, 1.0, user=1.0))
    text = found(Cause.CPU, facts(peer=peer)).text
    assert text.startswith("CPU 0 of the machine that carries pi4b-1:onboard and pi5-1:onboard was 100 % busy")


def test_a_traffic_tool_that_used_a_whole_core_is_the_cause() -> None:
    text = found(Cause.CPU, facts(dut=replace(DUT, load=None, tool_percent=99.0))).text
    assert text == "the traffic tool used 99 % of a core on pi4b-1:onboard, and has only one thread"
    assert found(Cause.PEER, facts(peer=replace(PEER, load=None, tool_percent=99.0)))
    assert found(Cause.NOTHING, facts(dut=replace(DUT, tool_percent=99.0), streams=4))
    assert found(Cause.NOTHING, facts(dut=replace(DUT, tool_percent=99.0), both=Bitrate.mbps(1400)))


def test_a_requested_window_is_the_cause() -> None:
    # Measured values: window=4K, RTT about 32 us.
    small = facts(763, window=4096, rtt_s=32.4e-6, receiver_limited=0.385, sender_limited=0.05)
    diagnosis = found(Cause.WINDOW, small)
    assert diagnosis.text == (
        "the requested window of 4 KiB allows only 1.01 Gbit/s with round trips of 0.0324 ms; the sender waited "
        "38 % of its time for the receiver's window and 5 % for its own send buffer"
    )
    assert diagnosis.numbers["window_over_rtt_bps"] == pytest.approx(4096 * 8 / 32.4e-6)
    # A window that allows ten times as much, and a window without any waiting.
    assert found(Cause.NOTHING, replace(small, window=65536))
    assert found(Cause.NOTHING, replace(small, receiver_limited=0.0, sender_limited=0.0))
    # Older kernels do not report who waited.
    assert found(Cause.WINDOW, replace(small, receiver_limited=None, sender_limited=None))


def test_a_default_window_is_the_cause() -> None:
    text = found(Cause.WINDOW, facts(100, receiver_limited=0.8, sender_limited=0.0, rtt_s=0.02)).text
    assert text == (
        "TCP's window is too small; the sender waited 80 % of its time for the receiver's window and 0 % for its own "
        "send buffer; 244 KiB were in flight, in round trips of 20 ms"
    )
    assert found(Cause.NOTHING, facts(100, receiver_limited=0.3, sender_limited=0.1, rtt_s=0.02))


def test_losses_that_predict_the_rate_are_the_cause() -> None:
    lossy = facts(500, retransmit_rate=0.002, mss=1448, rtt_s=0.0008, spread=0.08)
    diagnosis = found(Cause.LOSS, lossy)
    assert diagnosis.text == "0.2 % of the segments were lost and retransmitted, in round trips of 0.8 ms"
    assert diagnosis.numbers["tcp_bps"] == pytest.approx(math.sqrt(1.5) * 1448 * 8 / (0.0008 * math.sqrt(0.002)))
    # So few retransmits would allow ten times as much.
    assert found(Cause.NOTHING, replace(lossy, goodput=Bitrate.mbps(30), retransmit_rate=0.0006))
    assert found(Cause.NOTHING, replace(lossy, retransmit_rate=0.0001))
    assert found(Cause.LOSS, replace(lossy, rtt_s=None, retransmit_rate=0.01))
    assert found(Cause.NOTHING, replace(lossy, rtt_s=None))


def test_losses_that_predict_the_rate_precede_a_busy_cpu() -> None:
    lossy: dict[str, Any] = {"retransmit_rate": 0.02, "mss": 1448, "rtt_s": 0.0011, "spread": 0.2}
    assert found(Cause.LOSS, facts(50, replace(DUT, load=ProcessorLoad(1, 0.96, user=0.8)), **lossy))
    # An overloaded receive path loses packets.
    assert found(Cause.IRQ, facts(50, replace(DUT, load=ProcessorLoad(1, 0.96, softirq=0.8)), **lossy))
    # So few retransmits do not explain the rate, and losses in a full queue do not make the rate vary.
    few = {**lossy, "retransmit_rate": 0.004}
    assert found(Cause.CPU, facts(50, replace(DUT, load=ProcessorLoad(1, 0.96, user=0.8)), **few))
    steady = {**lossy, "spread": 0.001}
    assert found(Cause.CPU, facts(50, replace(DUT, load=ProcessorLoad(1, 0.96, user=0.8)), **steady))


def test_lost_datagrams_are_the_cause() -> None:
    assert found(Cause.LOSS, facts(500, loss_rate=0.05)).text == "5 % of the datagrams were lost"
    assert found(Cause.NOTHING, facts(500, loss_rate=0.001))


def test_a_peer_at_its_loopback_goodput_is_the_cause() -> None:
    text = found(Cause.PEER, facts(peer=replace(PEER, ceiling=Bitrate.mbps(720)))).text
    assert text == "the peer pi5-1:onboard reaches only 720.0 Mbit/s over its own loopback"
    assert found(Cause.NOTHING, facts(peer=replace(PEER, ceiling=Bitrate(9e9))))


def test_a_constant_rate_below_all_limits_is_a_shaper() -> None:
    # Measured values of a link reduced to half; its queue dropped some segments.
    held = facts(470.7, spread=0.0009, retransmit_rate=0.0005, mss=1448, rtt_s=0.0027)
    text = found(Cause.SHAPER, held).text
    assert text == (
        "goodput stayed at 470.7 Mbit/s of 941.5 Mbit/s (within 0.1 %), while the busiest CPU was 40 % busy: a "
        "shaper, or a limit of unknown cause"
    )
    assert found(Cause.NOTHING, replace(held, spread=0.1, rtt_s=0.2))
    assert found(Cause.NOTHING, replace(held, spread=0.001, ends=(replace(DUT, load=None), PEER), rtt_s=0.2))
    assert found(Cause.NOTHING, replace(held, ends=(replace(DUT, load=ProcessorLoad(0, 0.9)), PEER), rtt_s=0.2))


def test_a_shaper_beside_a_cpu_that_is_busy_with_work_of_its_own_is_the_cause() -> None:
    """``PINET_RUN=1 make`` beside a shaped link was called "limited by CPU"."""
    working = replace(DUT, load=ProcessorLoad(0, 1.0, user=0.95, softirq=0.05), tool_percent=22.0)
    queued: dict[str, Any] = {"spread": 0.02, "rtt_s": 0.0027, "rtt_min_s": 0.0004}
    text = found(Cause.SHAPER, facts(470.7, working, **queued)).text
    assert "while the busiest CPU was 100 % busy, mostly with other work than the traffic: a shaper" in text
    assert found(Cause.SHAPER, facts(470.7, working, spread=0.001, loss_rate=0.3))
    # Without a queue, or with a rate that varies, the CPU may be the cause.
    assert found(Cause.CPU, facts(470.7, working, spread=0.02))
    assert found(Cause.CPU, facts(470.7, working, **{**queued, "spread": 0.1}))
    # The traffic itself fills the CPU, or it is not known what it needs.
    assert found(Cause.CPU, facts(470.7, replace(working, tool_percent=80.0), **queued))
    assert found(Cause.CPU, facts(470.7, replace(working, tool_percent=None), **queued))
    interrupts = ProcessorLoad(0, 1.0, user=0.3, softirq=0.65)
    assert found(Cause.IRQ, facts(470.7, replace(working, load=interrupts), **queued))
    # Kernel threads receive with threaded NAPI and on PREEMPT_RT.
    threads = replace(working, load=ProcessorLoad(0, 1.0, user=0.1, system=0.85, softirq=0.05), tool_percent=10.0)
    assert found(Cause.CPU, facts(470.7, threads, spread=0.001))
    assert found(Cause.CPU, facts(470.7, threads, **queued))
    # A receiver that gets no processor keeps its window closed.
    assert found(Cause.CPU, facts(470.7, working, receiver_limited=0.7, sender_limited=0.0, **queued))


def test_without_a_cause_the_text_lists_the_known_values() -> None:
    text = found(Cause.NOTHING, facts(700, retransmit_rate=0.0)).text
    assert text == (
        "700.0 Mbit/s is 74.4 % of what the link carries, the busiest CPU was 40 % busy, 0 % of the segments were "
        "retransmitted"
    )


def test_a_cause_is_found_from_goodput_alone() -> None:
    bare = DiagnosisFacts("tx", Bitrate.mbps(700), WIRE)
    assert diagnose(bare) == Diagnosis(
        Cause.NOTHING,
        "700.0 Mbit/s is 74.4 % of what the link carries",
        {"goodput_bps": 7e8, "limit_bps": WIRE.bps},
    )


RATES = st.floats(0, 2e9).map(Bitrate)
SHARES = st.floats(0, 1)
LOADS = st.builds(ProcessorLoad, st.integers(0, 3), SHARES, SHARES, SHARES, SHARES, SHARES)
HEATS = st.builds(Heat, *(st.none() | st.floats(0, 3000) for _ in range(3)))
ENDS = st.builds(
    EndFacts,
    st.just("end"),
    st.booleans(),
    st.none() | st.sampled_from(["a", "b"]),
    st.none() | st.sampled_from([100, 1000, 2500]),
    st.none() | st.sampled_from([100, 1000, 2500]),
    st.sampled_from([None, "full", "half"]),
    st.none() | st.sampled_from(list(Bus)),
    st.sampled_from([None, 480, 5000]),
    st.none() | st.just(PcieLink(5.0, 1)),
    st.none() | st.tuples(RATES, RATES),
    st.none() | LOADS,
    st.none() | st.floats(0, 400),
    st.sampled_from([(), ("hot",)]),
    st.none() | HEATS,
    st.none() | RATES,
)
FACTS = st.builds(
    DiagnosisFacts,
    st.just("tx"),
    RATES,
    st.floats(1e6, 1e10).map(Bitrate),
    both=st.none() | RATES,
    offered=st.none() | RATES,
    ends=st.lists(ENDS, max_size=3).map(tuple),
    streams=st.integers(1, 10),
    mss=st.none() | st.integers(1, 9000),
    rtt_s=st.none() | st.floats(1e-6, 1),
    window=st.none() | st.integers(1, 10**7),
    receiver_limited=st.none() | SHARES,
    sender_limited=st.none() | SHARES,
    retransmit_rate=st.none() | SHARES,
    loss_rate=st.none() | SHARES,
    spread=st.none() | SHARES,
)
# The inputs of each cause. Without all of them the cause cannot be claimed.
NEEDED = {
    Cause.SENDER: ("offered",),
    Cause.WINDOW: ("window", "receiver_limited"),
    Cause.LOSS: ("retransmit_rate", "loss_rate"),
    Cause.SHAPER: ("spread",),
}
NEEDED_OF_ENDS = {
    Cause.LINK: ("negotiated_mbps", "duplex"),
    Cause.POWER: ("throttled", "heat"),
    Cause.USB: ("bus", "usb_mbps"),
    Cause.PCIE: ("pcie_leaves",),
    Cause.CPU: ("load", "tool_percent"),
    Cause.IRQ: ("load",),
    Cause.OTHERS: ("load",),
    Cause.PEER: ("load", "tool_percent", "ceiling", "negotiated_mbps"),
    Cause.SHAPER: ("load",),
}


@given(FACTS)
def test_there_is_always_one_cause_with_finite_numbers(some: DiagnosisFacts) -> None:
    diagnosis = diagnose(some)
    assert diagnosis.text
    assert all(math.isfinite(number) for number in diagnosis.numbers.values())


@given(FACTS)
def test_a_cause_needs_its_numbers(some: DiagnosisFacts) -> None:
    cause = diagnose(some).cause
    if cause in NEEDED:
        none: dict[str, Any] = dict.fromkeys(NEEDED[cause])
        assert diagnose(replace(some, **none)).cause is not cause
    if cause in NEEDED_OF_ENDS:
        ends = tuple(_without(end, NEEDED_OF_ENDS[cause]) for end in some.ends)
        assert diagnose(replace(some, ends=ends)).cause is not cause


def _without(end: EndFacts, names: tuple[str, ...]) -> EndFacts:
    empty: dict[str, Any] = {field.name: field.default for field in fields(EndFacts)}
    return replace(end, **{name: empty[name] for name in names})


def test_no_rule_matches_without_numbers() -> None:
    bare = DiagnosisFacts("tx", Bitrate.mbps(700), WIRE, ends=(EndFacts("a", under_test=True), EndFacts("b")))
    assert [rule.__name__ for rule in RULES if rule(bare) is not None] == []
