"""Data of a link, its attempts and its ends are combined to name the bottleneck."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_pinet.judge.attempts import MeasuredFlow, Try
from pytest_pinet.judge.bottleneck import kernel_notes, limited_by
from pytest_pinet.model.conditions import Conditions, Throttling
from pytest_pinet.model.diagnosis import Cause, Diagnosis
from pytest_pinet.model.evidence import EndEvidence, Heat, ProcessorLoad
from pytest_pinet.model.link_facts import LinkFacts
from pytest_pinet.model.measurement import Sample, Sockets
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.verdict import Verdict
from tests.support import link_stand_in
from tests.support.link_stand_in import flow, judged, one_try

TX = Traffic(Direction.TX)
IDLE = (ProcessorLoad(0, 0.1), ProcessorLoad(1, 0.2))


def evidence(end: str, *loads: ProcessorLoad, machine: str | None = None, **more: Any) -> EndEvidence:
    return EndEvidence(end, "eth0", machine=machine or end, traffic_s=1.0, processors=loads or IDLE, **more)


def ends(one: EndEvidence | None = None, two: EndEvidence | None = None) -> tuple[EndEvidence, ...]:
    return (one or evidence("one:onboard"), two or evidence("two:onboard"))


def seen(*found: EndEvidence, measured: MeasuredFlow | None = None, excluded: str = "") -> Try:
    return replace(one_try(measured or flow(), excluded=excluded), evidence=found or ends())


def cause(link: LinkFacts, *tries: Try, mbps: float = 700, traffic: Traffic = TX, **more: Any) -> Diagnosis:
    return limited_by(link, traffic, tries, {Direction.TX: judged(mbps * 1e6)}, **more)


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
    def busy(share: float, cpu: int) -> Try:
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
    def steady(seconds: int) -> Try:
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
    tries = [replace(one_try(flow(), replace(flow(1, 0), way=Direction.RX)), evidence=ends())]
    directions = {Direction.TX: judged(500e6), Direction.RX: judged(930e6, 940e6, Verdict.FAIL)}
    found = limited_by(link, replace(TX, direction=Direction.BIDIR), tries, directions)
    assert found.numbers["goodput_bps"] == 930e6
    directions[Direction.RX] = judged(930e6, 940e6)
    found = limited_by(link, replace(TX, direction=Direction.BIDIR), tries, directions)
    assert found.numbers["goodput_bps"] == 500e6


def test_without_evidence_there_is_no_cause(link: LinkFacts) -> None:
    bare = one_try(flow())
    assert cause(link, bare).cause is Cause.NOTHING


def test_a_kernel_message_is_reported_once(link: LinkFacts) -> None:
    line = "[ 101.5] NETDEV WATCHDOG: eth0: transmit queue 2 timed out"
    one = seen(*ends(evidence("one:onboard", kernel=(line,))))
    assert kernel_notes([one, one]) == [f"the kernel of one:onboard logged: {line}"]
    assert kernel_notes([seen()]) == []
