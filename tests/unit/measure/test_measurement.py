"""One measurement: its record, its repeats, and the capacity of peers."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.judge.turns import Side
from pytest_pinet.lab.link.link import Link
from pytest_pinet.measure.comparison import compared_record
from pytest_pinet.measure.link_result import link_result
from pytest_pinet.measure.measurement import ceilings
from pytest_pinet.model.evidence import EndEvidence, OtherWork, ProcessorLoad, Program
from pytest_pinet.model.judgement import MeasurementJudgement
from pytest_pinet.model.measurement import Flow, Measurement, Sample
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.record.change import ComparisonRecord, SideRecord
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.tuning import SettingOutcome, Tuned
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.result_record import parameters_hash
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.traffic.tool import TrafficJob
from tests.support import link_stand_in
from tests.support.link_stand_in import TX, flow, link
from tests.support.local_shell import LocalShell
from tests.support.replayed_runs import Board, Replayed, replayed

IDLE = EndEvidence("one:onboard", "eth0", machine="a"), EndEvidence("two:onboard", "eth0", machine="b")
STOLEN = replace(IDLE[0], processors=(ProcessorLoad(0, 0.9, steal=0.1),)), IDLE[1]
COMPILING = IDLE[0], replace(IDLE[1], others=OtherWork(0.5, (Program("cc1plus", 812, 0.5),)))
LEFT_OUT = "a hypervisor or a quota took 10 % of a CPU of one"


def measured(
    here: Path | Link, monkeypatch: pytest.MonkeyPatch, *evidence: tuple[EndEvidence, EndEvidence], **limits: str
) -> tuple[ResultRecord, list[str]]:
    """Return the result, and for each connection why it does not count."""
    record, runs = replayed(here, monkeypatch, *evidence, limits=limits)
    return record, [one.excluded for one in runs.connections]


def test_an_connection_with_stolen_time_is_repeated_and_the_others_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, excluded = measured(tmp_path, monkeypatch, STOLEN, IDLE)
    assert record.verdict is Verdict.FAIL
    assert excluded[0] == LEFT_OUT
    assert set(excluded[1:]) == {""}


@pytest.mark.parametrize("work", [STOLEN, COMPILING], ids=["stolen time", "other programs"])
def test_connections_are_repeated_twice_at_most(
    work: tuple[EndEvidence, EndEvidence], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, excluded = measured(tmp_path, monkeypatch, work)
    assert [bool(why) for why in excluded[:3]] == [True, True, False]
    assert set(excluded[2:]) == {""}
    assert record.verdict is Verdict.INVALID


def test_the_repeats_of_a_measurement_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After connections were left out, the next ones are not repeated twice again. The budget of traffic bounds all."""
    record, runs = replayed(tmp_path, monkeypatch, STOLEN, STOLEN, IDLE, STOLEN)
    assert [bool(one.excluded) for one in runs.connections[:4]] == [True, True, False, True]
    assert runs.set_aside_count == 2
    assert runs.traffic_s <= PROFILES["standard"].budget_s
    assert record.verdict is Verdict.INCONCLUSIVE
    assert record.message.endswith("a hypervisor or a quota took 10 % of a CPU of one in 6 of 7 connections")


def test_the_programs_that_the_reason_names_are_no_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, _ = measured(tmp_path, monkeypatch, COMPILING)
    assert record.verdict is Verdict.INVALID
    assert record.directions["tx"].reason.count("cc1plus") == 1
    assert not any("cc1plus" in note for note in record.notes)
    assert "end this program, or keep it off the ends while tests run" in record.notes


def test_an_connection_that_meets_the_limit_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, excluded = measured(tmp_path, monkeypatch, STOLEN, min="500M")
    assert (record.verdict, excluded) == (Verdict.PASS, [""])


def test_each_result_has_the_settings_at_its_own_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boards = Board("one"), Board("two")
    here = link(tmp_path, shells=boards)
    found = []
    for governor in ("ondemand", "performance"):
        boards[1].governor = governor
        record, _ = measured(here, monkeypatch, IDLE, min="500M")
        assert record.settings is not None
        found.append([own["governor"] for own in record.settings.values()])
    assert found == [["ondemand", "ondemand"], ["ondemand", "performance"]]


def test_an_end_that_does_not_answer_after_the_traffic_loses_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boards = Board("one"), Board("two")
    for board in boards:
        board.ends_with_traffic = True
    record, _ = measured(link(tmp_path, shells=boards), monkeypatch, IDLE, min="500M")
    assert record.verdict is Verdict.PASS
    assert list(record.settings or ()) == ["dut", "peer"]


def test_settings_that_cannot_be_read_are_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boards = Board("one"), Board("two")
    boards[1].refused = "scaling_governor"
    record, _ = measured(link(tmp_path, shells=boards), monkeypatch, IDLE, min="500M")
    assert record.verdict is Verdict.PASS
    assert list(record.settings or ()) == ["dut"]
    assert "the settings of two:onboard could not be read: two does not answer" in record.notes


def test_a_result_that_is_no_pass_has_a_note_about_work_that_excuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = IDLE[0], replace(IDLE[1], others=OtherWork(0.2, (Program("rt", 81, 0.2),)))
    note = "other programs took 20 % of a CPU of two (rt (pid 81) 20 %)"
    record, _ = measured(tmp_path, monkeypatch, some)
    assert (record.verdict, note in record.notes) == (Verdict.FAIL, True)
    record, _ = measured(tmp_path, monkeypatch, some, min="500M")
    assert (record.verdict, note in record.notes) == (Verdict.PASS, False)


def test_retransmits_beside_other_programs_are_excused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, _ = measured(tmp_path, monkeypatch, COMPILING, retransmits="1%")
    assert record.verdict is Verdict.INVALID
    assert "retransmit rate 6.75% is above the limit 1%, but other programs took 50 % of a CPU of two" in record.message
    assert "(cc1plus (pid 812) 50 %)" in record.message
    record, _ = measured(tmp_path, monkeypatch, COMPILING, IDLE, retransmits="1%")
    assert record.verdict is Verdict.FAIL


def test_a_link_that_became_half_duplex_during_the_traffic_is_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Replayed, "duplexes", ("half", "full"))
    record, _ = measured(tmp_path, monkeypatch, IDLE)
    assert record.limited_by is not None
    assert (record.verdict, record.limited_by.text) == (
        Verdict.FAIL,
        "the link of one:onboard runs in half duplex at 1000 Mbit/s",
    )
    assert record.combination.dut_port == "s/p1"


RX = Traffic(Direction.RX, streams=2)
GONE = Tuned("one:onboard", "xps", "all", "", "", SettingOutcome.UNSUPPORTED, "one queue")


@pytest.fixture
def plain_link(tmp_path: Path) -> Link:
    return replace(link_stand_in.link(tmp_path), scale=0.5)


def test_traffic_has_the_id_of_its_metric_and_a_hash_of_its_parameters(plain_link: Link) -> None:
    plain_link.tunings = (GONE,)
    found = link_result(plain_link, RX, MeasurementJudgement(Verdict.PASS, "941 Mbit/s"))
    assert (found.id, found.combination.traffic, found.message) == (
        f"{plain_link.id}/tcp-P2-rx",
        RX.key,
        f"{plain_link.id} 941 Mbit/s",
    )
    assert found.parameters == parameters_hash(RX, 1500, [GONE], 0.5)
    assert found.parameters not in (parameters_hash(RX, 1500, [GONE]), parameters_hash(RX, 1500, (), 0.5))
    assert found.tunings == (GONE,)


def test_a_test_without_goodput_has_its_key_and_no_parameters(plain_link: Link) -> None:
    found = link_result(plain_link, "ping-c10", MeasurementJudgement(Verdict.FAIL, "lost"))
    assert (found.id, found.combination.traffic, found.parameters) == (
        f"{plain_link.id}/ping-c10",
        "ping-c10",
        None,
    )


def test_a_comparison_has_the_hash_of_its_parameters_with_the_settings_of_both_states(plain_link: Link) -> None:
    """State A has been left again, so its setting is not in force any more."""
    plain_link.tried.append(GONE)
    side = SideRecord(a_bps=9e8, b_bps=9e8, change=0.0, interval=(-0.01, 0.01), verdict=Verdict.PASS, why="not slower")
    found = ComparisonRecord(
        id="x", a="A", b="B", why="", tolerance=0.03, error_rate=0.01, pairs=4, turns=(),
        directions={"rx": side}, started="2026-11-23T12:00:00+00:00", seconds=1.0, builds={}, traffic_seconds=1.0,
    )  # fmt: skip
    record = compared_record(plain_link, RX, found, {Side.A: {}, Side.B: {}})
    assert record.parameters == parameters_hash(RX, 1500, [GONE], 0.5)
    assert record.tunings == (GONE,)


needs_iperf3 = pytest.mark.skipif(shutil.which("iperf3") is None, reason="no iperf3 on this machine")
NOWHERE = {"PATH": "/nonexistent"}


def udp(mbps: float) -> Traffic:
    return Traffic(Direction.TX, udp=True, bitrate=Bitrate.mbps(mbps))


SMALL = replace(udp(10), length=200)


@needs_iperf3
def test_loopback_tcp_of_the_peer_is_measured_once_at_full_rate(tmp_path: Path) -> None:
    link = link_stand_in.link(tmp_path)
    throttled = replace(TX, bitrate=Bitrate.mbps(20))
    found, doubts = ceilings(link, throttled, [flow()], Iperf3())
    ((end, most),) = found.items()
    assert end == "two:onboard"
    assert most > Bitrate.mbps(200)
    assert doubts == []
    # Another rate of the same traffic needs no measurement: this link's ends could not even answer.
    silent = replace(link, ends=tuple(replace(one, shell=LocalShell(env=NOWHERE)) for one in link.ends))
    assert ceilings(silent, TX, [flow()], Iperf3()) == ({end: most}, [])


class Steady:
    """Sends nothing, and reports the requested rate."""

    def __init__(self) -> None:
        self.measured: list[Traffic] = []

    def prepare(self, job: TrafficJob) -> None:
        pass

    def measure(self, job: TrafficJob) -> Measurement:
        self.measured.append(job.traffic)
        assert job.traffic.bitrate is not None
        samples = (Sample(0.0, 1.0, round(job.traffic.bitrate.bps / 8)),)
        return Measurement(job.traffic, {Direction.TX: Flow(Direction.TX, samples)})


def test_loopback_udp_is_measured_for_each_rate_and_size(tmp_path: Path) -> None:
    link, tool = link_stand_in.link(tmp_path), Steady()
    found = [ceilings(link, traffic, [flow()], tool) for traffic in (udp(10), udp(40), udp(10), SMALL)]
    assert [most["two:onboard"].bps / 1e6 for most, _ in found] == [10, 40, 10, 10]
    assert [(one.udp, one.bitrate, one.length) for one in tool.measured] == [
        (True, Bitrate.mbps(mbps), length) for mbps, length in ((10, None), (40, None), (10, 200))
    ]


def test_a_failed_loopback_measurement_is_a_note_and_no_error(tmp_path: Path) -> None:
    silent = LocalShell("one", env=NOWHERE)
    link = link_stand_in.link(tmp_path, shells=(silent, LocalShell("two", env=NOWHERE)))
    found, doubts = ceilings(link, TX, [flow()], Iperf3())
    assert found == {}
    (doubt,) = doubts
    assert doubt == "the loopback goodput of two:onboard could not be measured: two has no iperf3"


def test_the_capacity_of_each_measurable_end_is_returned(tmp_path: Path) -> None:
    link = link_stand_in.link(
        tmp_path,
        (("two", "onboard"), ("one", "onboard"), ("two", "pcie")),
        tuple(LocalShell(env=NOWHERE) for _ in range(3)),
        "incast:2",
    )
    # A value known for the lease needs no iperf3. End 2 is another NIC of the device under test and is not measured.
    link.ends[1].session.facts["loopback tcp-P1"] = Bitrate(5e9)
    found, doubts = ceilings(link, TX, [flow(1, 0), flow(2, 0)], Iperf3())
    assert found == {"one:onboard": Bitrate(5e9)}
    assert doubts == []
