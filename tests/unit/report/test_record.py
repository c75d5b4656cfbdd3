import json
from dataclasses import replace

import jsonschema
import pytest

from pytest_pinet.errors import Where
from pytest_pinet.model.combination import Combination, Endpoint
from pytest_pinet.model.connection import Fresh
from pytest_pinet.model.hardware import Board, Bus, Nic
from pytest_pinet.model.judgement import DirectionJudgement
from pytest_pinet.model.lab import Interface, Node, PortRef
from pytest_pinet.model.measurement import Event, EventKind, Flow, Sample
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.measurement import DirectionRecord
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.result_record import combination_record, direction_record
from tests.support.judge_connections import single
from tests.support.report_records import NIGHT, NIGHT_SKIPPED, run_record
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
