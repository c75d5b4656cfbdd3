from __future__ import annotations

import pytest

from pytest_pinet.judge.profile import goodput_limit, most_specific
from pytest_pinet.model.limits import Limit, Metric, Origin, Scope, parse_limit
from pytest_pinet.model.quantities import Bitrate, Share
from pytest_pinet.model.traffic import Direction
from tests.support.link_stand_in import key


def limit(
    source: str,
    board: str = "*",
    nic: str = "*",
    topology: str = "*",
    direction: Direction | None = None,
    origin: Origin = Origin.LAB_FILE,
    both_ways: bool | None = None,
) -> Limit:
    return Limit(Share(0.9), origin, source, Scope(board, nic, topology, direction, both_ways))


def winner(*limits: Limit, direction: Direction = Direction.TX, both_ways: bool = False) -> str | None:
    found = most_specific(limits, key("pi4b", "ax88179", direction, both_ways))
    return None if found is None else found.source


def test_no_limit_applies_without_limits() -> None:
    assert winner() is None
    assert winner(limit("other", board="pi5")) is None


def test_the_most_specific_limit_wins_in_any_order() -> None:
    general, board, both = limit("general"), limit("board", board="pi4b"), limit("both", board="pi4b", nic="ax88179")
    assert winner(both, board, general) == "both"
    assert winner(general, both, board) == "both"
    assert winner(general, board) == "board"


def test_a_name_is_more_specific_than_a_glob() -> None:
    assert winner(limit("name", board="pi4b"), limit("glob", board="pi4*")) == "name"
    assert winner(limit("name", board="pi4b"), limit("two globs", board="pi4*", nic="ax*")) == "name"
    assert winner(limit("glob", board="pi4*"), limit("everything")) == "glob"


def test_a_direction_makes_a_limit_more_specific() -> None:
    directed, general = limit("tx", board="pi4b", direction=Direction.TX), limit("both", board="pi4b")
    assert winner(directed, general) == "tx"
    assert winner(directed, general, direction=Direction.RX) == "both"


def test_a_limit_of_runs_both_ways_does_not_judge_one_way() -> None:
    one_way, both = limit("one way", direction=Direction.TX, both_ways=False), limit("both ways", both_ways=True)
    assert winner(one_way, both) == "one way"
    assert winner(one_way, both, both_ways=True) == "both ways"
    assert winner(one_way, both_ways=True) is None


def test_a_direction_of_runs_both_ways_is_more_specific_still() -> None:
    both, send = limit("bidir", both_ways=True), limit("bidir-tx", direction=Direction.TX, both_ways=True)
    assert winner(both, send, limit("any"), both_ways=True) == "bidir-tx"
    assert winner(both, send, limit("any"), direction=Direction.RX, both_ways=True) == "bidir"
    assert winner(limit("either", direction=Direction.TX), both_ways=True) == "either"


def test_a_marker_beats_the_lab_file_only_when_as_specific() -> None:
    marker = limit("marker", origin=Origin.MARKER)
    assert winner(marker, limit("file")) == "marker"
    assert winner(marker, limit("file", board="pi4b")) == "file"


def test_the_command_line_beats_everything() -> None:
    assert winner(limit("option", origin=Origin.COMMAND_LINE), limit("file", "pi4b", "ax88179", "pair")) == "option"


def test_the_last_of_equally_specific_limits_wins() -> None:
    assert winner(limit("first"), limit("second")) == "second"


@pytest.mark.parametrize("board", ["pi4b", "pi4*", "pi?b", "pi[34]b"])
def test_selectors_are_globs(board: str) -> None:
    assert winner(limit("glob", board=board)) == "glob"


def test_a_call_overrides_files_and_the_command_line_overrides_a_call() -> None:
    file = limit("file", "pi4b", "ax88179", "pair", Direction.TX, both_ways=True)
    call = limit("call", "pi4b", "ax88179", "pair", origin=Origin.CALL)
    assert winner(file, call, both_ways=True) == "call"
    assert winner(call, limit("option", origin=Origin.COMMAND_LINE)) == "option"


def bound(
    metric: Metric, value: str, source: str, origin: Origin = Origin.LAB_FILE, board: str = "*", nic: str = "*"
) -> Limit:
    return parse_limit(metric, value, origin, source, Scope(board, nic))


def judging(*limits: Limit, baseline_mbps: float | None = 940, metrics: tuple[Metric, ...] = (Metric.GOODPUT,)) -> str:
    baseline = None if baseline_mbps is None else Bitrate.mbps(baseline_mbps)
    found = goodput_limit(limits, key("pi4b", "onboard"), Bitrate.mbps(941.5), baseline, metrics)
    return "nothing" if found is None else found.source


FLOOR = bound(Metric.GOODPUT, "94%", "floor")
TOLERANCE = bound(Metric.TOLERANCE, "3%", "tolerance")


def test_the_stricter_of_minimum_and_tolerance_judges() -> None:
    assert judging(FLOOR, TOLERANCE, baseline_mbps=940) == "tolerance"  # 912 above 885
    assert judging(TOLERANCE, FLOOR, baseline_mbps=900) == "floor"  # 873 below 885


def test_a_specific_minimum_does_not_hide_a_regression_from_the_baseline() -> None:
    assert judging(bound(Metric.GOODPUT, "94%", "floor", board="pi4b", nic="onboard"), TOLERANCE) == "tolerance"


def test_the_most_specific_of_several_tolerances_wins() -> None:
    own = bound(Metric.TOLERANCE, "1%", "own", board="pi4b")
    loose = bound(Metric.TOLERANCE, "9%", "loose", board="pi4b", nic="onboard")
    assert judging(own, TOLERANCE) == "own"
    assert judging(FLOOR, own, loose, TOLERANCE) == "floor"  # 9 % below 940 is less than the floor


def test_a_tolerance_needs_a_baseline_to_judge() -> None:
    assert judging(FLOOR, TOLERANCE, baseline_mbps=None) == "floor"
    assert judging(TOLERANCE, baseline_mbps=None) == "nothing"


def test_a_limit_of_the_call_or_command_line_overrides_the_other_kind() -> None:
    option = bound(Metric.GOODPUT, "50%", "option", Origin.COMMAND_LINE)
    call = bound(Metric.TOLERANCE, "30%", "call", Origin.CALL)
    assert judging(option, TOLERANCE) == "option"
    assert judging(FLOOR, call) == "call"
    assert judging(option, call) == "option"


def test_a_sum_judges_without_a_minimum() -> None:
    total = bound(Metric.SUM, "900 Mbit/s", "sum")
    assert judging(total, metrics=(Metric.GOODPUT, Metric.SUM)) == "sum"
    assert judging(total, FLOOR, metrics=(Metric.GOODPUT, Metric.SUM)) == "floor"
    assert judging(total) == "nothing"
