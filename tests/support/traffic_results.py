"""Results beside goodput: pings, requests, a ladder, and tunings with and without effect."""

from __future__ import annotations

from pytest_pinet.measure.ping import Pings
from pytest_pinet.model.evidence import Cause, Diagnosis, EndEvidence
from pytest_pinet.model.figures import LATENCY, LOSS, RTT_MAX, RTT_MIN
from pytest_pinet.model.judgement import FigureJudgement
from pytest_pinet.model.measurement import HttpReport, Window
from pytest_pinet.model.record.measurement import LadderRecord, StepRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.tuning import SettingOutcome, Tuned
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.result_record import evidence_record, http_record, window_record
from tests.support.report_records import direction, result

BUSY = Diagnosis(Cause.IRQ, "CPU 0 of pi4b-1:onboard was 99 % busy, 97 % in interrupts and softirqs", {"busy": 0.99})


def ping_result(verdict: str = "pass", came: int = 10) -> ResultRecord:
    record = result("pi4b:onboard/pair", {}, verdict, "loss 50 % is above the limit 1 %")
    values = {LOSS: 1 - came / 10} | ({LATENCY: 2e-3, RTT_MIN: 1e-3, RTT_MAX: 3e-3} if came else {})
    return record.replace(
        id=f"pi4b:onboard/pair/{Pings().key}",
        combination=record.combination.replace(traffic=Pings().key),
        figures={
            one.name: FigureJudgement(one.unit, one.better, value, (value,), Verdict(verdict), "no limit was set")
            for one, value in values.items()
        },
    )


def http_result() -> ResultRecord:
    record = result("pi4b:onboard/pair", {"tx": direction(80e6)}, traffic="http-c8-s1000")
    return record.replace(
        http=http_record(1000, 8, [HttpReport(10_000, 1.0, 1e7), HttpReport(10_100, 1.01, 1e7)]),
        versions={"dut": "nginx/1.22.1", "peer": "wrk 4.1.0"},
        windows=[window_record(1, Window(0.5, 2.5, 0.02, 0.016))],
        start_skew_s=0.02,
        start_skew_within_s=0.016,
    )


LADDER = LadderRecord(
    loss=0.001,
    knee_bps=90e6,
    steps=(
        StepRecord(rate_bps=90e6, goodput_bps=90e6, loss=0.0, connections=1, reached=True, held=True),
        StepRecord(rate_bps=120e6, goodput_bps=94e6, loss=0.2, connections=2, reached=True, held=False),
    ),
)


def ladder_result() -> ResultRecord:
    record = result("pi4b:onboard/pair", {"rx": direction(90e6)}, traffic="udp-P1-b120M-ladder")
    return record.replace(ladder=LADDER)


def failed_ladder_result() -> ResultRecord:
    """Return a ladder without a rate that held."""
    steps = [step.replace(held=False) for step in LADDER.steps]
    return ladder_result().replace(ladder=LADDER.replace(knee_bps=None, steps=steps))


def tuned(found: float = 941e6, verdict: str = "pass") -> ResultRecord:
    """Return a result with one setting that holds at both ends, and one that holds at none."""
    record = result("pi4b:onboard/pair/rps=all+mtu=9000", {"rx": direction(found, 885e6, verdict)})
    ends = ("pi4b-1:onboard", "pi4b-2:onboard")
    tunings = (
        *(Tuned(end, "rps", "all", "0", "f", SettingOutcome.APPLIED) for end in ends),
        *(Tuned(end, "mtu", "9000", "1500", "1500", SettingOutcome.REJECTED, "Invalid argument") for end in ends),
    )
    return record.replace(
        combination=record.combination.replace(topology="pair"),
        tunings=tunings,
        limited_by=BUSY,
        evidence=[evidence_record(1, EndEvidence(end, "eth0", kernel=("eth0: dropped",))) for end in ends],
    )


ALL = {
    "ping": ping_result(),
    "ping-lost": ping_result("fail", 0),
    "http": http_result(),
    "ladder": ladder_result(),
    "ladder-unheld": failed_ladder_result(),
    "tuned": tuned(),
    "tuned-slow": tuned(700e6, "fail"),
}
