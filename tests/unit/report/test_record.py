"""The records of results: building, writing, reading, and their schema."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from pytest_pinet.errors import ConfigError, Where
from pytest_pinet.history.records import points_of
from pytest_pinet.history.results_file import read_run, run_of
from pytest_pinet.model.combination import Combination, Endpoint
from pytest_pinet.model.connection import Fresh
from pytest_pinet.model.evidence import Cause, Diagnosis, EndEvidence, Heat, ProcessorLoad, Throttling
from pytest_pinet.model.hardware import Board, Bus, Nic
from pytest_pinet.model.judgement import DirectionJudgement
from pytest_pinet.model.lab import Interface, Node, PortRef
from pytest_pinet.model.measurement import Event, EventKind, Flow, Sample, Window
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.measurement import DirectionRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.failure import failure_text
from pytest_pinet.report.junit import junit_properties
from pytest_pinet.report.markdown import summary_markdown
from pytest_pinet.report.result_record import (
    combination_record,
    direction_record,
    evidence_record,
    most_apart,
    window_record,
)
from pytest_pinet.report.sentences import apart_notes
from pytest_pinet.report.terminal import count_line, rows_of, summary_table
from tests.support.history_records import day
from tests.support.judge_connections import single
from tests.support.report_records import NIGHT, NIGHT_SKIPPED, direction, result, run_record
from tests.support.traffic_results import http_result, ladder_result, ping_result
from tools.results_schema import SCHEMA_FILE, results_schema, schema_text


def endpoint(name: str, port: str) -> Endpoint:
    nic = Nic("genet", "Broadcom GENET", "bcm54213", "bcmgenet", Bus.SOC, (10, 100, 1000))
    where = Where("lab.yaml", 3)
    interface = Interface(name, "onboard", "onboard", nic, Bus.SOC, "eth0", PortRef("sw1", port), 1000, where)
    board = Board("pi4b", "Raspberry Pi 4B", 1500, 4, (Bus.USB3,), "genet")
    return Endpoint(Node(name, board, name, name, (interface,), where, 180.0), interface)


def test_a_flow_and_its_judgement_become_plain_data() -> None:
    flow = Flow(
        Direction.TX,
        (Sample(0, 1, 10, warmup=True), Sample(1, 1, 12_500_000)),
        retransmits=3,
        streams=(Bitrate(100e6),),
    )
    event = Event(EventKind.STALL, 0.4, 0.3, "nothing arrived for 0.3 s")
    made = single(flow.samples, events=(event,))
    dropped = "link dropped for 2.1 s at 14:03:07, sw1/p5"
    judged = DirectionJudgement(
        Verdict.PASS,
        "no limit was set for this combination",
        flow.goodput,
        Bitrate(941e6),
        "1000 Mbit/s link",
        0.01,
        interval=(99e6, 101e6),
        stopped="certain after 1 connection",
        state="cleared",
        flows=(flow,),
        connections=(made, replace(made, fresh=Fresh.LINK, link_events=(), excluded=dropped)),
    )

    record = direction_record(judged)

    assert DirectionRecord.model_validate(json.loads(json.dumps(record.dump()))) == record
    assert (record.goodput_bps, record.limit_bps, record.verdict) == (100e6, None, "pass")
    assert record.samples == flow.samples * 2
    assert (record.interval_bps, record.state) == ((99e6, 101e6), "cleared")
    first, second = record.connections
    assert first.events == (event,)
    assert (first.goodput_bps, first.seconds, first.warmup_s) == (100e6, 1, 1)
    assert (second.fresh, second.excluded) == ("link-up", "link dropped for 2.1 s at 14:03:07, sw1/p5")
    assert record.retransmits == 3
    assert record.lost_packets is None


def test_of_several_flows_what_one_does_not_count_is_not_known() -> None:
    one = Flow(Direction.TX, (Sample(0, 1, 12_500_000),), retransmits=3, packets=7, jitter_ms=0.2)
    flows = (one, replace(one, packets=None))
    judged = DirectionJudgement(Verdict.PASS, "", Bitrate(200e6), Bitrate(941e6), "1000 Mbit/s link", 0.01, flows=flows)
    record = direction_record(judged)
    assert (record.retransmits, record.packets, record.jitter_ms) == (6, None, None)
    assert record.streams_bps == (100e6, 100e6)


def test_a_combination_names_the_nodes_and_ports_that_stood_for_it() -> None:
    combination = Combination.pair(endpoint("pi4b-1", "3"), endpoint("pi4b-2", "4"))

    assert combination_record(combination, "tcp-P10").dump() == {
        "id": "pi4b:onboard/pair",
        "board": "pi4b",
        "nic": "onboard",
        "topology": "pair",
        "tuning": "",
        "traffic": "tcp-P10",
        "dut": "pi4b-1:onboard",
        "dut_port": "sw1/3",
        "peer": "pi4b-2:onboard",
        "peer_port": "sw1/4",
        "ends": [{"end": "pi4b-1:onboard", "port": "sw1/3"}, {"end": "pi4b-2:onboard", "port": "sw1/4"}],
    }


def test_the_shipped_schema_is_current() -> None:
    assert SCHEMA_FILE.read_text() == schema_text(), "run python -m tools.results_schema"


def test_the_schema_says_what_an_id_is() -> None:
    description = results_schema()["$defs"]["ResultRecord"]["description"]

    assert "unique for each combination, traffic and direction (``pi4b:onboard/pair/tcp-P1-tx``" in description
    assert "``test`` is the node id" in description
    assert "``id`` is that of the combination alone" in description


@pytest.mark.parametrize(("key", "value"), [("notes", [1]), ("notes", None), ("cpu_percent", {"dut": "99"})])
def test_notes_are_sentences_and_processor_shares_are_numbers(key: str, value: object) -> None:
    run = run_record([]).dump() | {"results": [NIGHT[0].dump() | {key: value}]}

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(run, results_schema())


def test_the_schema_is_one_and_takes_a_run() -> None:
    schema = results_schema()
    jsonschema.Draft202012Validator.check_schema(schema)

    jsonschema.validate(run_record(NIGHT, NIGHT_SKIPPED).dump(), schema)


@pytest.mark.parametrize(("key", "value"), [("schema", 2), ("results", None), ("complete", "yes")])
def test_the_schema_refuses_what_is_not_version_1(key: str, value: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(run_record(NIGHT).dump() | {key: value}, results_schema())


def test_the_schema_knows_the_verdicts() -> None:
    run = run_record([]).dump() | {"results": [NIGHT[0].dump() | {"verdict": "good"}]}

    with pytest.raises(jsonschema.ValidationError, match="'good' is not one of"):
        jsonschema.validate(run, results_schema())


BUSY = Diagnosis(Cause.IRQ, "CPU 0 of pi4b-1:onboard was 99 % busy, 97 % in interrupts and softirqs", {"busy": 0.99})


def slow() -> ResultRecord:
    found = result("pi4b:onboard/pair", {"rx": direction(700.2e6, 885e6, "fail")})
    return found.replace(limited_by=BUSY)


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
    both = both.replace(limited_by=BUSY)
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


def test_a_ping_is_a_row_without_goodput_and_counts_as_measured() -> None:
    rows = rows_of([ping_result()])
    assert [row.goodput_bps for row in rows] == [None, None]
    assert [row.figure for row in rows] == [("2 ms", "none"), ("0%", "none")]
    assert count_line([ping_result()], []) == "1 measured: 1 pass"


@pytest.mark.parametrize(
    ("record", "notes"),
    [
        (http_result(), "10000 requests/s of 1000 bytes on 8 connections"),
        (
            ladder_result(),
            "90.0 Mbit/s is the highest of 2 rates held with at most 0.1 % lost; at 120.0 Mbit/s 20 % were lost",
        ),
    ],
)
def test_notes_on_a_value_stand_below_it(record: ResultRecord, notes: str) -> None:
    assert notes in " ".join(line.strip() for line in summary_table([record], []))


def test_junit_has_them_as_properties() -> None:
    properties = dict(junit_properties([ping_result()]))
    assert properties["pinet.latency.value"] == 2e-3
    assert properties["pinet.loss.value"] == 0
    assert properties["pinet.rtt_max.value"] == 3e-3
    assert dict(junit_properties([http_result()]))["pinet.requests_per_s"] == 10_000
    assert dict(junit_properties([ladder_result()]))["pinet.knee_bps"] == 90_000_000


def test_they_are_in_the_schema() -> None:
    jsonschema.validate(run_record([ping_result(), http_result(), ladder_result()]).dump(), results_schema())


def test_the_largest_skew_stands_beside_how_sure_it_is() -> None:
    windows = [Window(0.0, 3.0, 0.01, 0.02), Window(0.0, 3.0, 0.03, 0.016), Window(0.0, 3.0)]
    records = [window_record(number, window) for number, window in enumerate(windows, 1)]
    assert records[1].start_skew_within_s == 0.016
    assert most_apart(records) == (0.03, 0.016)
    assert most_apart(records[2:]) == (None, None)


SHARED = "only the time that they shared counts"


@pytest.mark.parametrize(
    ("skew_s", "within_s", "notes"),
    [
        (0.02, 0.016, []),
        (0.04, 0.016, ["the flows began 40 ms apart (give or take 16 ms), which can be more than 50 ms: "]),
        (0.061, 0.016, ["the flows began 61 ms apart (give or take 16 ms), although they were started twice: "]),
    ],
)
def test_flows_that_may_have_begun_too_far_apart_get_a_note(skew_s: float, within_s: float, notes: list[str]) -> None:
    assert apart_notes(skew_s, within_s, 0.05) == [f"{text}{SHARED}" for text in notes]


def test_flows_with_unknown_start_times_get_a_note() -> None:
    (note,) = apart_notes(None, None, 0.05)
    assert note.startswith("the start times of the flows are unknown: ")


STORED = [run_record(NIGHT).dump(), day(1).dump()]
SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("stored", STORED, ids=["night", "day"])
def test_what_is_stored_fits_the_schema_and_is_read_by_all_that_read_results(
    stored: dict[str, object], tmp_path: Path
) -> None:
    (path := tmp_path / "results.json").write_text(json.dumps(stored))
    jsonschema.validate(json.loads(path.read_text()), SCHEMA)
    record = read_run(path)
    run, points = points_of(record)
    assert sum(run.verdicts.values()) == len(points) >= len(record.results)
    assert summary_table(record.results, record.skipped)
    assert summary_markdown(record).startswith("## ")


def test_another_version_is_refused_with_what_to_do() -> None:
    record = json.loads(json.dumps(STORED[0])) | {"schema": 7}
    with pytest.raises(ConfigError, match=r"^results\.json has version 7; expected 1: update pytest-pinet$"):
        run_of(record)


@pytest.mark.parametrize("record", [[], {}, {"run": "x"}, {"results": []}, {"run": "x", "results": 3}, "text", None])
def test_what_is_no_results_file_is_refused(record: object) -> None:
    with pytest.raises(
        ConfigError, match=r"^x\.json is no results\.json of pytest-pinet; expected keys 'run' and 'results'"
    ):
        run_of(record, where="x.json")


@pytest.mark.parametrize("key", ["combination", "directions", "started"])
def test_a_broken_file_is_named(key: str) -> None:
    record = json.loads(json.dumps(STORED[0]))
    record["results"][0][key] = 5
    with pytest.raises(ConfigError, match=r"^x\.json is broken \(.*\); check it against 'pinet history schema'$"):
        run_of(record, where="x.json")
