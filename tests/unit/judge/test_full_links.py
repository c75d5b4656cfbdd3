"""A limiter that was full all the time is a failure beside any load of the ends. Each weaker proof is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.judge.bottleneck import full_all_the_time
from pytest_pinet.judge.circumstances import Circumstances, Excuse
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.measurement import figures
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.evidence import EndEvidence, OtherWork, ProcessorLoad, Program
from pytest_pinet.model.judgement import MeasurementJudgement
from pytest_pinet.model.limits import Origin, parse_arguments
from pytest_pinet.model.measurement import Sample, Sockets
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict
from tests.support.link_stand_in import TX, facts, flow, judged, one_connection
from tests.support.replayed_runs import replayed

WAY = Direction.TX
RATE = 847.2e6
# The machine of the virtual lab was full of other work; the traffic itself needs little processor time.
OTHERS = OtherWork(0.9, (Program("cc1plus", 812, 0.9),))
FULL_CPU = ProcessorLoad(0, 1.0, user=0.92, system=0.06, softirq=0.02)
BUSY = Excuse("other programs took 90 % of a CPU of one (cc1plus (pid 812) 90 %) in 3 of 3 connections", "end it")


def steady(rate: float = RATE, *pieces: float) -> tuple[Sample, ...]:
    """Return three seconds at a rate; ``pieces`` are factors of its half seconds."""
    factors = [*pieces, *[1.0] * (6 - len(pieces))]
    return tuple(Sample(i / 10, 0.1, round(rate * factors[i // 5] / 80)) for i in range(30))


def full_connection(
    samples: tuple[Sample, ...] | None = None, end: dict[str, Any] | None = None, tool: float = 5.0, **sockets: Any
) -> Connection:
    """Return a connection whose limiter was full all the time, beside other programs on its ends."""
    known: dict[str, Any] = {"rtt_s": 0.0011, "rtt_min_s": 0.00002, "receiver_limited": 0.0, "sender_limited": 0.01}
    known |= {"while_busy": Bitrate(RATE * 1.003), **sockets}
    made = flow(sockets=Sockets(1, 1448, **known), retransmits=0, rtt_s=known["rtt_s"])
    made = replace(made, flow=replace(made.flow, samples=samples or steady()))
    one = one_connection(made, cpu=tool)
    seen: dict[str, Any] = {"machine": "boot", "processors": (FULL_CPU,), "others": OTHERS}
    seen |= {"softnet": {"dropped": (0,), "time_squeeze": (0,)}, "throttled": 0.0, **(end or {})}
    return replace(
        one, lasted_s=3.0, evidence=tuple(EndEvidence(f"{n}:onboard", "eth0", **seen) for n in ("one", "two"))
    )


def proof(*connections: Connection) -> str:
    return full_all_the_time(facts(), TX, connections, {WAY: judged(RATE)}).get(WAY, "")


def test_a_queue_that_was_never_empty_is_a_proof() -> None:
    assert proof(*[full_connection()] * 3) == (
        "a queue on the way was never empty (1.1 ms of round trip, 0.02 ms without it), the sender never waited, and "
        "its rate was steady within 0.1 %"
    )


def test_bytes_that_a_busy_receiver_counted_late_do_not_weaken_the_proof() -> None:
    # Seen over a link made 10 % slower, on a machine of load 8: a receiver read late, then caught up.
    late = full_connection(samples=steady(RATE, 1.0, 0.97, 1.0, 1.05))
    assert proof(late, full_connection(samples=steady(RATE, 1.0, 1.0, 1.036)), full_connection())


@pytest.mark.parametrize(
    "weaker",
    [
        full_connection(samples=steady(RATE, 0.99, 1.01, 0.985, 1.02, 1.008, 0.99)),
        full_connection(samples=steady(RATE, 0.96, 0.96)),
        full_connection(samples=steady()[:15]),
        full_connection(rtt_s=0.00003),
        full_connection(rtt_s=None),
        full_connection(rtt_min_s=None),
        full_connection(receiver_limited=0.2),
        full_connection(sender_limited=0.2),
        full_connection(receiver_limited=None),
        # A quota lets the sender run for a part of each 0.1 s: its rate is steady, and its bursts fill a queue.
        full_connection(while_busy=Bitrate(RATE * 1.1)),
        full_connection(while_busy=None),
        full_connection(end={"throttled": 0.2}),
        full_connection(end={"processors": (replace(FULL_CPU, steal=0.1),)}),
        # The kernel itself had too little processor time for its packets.
        full_connection(end={"softnet": {"dropped": (3,), "time_squeeze": (0,)}}),
        full_connection(end={"softnet": {"dropped": (0,), "time_squeeze": (40,)}}),
        full_connection(end={"processors": (ProcessorLoad(0, 1.0, user=0.1, system=0.5, softirq=0.4),)}),
        full_connection(end={"processors": (ProcessorLoad(0, 1.0, user=0.9, system=0.1),)}, tool=90.0),
        full_connection(end={"processors": (ProcessorLoad(0, 1.0, user=0.5, system=0.1, softirq=0.4),)}),
        full_connection(end={"processors": None}),
    ],
    ids=[
        "a rate that varies",
        "time that is missing",
        "too short",
        "no queue",
        "no round trip",
        "no shortest round trip",
        "a receiver that did not read",
        "a sender that waited for its buffer",
        "unknown waits",
        "pauses of the sender",
        "unknown pauses",
        "a quota",
        "a hypervisor",
        "packets dropped by the kernel",
        "packets left in the queue of the kernel",
        "a CPU full of traffic",
        "a CPU full of the traffic tool",
        "a CPU of which the traffic and other work each have a half",
        "unknown load",
    ],
)
def test_a_weaker_proof_is_none(weaker: Connection) -> None:
    assert proof(weaker, weaker, weaker) == ""


def test_a_connection_with_a_lower_rate_than_the_others_is_no_proof() -> None:
    assert proof(full_connection(), full_connection(), full_connection(samples=steady(RATE * 0.97))) == ""


def test_a_full_link_at_its_rate_is_none() -> None:
    wire = 941e6
    full = full_connection(samples=steady(wire), while_busy=Bitrate(wire))
    assert full_all_the_time(facts(), TX, [full] * 3, {WAY: judged(wire)}) == {}


def test_several_flows_prove_nothing() -> None:
    both = one_connection(flow(), flow())
    assert full_all_the_time(facts(), TX, [both], {WAY: judged(RATE)}) == {}


def verdict(connections: list[Connection], full: dict[Direction, str]) -> MeasurementJudgement:
    plan = GatePlan(parse_arguments({"min": "900M"}, Origin.MARKER), PROFILES["standard"], link_ups=False)
    return figures(facts(), TX, connections, plan, Circumstances(busy=[BUSY], full=full))


def test_other_work_excuses_no_value_below_a_limit_that_is_proved() -> None:
    found = verdict([full_connection()] * 3, {WAY: "a queue on the way was never empty"})
    assert found.verdict is Verdict.FAIL
    assert found.reason.endswith("; other work does not explain it: a queue on the way was never empty")


def test_without_a_proof_the_value_says_nothing_about_the_link() -> None:
    found = verdict([full_connection()] * 3, {})
    assert found.verdict is Verdict.INVALID
    assert found.reason.endswith("in 3 of 3 connections: this says nothing about the link")


def test_a_measurement_beside_other_work_decides_without_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = full_connection()
    record, runs = replayed(tmp_path, monkeypatch, one.evidence, measured=one.flows[0])
    assert (record.verdict, runs.set_aside_count) == (Verdict.FAIL, 0)
    weaker = full_connection(while_busy=None)
    record, runs = replayed(tmp_path, monkeypatch, one.evidence, measured=weaker.flows[0])
    assert (record.verdict, runs.set_aside_count) == (Verdict.INVALID, 2)
