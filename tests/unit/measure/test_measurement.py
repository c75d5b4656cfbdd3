"""A connection with other work or stolen time is repeated, but not for ever; the ends are read before the traffic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.lab.link.link import Link
from pytest_pinet.model.evidence import EndEvidence, OtherWork, ProcessorLoad, Program
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import Verdict
from tests.support.link_stand_in import link
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
