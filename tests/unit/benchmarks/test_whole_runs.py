"""benchmarks/verdicts/whole_runs: the product runs as a whole on a simulated board, and its verdicts are counted."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.verdicts.whole_runs import __main__ as command
from benchmarks.verdicts.whole_runs import published
from benchmarks.verdicts.whole_runs.behaviours import KINDS, OWN, STEADY, TABLE, low
from benchmarks.verdicts.whole_runs.board import BOOT_S, Kind, Moment, wanted_port
from benchmarks.verdicts.whole_runs.lab import RUNS_OF_A_DAY, RUNS_OF_FIRST_DAY, SimulatedLab
from benchmarks.verdicts.whole_runs.rows import Cell, Count, cells, count
from pytest_pinet.model.verdict import Verdict

GATES = 10
FIRST = "first connection 4 % low"


def steady(_: Moment) -> float:
    return 1.0


def test_a_steady_link_is_judged_right_in_one_and_three_connections() -> None:
    lab = SimulatedLab(Kind(steady), random.Random(1))
    lab.make_baseline(3)
    assert lab.baseline is not None
    assert len({session.day for session in lab.baseline.sessions}) == 3
    for slower, verdict, connections in ((0, Verdict.PASS, 1), (5, Verdict.FAIL, 3)):
        lab.new_day()
        lab.board.slower = slower
        record = lab.run()
        assert (record.verdict, len(record.directions["tx"].connections)) == (verdict, connections)


def test_a_build_is_judged_right_boot_by_boot() -> None:
    for slower, verdict in ((0, Verdict.PASS), (10, Verdict.FAIL)):
        lab = SimulatedLab(Kind(steady), random.Random(1))
        lab.calibrate()
        series = lab.gate_build(slower)
        assert [one.verdict for one in series.found.values()] == [verdict]
        assert [str(turn.side) for turn in series.turns[:4]] == ["A", "B", "B", "A"]


def test_two_states_are_judged_right() -> None:
    for slower, verdict in ((0, Verdict.PASS), (5, Verdict.FAIL)):
        record = SimulatedLab(Kind(steady), random.Random(1)).compare(slower)
        assert [one.verdict for one in record.directions.values()] == [verdict]


def test_each_connection_has_its_number_the_age_of_the_boot_and_the_traffic_before_it() -> None:
    lab = SimulatedLab(Kind(low("low", 1.0, 0.05, "boot")), random.Random(1))
    lab.make_baseline(1)
    lab.new_day()
    lab.board.slower = 5
    connections = lab.run().directions["tx"].connections
    assert [one.number for one in connections] == [1, 2, 1]
    assert [one.traffic_before_s for one in connections] == pytest.approx([0.0, 3.0, 6.0])
    first = connections[0].boot_age_s
    assert first is not None
    assert BOOT_S + 2 < first < BOOT_S + 5


def test_both_states_of_a_pair_leave_from_the_same_source_port() -> None:
    ports: list[tuple[str, int]] = []

    def look(at: Moment) -> float:
        if (at.side, at.port) not in ports:
            ports.append((at.side, at.port))
        return 1.0

    SimulatedLab(Kind(look), random.Random(1)).compare(0)
    of_a, of_b = ([port for own, port in ports if own == side] for side in "AB")
    assert sorted(of_a) == sorted(of_b)
    assert len(set(of_a)) == len(of_a) > 1


def test_the_behaviours_see_what_the_links_depend_on() -> None:
    seen: list[Moment] = []

    def look(at: Moment) -> float:
        if at.number > len(seen):
            seen.append(at)
        return 1.0

    lab = SimulatedLab(Kind(look), random.Random(1), "soak")
    lab.run()
    assert [one.number for one in seen] == [1, 2]
    assert seen[0].port != seen[1].port
    assert seen[0].boot is seen[1].boot
    assert seen[0].connection is not seen[1].connection
    # At the last sample of each connection: the board warms up with the traffic.
    assert seen[0].celsius < seen[1].celsius
    assert [round(one.traffic_s) for one in seen] == [12, 24]


def test_the_baseline_is_made_as_the_docs_say() -> None:
    lab = SimulatedLab(Kind(steady), random.Random(1))
    assert lab.make_baseline(2)
    verdicts = [point.verdict for point in lab.points]
    assert verdicts == [Verdict.PASS] * (RUNS_OF_FIRST_DAY + RUNS_OF_A_DAY)
    assert [point.of_baseline for point in lab.points] == [False] * RUNS_OF_FIRST_DAY + [True] * RUNS_OF_A_DAY
    assert len({point.boot for point in lab.points}) == len(lab.points)


def test_the_clock_of_the_product_is_simulated_while_it_runs() -> None:
    lab = SimulatedLab(Kind(steady), random.Random(1))
    clock, real = lab.board.clock, time.monotonic
    with clock.running():
        begun = time.monotonic()
        time.sleep(100.0)
        assert time.monotonic() - begun == 100.0
    assert time.monotonic is real


def test_a_source_port_that_the_product_wants_is_used() -> None:
    none: Any = SimpleNamespace(traffic=SimpleNamespace())
    wanted: Any = SimpleNamespace(traffic=SimpleNamespace(cport=40_000))
    assert (wanted_port(none), wanted_port(wanted)) == (None, 40_000)


def test_the_same_seed_gives_the_same_count() -> None:
    cell = Cell("5", "one boot in five 10 % low", 0)
    assert count(cell, GATES, 1) == count(cell, GATES, 1)
    assert count(cell, GATES, 1) != count(cell, GATES, 2)


def test_gates_on_a_level_that_no_run_of_the_history_had_are_apart() -> None:
    found = count(Cell("5", "one day in five 5 % low", 0, days=1), 20, 1)
    assert sum(found.apart.values()) > 0
    assert found.gates + sum(found.apart.values()) == 20


def test_all_rows_of_the_table_and_ten_of_our_own_are_counted() -> None:
    rows = {one.row for one in cells()}
    assert rows == {str(number) for number in range(11)} | {f"own {number}" for number in range(1, 11)}
    assert {one.kind for one in cells()} == set(KINDS) == {*STEADY, *TABLE, *OWN}
    assert len({one.name for one in cells()}) == len(cells())


@pytest.mark.parametrize(("wrong", "missed"), [(6, False), (10, False), (13, True)])
def test_a_cell_is_missed_only_if_its_whole_interval_is_above_one_percent(wrong: int, missed: bool) -> None:
    found = Count(Cell("1", FIRST, 5), 1, {"pass": wrong, "fail": 600 - wrong}, {}, 9.0)
    assert (found.wrong, found.missed) == (wrong, missed)


def test_the_command_counts_one_row(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["whole_runs", "--row", "10", "--gates", "2", "--seed", "5"])
    command.main()
    text = capsys.readouterr().out
    assert text.startswith("seed 5, 2 gates a cell; missed: the whole 95 % interval (Wilson) is above 1 %")
    assert "| 10 | wholly within its start, run without a limit | 2 |" in text
    assert text.count("\n| 10 |") == 2


def test_the_page_has_a_line_for_each_kind_with_the_worst_of_its_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "COUNTED", tmp_path / "counted.json")
    assert published.section(119) == ""
    own = [Count(Cell("1", FIRST, 5, calibrated=known), 1, {"pass": wrong, "fail": 600 - wrong}, {}, 9.0)
           for known, wrong in ((False, 60), (True, 0))]  # fmt: skip
    build = Count(Cell("own 8", "one boot in seven 20 % low", 0, "build"), 1, {"inconclusive": 30, "pass": 570}, {}, 8)
    order = [one.name for one in cells()]
    published.publish([command.as_json(one) for one in (build, *own)], order)
    # A later count of some cells replaces only these.
    published.publish([command.as_json(build)], order)
    text = published.section(119)
    assert "1 of 3 cases of whole runs have certainly more than 1 % wrong verdicts" in text
    assert "seed 1, 600 gates a case" in text
    assert f"| {FIRST} |  |  | **10.0**; 0 |  |" in text
    assert "| one boot in seven 20 % low, gate of builds | 0.0; 5 |  |  |  |" in text
