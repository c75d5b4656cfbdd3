"""The bottleneck in the terminal, in a failure and in results.json."""

from __future__ import annotations

import json

import jsonschema

from pytest_pinet.model.evidence import Cause, Diagnosis, EndEvidence, Heat, ProcessorLoad, Throttling
from pytest_pinet.model.record.measurement import LimitedByRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.report.failure import failure_text
from pytest_pinet.report.result_record import evidence_record
from pytest_pinet.report.terminal import summary_table
from tests.support.report_records import direction, result, run_record
from tools.results_schema import results_schema

BUSY = Diagnosis(Cause.IRQ, "CPU 0 of pi4b-1:onboard was 99 % busy, 97 % in interrupts and softirqs", {"busy": 0.99})


def slow() -> ResultRecord:
    found = result("pi4b:onboard/pair", {"rx": direction(700.2e6, 885e6, "fail")})
    return found.replace(limited_by=LimitedByRecord.of(BUSY))


def test_a_failure_says_it() -> None:
    lines = failure_text(slow()).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("  limited by "))
    assert lines[start] == "  limited by interrupts on one core: CPU 0 of pi4b-1:onboard was 99 % busy, 97 %"
    assert lines[start + 1] == "             in interrupts and softirqs"


def test_the_terminal_prints_the_diagnosis_on_request() -> None:
    told = [
        "    limited by interrupts on one core: CPU 0 of pi4b-1:onboard was 99 % busy,",
        "    97 % in interrupts and softirqs",
    ]
    assert summary_table([slow()], [], verbose=True)[2:4] == told
    assert not any("limited by" in line for line in summary_table([slow()], []))


def test_both_directions_have_one_line() -> None:
    both = result("pi4b:onboard/pair", {"tx": direction(941e6), "rx": direction(900e6)}, traffic="tcp-P1-bidir")
    both = both.replace(limited_by=LimitedByRecord.of(BUSY))
    assert sum("limited by" in line for line in summary_table([both], [], verbose=True)) == 1


def test_a_result_without_a_diagnosis_prints_nothing() -> None:
    bare = result("pi4b:onboard/pair", {"rx": direction(700.2e6, 885e6, "fail")})
    assert "limited by" not in failure_text(bare)
    assert not any("limited by" in line for line in summary_table([bare], [], verbose=True))


def test_it_is_in_the_schema_with_the_evidence() -> None:
    found = slow()
    heat = Heat(1500.0, 1500.0, 61.2, Throttling(0x50000))
    full = EndEvidence(
        "pi4b-1:onboard",
        "eth0",
        machine="boot",
        window_s=3.2,
        traffic_s=3.0,
        processors=(ProcessorLoad(0, 0.98765, softirq=0.9),),
        interrupts={f"irq {n}": (n, 0) for n in range(10)},
        softirqs={"NET_RX": (5, 6)},
        softnet={"dropped": (0, 0)},
        interface={"rx_bytes": 5, "rx_errors": 0, "carrier_changes": 0},
        nic={"rbuf_ovflow_cnt": 3},
        kernel=(),
        before=heat,
        under_load=None,
        after=heat,
        restarted=("ethtool",),
    )
    evidence = [evidence_record(1, full), evidence_record(1, EndEvidence("pi5-1:onboard", "eth0"))]
    run = run_record([found.replace(evidence=evidence)])
    jsonschema.validate(run.dump(), results_schema())
    assert RunRecord.model_validate(json.loads(json.dumps(run.dump()))) == run
    first, second = run.dump()["results"][0]["evidence"]
    # The rarest interrupts and unchanged counters are only in the raw files.
    assert list(first["interrupts"] or {}) == ["irq 9", "irq 8", "irq 7", "irq 6", "irq 5", "irq 4"]
    assert first["interface"] == {"rx_bytes": 5, "carrier_changes": 0}
    assert (first["processors"] or [])[0]["busy"] == 0.9877
    assert first["after"] == {
        "clock_mhz": 1500.0,
        "clock_max_mhz": 1500.0,
        "temperature_c": 61.2,
        "throttling": 0x50000,
    }
    assert (second["processors"], second["interface"], second["kernel"]) == (None, None, None)
