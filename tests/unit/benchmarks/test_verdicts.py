"""benchmarks/verdicts with few gates. tests/soak/test_verdicts.py has error rates of many."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from statistics import correlation, fmean, stdev
from typing import Any

import pytest

import benchmarks.verdicts.__main__ as verdicts
import benchmarks.verdicts.page as verdicts_page
from benchmarks.verdicts import store
from benchmarks.verdicts.faults import FAULTS, shown
from benchmarks.verdicts.harder_links import HARDER, Changing
from benchmarks.verdicts.links import LINKS, Session, Stalling
from benchmarks.verdicts.ours import baseline, gate
from benchmarks.verdicts.page import page, profiles
from benchmarks.verdicts.recorded import recordings
from benchmarks.verdicts.rivals import RIVALS, Ending
from benchmarks.verdicts.trials import Cell, ideal, trial, turns, wilson
from benchmarks.verdicts.unseen import UNSEEN
from pytest_pinet.judge.difference import Relation
from pytest_pinet.judge.two_levels import Unit, two_levels

GATES = 20
DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("rule", ["pinet, 1 day", "pinet, 8 days"])
@pytest.mark.parametrize("link", ["quiet", "busy"])
def test_quiet_and_busy_links_are_judged_right_in_3_and_9_seconds(link: str, rule: str) -> None:
    cells = {case: trial(link, case, rule, GATES) for case in ("0", "1", "5", "10", "-10")}
    assert {case: cell.wrong for case, cell in cells.items()} == dict.fromkeys(cells, 0.0)
    assert cells["0"].median_s == pytest.approx(3)
    assert cells["5"].median_s == pytest.approx(9)


def test_the_rivals_are_what_their_sources_say() -> None:
    faster = {rule: trial("quiet", "-10", rule, 4).percent(Ending.FAIL) for rule in RIVALS}
    assert faster == {**dict.fromkeys(RIVALS, 0.0), "LNST 5x60 s": 100.0}
    assert {rule: trial("quiet", "0", rule, 4).median_s for rule in RIVALS} == {
        "LNST 5x60 s": 300,
        "-t 65 -O 5": 70,
        "kernel 10 s": 10,
        "fixed 10 s": 10,
        "DTS 5 s": 5,
        "DTS 5x5 s": 25,
    }


def test_states_in_turn_are_told_apart_in_a_lab_that_drifts() -> None:
    assert turns("drift", 5, 25, known=True).results[Relation.SLOWER] == 100
    assert turns("drift", 0, 25, known=True).results[Relation.SLOWER] == 0
    assert trial("drift", "0", "LNST 5x60 s", 25).percent(Ending.FAIL) > 10


def test_faults_are_named_not_called_slow() -> None:
    ours = {fault.fault: fault for fault in shown() if fault.rule == "pinet"}
    told = ours["link down for 2 s, seen by the observer"].verdict
    assert told.startswith("marginal: ")
    assert "link dropped for 2.0 s, 1.0 s after the start" in told
    told = ours["link down for 2 s, seen in samples only"].verdict
    assert told.startswith("marginal: ")
    assert "below the limit in 1 of 3 connections, but the repetitions passed" in told
    # These faults are not simulated: tests of the real gate cover them.
    proven = [fault for fault in FAULTS if fault.proven]
    assert [ours[fault.name].seconds for fault in proven] == [None, None]
    assert all((Path(__file__).parents[3] / fault.proven).is_file() for fault in proven)
    rivals = [fault.verdict for fault in shown() if fault.rule == "fixed 10 s"]
    assert rivals == [Ending.FAIL] * 4


def test_tuning_and_reporting_use_different_runs() -> None:
    for name in ("quiet", "busy", "unshaped"):
        tuning, reported = recordings(name, False), recordings(name, True)
        assert set(tuning) == set(reported)
        for reduction, runs in reported.items():
            assert not set(runs) & set(tuning[reduction])


@pytest.mark.parametrize(("link", "second"), [("s1", 0.007), ("s2", 0.035), ("s3", 0.02)])
def test_the_models_have_the_second_to_second_noise_that_they_claim(link: str, second: float) -> None:
    rates = LINKS[link].session(0, random.Random(1)).connection(3000)
    means = [fmean(rates[i : i + 10]) for i in range(0, len(rates), 10)]
    assert stdev(means) / fmean(means) == pytest.approx(second, rel=0.1)


def test_the_stalling_link_runs_at_half_the_rate_for_a_fifth_of_the_time() -> None:
    class Steady(Session):
        def connection(self, seconds: int) -> list[float]:
            return [940.0] * (10 * seconds)

    rates = Stalling(Steady(), 0.2, random.Random(1)).connection(3000)
    assert set(rates) == {470.0, 940.0}
    assert rates.count(470.0) / len(rates) == pytest.approx(0.2, abs=0.02)


def test_the_same_seed_gives_the_same_cell() -> None:
    assert trial("s1", "2", "pinet, 8 days", 10) == trial("s1", "2", "pinet, 8 days", 10)
    assert trial("s2", "2", "pinet, 8 days", 10, seed=2) != trial("s2", "2", "pinet, 8 days", 10)


@pytest.mark.parametrize(
    ("link", "wrong"),
    [
        ("connections on two levels, 5 %", 0),
        ("connections on two levels, 10 %", 0),
        ("slow starts of 1 to 4 s", 0),
        ("days 0.8 %", 0),
    ],
)
def test_harder_links_are_judged_right_with_eight_days(link: str, wrong: int) -> None:
    for case in ("0", "5"):
        cell = trial(link, case, "pinet, 8 days", GATES, seed=2)
        assert cell.wrong == wrong
        assert cell.percent(Ending.INCONCLUSIVE) <= ideal(link, case, 8) + 20


@pytest.mark.parametrize("link", ["s2", "AR(1) 0.98, 3 %"])
def test_rough_links_are_decided_nearly_as_often_as_by_the_ideal_rule(link: str) -> None:
    cell = trial(link, "5", "pinet, 8 days", GATES, seed=2)
    assert cell.wrong == 0
    assert cell.percent(Ending.INCONCLUSIVE) <= ideal(link, "5", 8) + 15


def test_runs_of_a_rough_link_have_as_many_connections_as_its_verdicts_need() -> None:
    source = random.Random(4)
    rough = [baseline(lambda: LINKS["s2"].session(0, source)) for _ in range(8)]
    first = [run.bps for one in rough for run in one.runs[:3]]
    later = [run.bps for one in rough for run in one.runs[3:]]
    assert stdev(later) < stdev(first) / 2


def test_a_baseline_of_boots_on_two_levels_has_three_boots_a_day() -> None:
    source = random.Random(1)
    for days, runs in ((1, 2), (8, 1)):
        own = baseline(lambda: HARDER["boots on two levels, 10 %"].session(0, source), days)
        boots: dict[str, list[float]] = {}
        for place, run in own.placed:
            boots.setdefault(place.boot, []).append(run.bps)
        assert [len(each) for each in boots.values()] == [runs] * 3 * days
        # Runs of one boot share its level; the levels are 10 % apart.
        assert all(max(each) < 1.02 * min(each) for each in boots.values())
    assert max(run.bps for run in own.runs) > 1.08 * min(run.bps for run in own.runs)
    levels = two_levels(own)
    assert levels is not None
    assert (levels.unit, levels.count) == (Unit.BOOT, 24)


def test_the_page_has_cells_of_boots_on_two_levels() -> None:
    wanted = verdicts.parts()
    for apart in (5, 10):
        for rule in ("pinet, 1 day", "pinet, 8 days"):
            assert {("cell", f"boots on two levels, {apart} %", case, rule) for case in ("0", "5", "10")} <= {*wanted}


def test_the_interval_of_a_share_contains_it() -> None:
    assert wilson(0, 600) == pytest.approx((0.0, 0.636), abs=0.01)
    assert wilson(6, 600) == pytest.approx((0.46, 2.17), abs=0.02)


def test_the_ideal_rule_knows_the_spread() -> None:
    assert ideal("quiet", "0", 1) == pytest.approx(0, abs=0.01)
    # Both links have the same days, in two models: of sd 2 %, and in a lab that drifts.
    assert ideal("days 2 %", "0", 8) == pytest.approx(48, abs=3)
    assert ideal("drift", "0", 8) == pytest.approx(48, abs=3)
    assert ideal("days 2 %", "5", 1) > ideal("days 2 %", "5", 8)


def test_the_page_says_which_cells_are_above_the_target_and_whether_by_chance() -> None:
    endings = {"fail": 11, "inconclusive": 39, "pass": 550}
    above = Cell("days 2 %", "1", "pinet, 8 days", 600, endings, 9.0, 9.5)
    good = Cell("quiet", "0", "pinet, 8 days", 600, {"pass": 600}, 3.0, 3.1)
    few = Cell("days 2 %", "0", "pinet, 1 day", 600, {"fail": 80, "pass": 520}, 3.0, 3.0)
    at_twelve = Cell("days 2 %", "5", "pinet, 1 day", 600, {"pass": 72, "fail": 528}, 3.0, 3.0)
    text = page([good, above, few, at_twelve], [], {}, [], 60, 1, "on 2026-11-27", missing=2)
    first, rest = text.split("\n## ", maxsplit=1)
    assert first.startswith(
        "# What the gate's verdicts are worth\n\nHow many verdicts of the gate are wrong? At most 1 % should be."
    )
    assert "**1 of 2 cells have at most 1 % wrong verdicts**, if the baseline spans\neight days" in first
    assert "at most 0.8 %. 1 of them have at most 10 wrong\nverdicts of 600." in first
    # What is not reached stands on the first screen, each with its number.
    assert "- [1 of these cells](#cells-above-the-target) have more than 1 % wrong verdicts." in first
    assert (
        "- If the baseline has fewer days than the link needs, up to 13.3 % are wrong\n"
        "  (days 2 %, unchanged, pinet, 1 day). 2 of 2 such cells have 12 % or more." in first
    )
    assert "- With eight days, profile `standard` leaves more gates" in first
    assert "by more than 15\n  percentage points in 0 of 2 cells." in first
    assert "- 2 of 6 cells are not counted yet" in first
    assert len(first.splitlines()) < 25
    assert rest.startswith("Cells above the target")
    assert "| days 2 % | 1 % slower | pinet, 8 days | 1.8 | 1.0 to 3.3 |" in rest
    assert "Cells above 10 of 600: 1. Cells whose 95 % interval lies above 1 %: 1." in rest
    assert "| days 2 % | unchanged | pinet, 1 day | 13.3 | 10.8 to 16.3 |" in rest
    assert "on 2026-11-27.\nThe time is simulated" in rest


def test_links_that_the_shortest_pass_cannot_see_are_named() -> None:
    """A fifth of their seconds runs at half rate."""
    standard, soak = (
        Cell("quiet", "stall20", f"{profile}, 8 days", 600, {"pass": wrong, "fail": 600 - wrong}, 3.0, 3.0)
        for profile, wrong in (("pinet", 300), ("soak", 5))
    )
    first, _ = page([standard, soak], [], {}, [], 60, 1, "on 2026-11-27").split("\n## ", maxsplit=1)
    assert "passes more than 1 % of its gates without a flag in\n  1 of 2 cells (pinet, 8 days)." in first


def test_cells_above_the_target_of_links_that_the_judge_was_not_made_for_are_not_reached_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (
        "one day in four          -0 %  pinet, 8 days  wrong  3.3 % (2.2 to 5.1)  inconclusive  32.0 %  median 9 s\n"
        "one day in four          -5 %  pinet, 8 days  wrong  1.0 % (0.5 to 2.2)  inconclusive  68.3 %  median 9 s\n"
    )
    (tmp_path / "unseen.txt").write_text(f"600 gates a cell, seed 21, on 2026-11-28\n{lines}")
    monkeypatch.setattr(verdicts_page, "UNSEEN", tmp_path / "unseen.txt")
    first, _ = page([], [], {}, [], 60, 1, "on 2026-11-27").split("\n## ", maxsplit=1)
    assert (
        "- Of the 2 cells of\n"
        "  [links that the judge was not made for](#links-that-the-judge-was-not-made-for),\n"
        "  1 have more than 1 % wrong verdicts (*one day in four*, unchanged, pinet, 8 days: 3.3 %).\n" in first
    )


def test_the_page_compares_the_seconds_with_those_before_days_were_known() -> None:
    cell = Cell("quiet", "0", "pinet, 1 day", 600, {"pass": 600}, 3.0, 3.9)
    mean = json.loads(verdicts_page.RECOUNTED.read_text())["seconds"]["mean"]["quiet"]["0"]
    text = page([cell], [], {}, [], 60, 1, "on 2026-11-27")
    assert f"| quiet, recorded | unchanged | {mean:.1f} | 3.9 ({3.9 / mean:.2f} times) |  |" in text


def test_a_cell_of_the_page_is_short() -> None:
    cell = Cell("quiet", "0", "pinet, 8 days", 600, {"fail": 12, "inconclusive": 30, "flagged": 60}, 3.0, 3.25)
    text = page([cell], [], {}, [], 60, 1, "on 2026-11-27")
    assert "| quiet, recorded | unchanged |  |  | **2.0** (1.1 to 3.5); 5 (0); 3 / 3.2 s; flagged 10 |  |" in text


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = [("cell", "quiet", case, "pinet, 8 days") for case in ("0", "5", "10")]
    monkeypatch.setattr(verdicts, "parts", lambda: few)
    file = tmp_path / "cells.jsonl"
    assert verdicts._run(2, 1, file, -1.0, 1) == {}
    whole = verdicts._run(2, 1, file, 1e9, 1)
    assert list(whole) == few
    assert verdicts._run(2, 1, file, -1.0, 1) == whole
    assert verdicts._run(2, 2, file, -1.0, 1) == {}


def test_soak_finds_a_change_in_mid_run_that_standard_cannot_see() -> None:
    source = random.Random(9)
    changing = Changing(LINKS["quiet"], 0.1, 10.0)
    for _ in range(20):
        own = baseline(lambda: LINKS["quiet"].session(0, source))
        assert gate(changing.session(0, source), own, "standard").ending is Ending.PASS
        assert gate(changing.session(0, source), own, "soak").ending is Ending.FAIL
    assert gate(changing.session(0, source), own, "full").ending is Ending.FAIL


def test_days_that_wander_are_like_their_neighbours() -> None:
    source = random.Random(3)
    link = UNSEEN["wandering far"]
    days = [math.log(fmean(link.session(0, source).connection(1))) for _ in range(1000)]
    assert correlation(days[:-1], days[1:]) == pytest.approx(0.5, abs=0.1)


def test_the_reference_has_the_table_of_profiles_and_no_other_page_has_one() -> None:
    pages = {path.name: path.read_text() for path in DOCS.rglob("*.md")}
    assert profiles() in pages["tests.md"]
    assert [name for name, text in pages.items() if "\n| profile |" in text] == ["tests.md"]


def test_what_was_counted_by_hand_comes_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = json.loads(verdicts_page.RECOUNTED.read_text())
    counted["boots"]["failed"]["1"] = 77
    counted["cell"]["seeds"] = {"41": {"gates": 500, "wrong": 7}}
    (tmp_path / "recounted.json").write_text(json.dumps(counted))
    monkeypatch.setattr(verdicts_page, "RECOUNTED", tmp_path / "recounted.json")
    cells = [Cell("quiet", "0", f"pinet, {days}", 600, {"fail": 90}, 3.0, 3.25) for days in ("8 days", "1 day")]
    cells.append(Cell("days 2 %", "0", "pinet, 1 day", 600, {"fail": 90}, 3.0, 3.25))
    text = page(cells, [], {}, [], 60, 1, "on 2026-11-27")
    assert "each number of boots of one day, 2026-11-28)\n77, 13, 6 and 4 % failed" in text
    assert ": quiet, in a lab that drifts, 1 % slower:\n7 of 500 (seed 41) wrong.\n" in text


def test_the_file_of_results_is_read_once_for_several_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, kept, read = tmp_path / "verdicts.jsonl", store.kept, 0
    parts: list[store.Part] = [("cell", "quiet", case, "pinet, 1 day") for case in ("0", "5", "10")]
    for part in parts:
        store.result(part, 2, file)

    def counted(*own: Any) -> Any:
        nonlocal read
        read += 1
        return kept(*own)

    monkeypatch.setattr(store, "kept", counted)
    assert [store.result(part, 2, file)["case"] for part in parts * 3] == ["0", "5", "10"] * 3
    assert read <= 1
    # Another process counts, too.
    store.keep(file, parts[0], 9, store.SEED, {"case": "of another process"})
    assert store.result(parts[0], 9, file) == {"case": "of another process"}


def test_a_part_is_counted_once_until_the_code_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "verdicts.jsonl"
    for part in (("cell", "quiet", "0", "pinet, 1 day"), ("turns", "quiet", "5", "no")):
        first = store.result(part, 2, file)
        assert store.result(part, 2, file) == first
        store.result(part, 3, file)
    assert len(file.read_text().splitlines()) == 4
    assert store.as_turns(first).slower == 5
    assert set(store.kept(file, store.SEED)) == {
        (("cell", "quiet", "0", "pinet, 1 day"), 2),
        (("cell", "quiet", "0", "pinet, 1 day"), 3),
        (("turns", "quiet", "5", "no"), 2),
        (("turns", "quiet", "5", "no"), 3),
    }
    assert not store.kept(file, store.SEED + 1)
    monkeypatch.setattr(store, "code", lambda: "other")
    assert not store.kept(file, store.SEED)


def test_only_files_that_decide_about_the_results_make_them_old() -> None:
    names = {str(file.relative_to(store.ROOT)) for file in store.deciding_files()}
    assert {f"pytest_pinet/judge/{name}.py" for name in ("gate", "rules", "difference", "days")} < names
    assert {"benchmarks/verdicts/trials.py", "benchmarks/verdicts/links.py"} < names
    # The simulation uses no values of exact boards.
    assert names.isdisjoint({"pytest_pinet/judge/exact.py", "benchmarks/verdicts/page.py"})
