"""Recorded texts, through the parsers that read them in a run, to the cause. No real board recorded them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.evidence.node_state import Processors
from pytest_pinet.evidence.sources import Texts
from pytest_pinet.judge.bottleneck import limited_by
from pytest_pinet.model.evidence import Cause, Diagnosis, EndEvidence
from pytest_pinet.model.measurement import Flow
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from tests.support.iperf3_output import parse_client
from tests.support.link_stand_in import facts, flow, judged, one_connection

DATA = Path(__file__).parents[2] / "data"
ONE, TWO = EndEvidence("one:onboard", "eth0", machine="a"), EndEvidence("two:onboard", "eth0", machine="b")


def cause(traffic: Traffic, measured: Flow, *evidence: EndEvidence) -> Diagnosis:
    whole = replace(flow(), flow=measured)
    connections = [replace(one_connection(whole, traffic=traffic), evidence=evidence)] * 3
    return limited_by(facts(), traffic, connections, {Direction.TX: judged(measured.goodput.bps)})


def test_a_machine_whose_host_took_processor_time() -> None:
    texts = Texts(*((DATA / "proc-stat" / f"{name}.txt").read_text() for name in ("before", "after")))
    found = cause(Traffic(Direction.TX), flow(payload=60_000_000).flow, Processors().add(ONE, texts), TWO)
    assert (found.cause, found.text) == (Cause.OTHERS, "a hypervisor or a quota took 9 % of a CPU of one:onboard")
    # The same machine, if its host had taken nothing, was busy with programs of its own.
    alone = Texts(*(_without_steal(text) for text in (texts.before, texts.after)))
    found = cause(Traffic(Direction.TX), flow(payload=60_000_000).flow, Processors().add(ONE, alone), TWO)
    assert found.cause is Cause.NOTHING


def _without_steal(text: str) -> str:
    lines = [line.split() for line in text.splitlines()]
    return "\n".join(" ".join([*words[:8], "0", *words[9:]] if words[0][:3] == "cpu" else words) for words in lines)


@pytest.mark.parametrize("version", ["3.12-debian12", "3.16", "3.21"])
def test_a_sender_that_iperf3_held_at_its_rate(version: str) -> None:
    traffic = Traffic(Direction.RX, udp=True, bitrate=Bitrate.mbps(20), duration_s=2.0, warmup_s=0.0)
    folder = DATA / "iperf3" / version
    printed = [(folder / f"udprev.{kind}").read_text() for kind in ("json", "err")]
    measured = parse_client(printed[0], printed[1], int((folder / "udprev.rc").read_text()), traffic)[Direction.RX]
    found = cause(traffic, measured, ONE, TWO)
    assert (found.cause, found.text) == (Cause.SENDER, "the rate limit of the sender one:onboard is 20.0 Mbit/s")
    unlimited = replace(traffic, bitrate=Bitrate.mbps(40))
    assert cause(unlimited, measured, ONE, TWO).cause is Cause.NOTHING
