"""The series of turns of one gate call, and the rounds of a board."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_pinet.ab.boots import MadeBoot
from pytest_pinet.ab.records import changed_record
from pytest_pinet.ab.series import Rules, TurnSeries
from pytest_pinet.config.calibration import ReferenceData
from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.judge.turns import Side, judge_misses, side
from pytest_pinet.measure.traffic_runner import MeasureContext
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.evidence import EndEvidence, ManagementTraffic
from pytest_pinet.model.judgement import FigureJudgement
from pytest_pinet.model.record.change import BuildRecord, TurnRecord
from pytest_pinet.model.traffic import Direction
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.change_head import change_head
from pytest_pinet.report.text_wrap import CONTINUED, wrap
from pytest_pinet.traffic.iperf3 import Iperf3
from tests.support.change_session import ONE_TEST, THREE_TESTS, Bench, bench_with, printed
from tests.support.link_stand_in import TX, flow, link, one_connection
from tests.support.report_records import result


@pytest.mark.parametrize(
    ("misses", "turns", "verdict", "word"),
    [
        ([False, False], 2, "pass", ""),
        ([False, True, True, False], 4, "fail", "missed in 2 of 2 turns of B, and in 0 of 2 of A"),
        ([False, True, False], 3, "pass", "missed in 1 of 2 turns"),
        ([True], 1, "inconclusive", "the known-good build misses the limit, too"),
        ([False, True, True, True], 4, "inconclusive", "the known-good build misses the limit, too"),
        ([False, True], 2, "inconclusive", "too few turns"),
    ],
)
def test_a_limit_that_only_the_new_build_misses_twice_fails(
    misses: list[bool], turns: int, verdict: str, word: str
) -> None:
    """Turns are A B B A B A A B."""
    seen = [(side(turn), missed) for turn, missed in enumerate(misses)]
    for count in range(1, turns):
        assert judge_misses(seen[:count])[0] is None
    found, why = judge_misses(seen, over=True)
    assert found == verdict
    assert word in why


def test_the_answer_has_the_unwrapped_reason_of_a_wrapped_message() -> None:
    why = "pi4b:onboard/pair the median took 3.10 ms, 55 % above the limit 2 ms: missed in 2 of 2 turns of the build"
    message = "\n".join([*wrap(why, hanging=CONTINUED), "  repeat     pytest test_it.py"])
    assert "\n    " in message
    build = BuildRecord(name="new", key="1", release=None, files=(), config=(), cmdline=(), options=(), sysctls=())
    head = change_head(build, build, [result("pi4b:onboard/pair", {}, "fail", message)], accepted=False, turns=4)
    assert [entry.text for entry in head.entries] == [why]


@pytest.mark.parametrize(("stopped", "verdict"), [("none of 33 boots was bad", "pass"), ("", "inconclusive")])
def test_against_accepted_baselines_a_value_that_nothing_judged_is_undecided(stopped: str, verdict: str) -> None:
    share = FigureJudgement(
        "share", "down", 0.0, (0.0,) * 33, Verdict.PASS, "none of 33 boots was bad", stopped=stopped
    )
    boots = result("pi4b:onboard/pair", {}, "pass").replace(figures={"bad_boots": share})
    build = BuildRecord(name="new", key="1", release=None, files=(), config=(), cmdline=(), options=(), sysctls=())
    head = change_head(build, build, [boots], accepted=True, turns=4)
    assert [entry.verdict for entry in head.entries] == [verdict]


UNCOUNTED = "ssh, or an NFS root, of one:onboard uses the interface under test, but its octets were not counted"


class Traffic:
    """Replaces the traffic of one turn: its octets in a second, and the share of it that ssh of the first end had."""

    payload, share = 1_448_000, 0.0

    def __init__(self, context: MeasureContext, lasts_s: float) -> None:
        self.connections: list[Connection] = []
        self.conditions = SimpleNamespace(before=())
        self.management = SimpleNamespace(uncounted=[UNCOUNTED])

    def __enter__(self) -> Traffic:
        return self

    def __exit__(self, *_: object) -> None: ...

    def again(self, *_: object) -> None:
        end = EndEvidence("one:onboard", "eth0", management=ManagementTraffic(1000, 2.0, self.share))
        self.connections.append(replace(one_connection(flow(payload=self.payload)), evidence=(end,)))

    def finish(self, *_: object) -> None: ...


class Measured:
    """A gate call over several boots."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pytest_pinet.ab.series.Runs", Traffic)
        self._patch, self._context = monkeypatch, MeasureContext(link(folder), Iperf3())
        self.series = TurnSeries(TX, Rules(ReferenceData(), 0.01, lambda: 1, 16), 2, {Direction.TX: 0.01})

    def turn(self, side: Side, share: float, payload: int = 1_448_000) -> None:
        """Measure one turn in which ssh had this share of the traffic."""
        self._patch.setattr(Traffic, "share", share)
        self._patch.setattr(Traffic, "payload", payload)
        number = len(self.series.turns) + 1
        turn = TurnRecord(number=number, side=str(side), started_s=0.0, seconds=0.0, running={}, trouble="")
        self.series.take(self._context, MadeBoot("one", turn))

    def notes(self) -> list[str]:
        options = SimpleNamespace(name=str, build=lambda side: None)
        record = changed_record(self.series, options, [])  # type: ignore[arg-type]
        # A node without `ss` is not silent about it.
        assert UNCOUNTED in record.notes
        return [note for note in record.notes if "(at most 0.1 % is allowed)" in note]


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measured:
    return Measured(tmp_path, monkeypatch)


@pytest.mark.parametrize(("share", "notes"), [(0.0009, 0), (0.002, 1)])
def test_a_share_from_a_thousandth_on_is_in_the_notes(measured: Measured, share: float, notes: int) -> None:
    measured.turn(Side.A, share)
    assert len(measured.notes()) == notes


def test_a_share_above_a_hundredth_is_invalid_at_once(measured: Measured) -> None:
    with pytest.raises(InvalidMeasurement, match=r"used its interface, too: 2 % of the measured traffic \(at most 1 %"):
        measured.turn(Side.A, 0.02)


def test_constant_octets_of_ssh_beside_a_slow_build_are_no_trouble(measured: Measured) -> None:
    """B is eight times as slow, so the same octets of ssh are eight times their share of A."""
    measured.turn(Side.A, 0.004)
    measured.turn(Side.B, 0.032, payload=181_000)
    assert [len(turn.kept) for turn in measured.series.turns] == [2, 2]
    (note,) = measured.notes()
    assert "too: 0.4 % of the rate of A (at most 0.1 %" in note


def test_more_octets_of_ssh_beside_a_slow_build_are_invalid(measured: Measured) -> None:
    measured.turn(Side.A, 0.004)
    with pytest.raises(InvalidMeasurement, match=r"used its interface, too: 1\.2 % of the rate of A \(at most 1 %"):
        measured.turn(Side.B, 0.096, payload=181_000)


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Iterator[Bench]:
    with bench_with(pytester, ONE_TEST) as found:
        yield found


def test_an_unchanged_build_passes_and_each_boot_serves_all_tests_of_the_board(
    bench: Bench, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_it=THREE_TESTS)
    result = bench.run()
    result.assert_outcomes(passed=4)
    assert bench.boots == "ABBABAAB"[: len(bench.boots)]
    assert 4 <= len(bench.boots) <= 8
    assert bench.log[:7] == [
        "boot one A",
        "open pi4b:onboard/pair", "measure pi4b:onboard/pair tx A",
        "open pi4b:ax88179/pair", "measure pi4b:ax88179/pair tx A",
        "open pi4b:onboard/pair", "measure pi4b:onboard/pair rx A",
    ]  # fmt: skip
    found = bench.head
    assert (found["verdict"], found["exit"], found["bisect_exit"]) == ("pass", 0, 0)
    assert found["turns"] == len(bench.boots)
    assert bench.verdicts == ["pass"] * 3
    printed(result, "new may be merged: none of 3 metrics is slower than with good.")


def test_an_assertion_of_the_test_counts_once_the_values_are_final(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=ONE_TEST.replace('direction="tx")', 'direction="tx")\n    assert not "really"'))
    result = bench.run()
    result.assert_outcomes(failed=1)
    assert bench.verdicts == ["pass"]
    assert (bench.head["exit"], bench.head["bisect_exit"]) == (3, 125)
    printed(result, "No decision on new: no metric is slower, but 1 test failed for another reason.")


def test_an_exception_in_a_boot_ends_the_test(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=ONE_TEST.replace("    gate.tcp", '    {}["nothing"]\n    gate.tcp'))
    result = bench.run()
    result.assert_outcomes(errors=1)
    assert bench.boots == "A"
    printed(result, "KeyError: 'nothing'")


def test_skips_and_tests_without_a_measurement_cost_one_boot(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it=ONE_TEST.replace("    gate.tcp", "    pytest.skip('not today')\n    gate.tcp")
        + "\n@pytest.mark.pinet(board='pi4b', nic='onboard')\ndef test_link(link):\n    assert link.id\n"
        + "\n@pytest.mark.skip(reason='no')\n@pytest.mark.pinet(board='pi4b', nic='usb')\ndef test_no(link): pass\n"
    )
    result = bench.run()
    result.assert_outcomes(passed=1, skipped=2)
    assert bench.boots == "A"
    assert (bench.head["verdict"], bench.head["exit"]) == ("inconclusive", 3)
    printed(result, "No decision on new: nothing was measured.")


def test_session_fixtures_are_made_once_for_all_boots(bench: Bench, pytester: pytest.Pytester) -> None:
    fixtures = """
import pytest
made = []

@pytest.fixture(scope="session")
def once():
    made.append(1)
    return made

@pytest.fixture
def each():
    made.append("each")
"""
    pytester.makepyfile(
        test_it=fixtures
        + ONE_TEST.replace("(link, gate)", "(link, gate, once, each)")
        + "\ndef test_made():\n    assert made.count(1) == 1 and made.count('each') > 4\n"
    )
    bench.run().assert_outcomes(passed=2)


def test_drops_in_each_turn_of_the_build_under_test_alone_are_its_fault(bench: Bench) -> None:
    bench.plan("PLAN = Plan(drops=lambda side, boot: side is Side.B)")
    result = bench.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert bench.boots == "ABBABAAB"
    (entry,) = bench.head["entries"]
    assert (entry["verdict"], entry["finding"]) == ("fail", "link drops")
    assert entry["text"] == (
        "the link dropped in 4 of 4 turns of the build under test, and in 0 of 4 of the known-good build"
    )


@pytest.mark.parametrize("drops", ["boot == 1", "boot == 3", "True"])
def test_drops_that_the_known_good_build_has_too_or_not_each_turn_blame_no_build(bench: Bench, drops: str) -> None:
    bench.plan(f"PLAN = Plan(drops=lambda side, boot: {drops})")
    assert bench.run().ret == pytest.ExitCode.OK
    assert bench.verdicts == ["pass"]


def test_drops_in_most_turns_of_the_build_under_test_get_more_turns_until_they_are_certain(bench: Bench) -> None:
    bench.plan("PLAN = Plan(drops=lambda side, boot: side is Side.B and boot != 5)")
    bench.run()
    assert len(bench.boots) > 8
    (entry,) = bench.head["entries"]
    assert (entry["verdict"], entry["finding"]) == ("fail", "link drops")
