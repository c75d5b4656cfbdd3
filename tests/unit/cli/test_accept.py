"""``pinet accept``: which runs can become a baseline, and the written file."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import pytest_pinet
from pytest_pinet.cli import main, pinet
from pytest_pinet.config import labfile
from pytest_pinet.config.baselines import load_baselines
from pytest_pinet.history.accepting import candidate, family_of
from pytest_pinet.history.points import PointList
from pytest_pinet.history.trends import trend
from pytest_pinet.judge.baseline import compare
from pytest_pinet.judge.difference import Relation
from pytest_pinet.model.quantities import DEFAULT_TOLERANCE, Bitrate, Share, Tolerance
from pytest_pinet.model.record.result import RunRecord
from tests.support.history_records import BEGINS, FIGURE, day, keep, points_in, with_result
from tests.support.two_boards import two_boards

LAB = two_boards("name: virtual")
TODAY = date(2026, 11, 22)


def nights(count: int = 6, begin: int = 0, **more: Any) -> list[RunRecord]:
    return [day(number, 941.0 + number % 3 * 0.1, **more) for number in range(begin, begin + count)]


def moved(run: RunRecord, hours: int) -> RunRecord:
    """Return the run some hours later, as a run of its own."""
    started = (datetime.fromisoformat(run.started) + timedelta(hours=hours)).isoformat()
    session = f"{(run.session or '')[8:]}{hours:08x}"
    return with_result(run, started=started).replace(started=started, session=session)


def accepted(
    records: Sequence[RunRecord], build: str = "", least: int = 5, tolerance: Tolerance = DEFAULT_TOLERANCE
) -> Any:
    points = PointList(point for point in points_in(records) if point.direction)
    return candidate(trend(FIGURE, "virtual", points), TODAY, "new bench", build, least, tolerance)


def test_good_runs_make_a_baseline() -> None:
    found = accepted(nights())
    assert str(found.baseline.value) == "941.1 Mbit/s"
    assert [run.bps / 1e6 for run in found.baseline.runs] == pytest.approx([941.0, 941.1, 941.2] * 2)
    assert found.baseline.build == {"driver": "bcmgenet", "firmware": None, "uname": "Linux 6.12.25-v8+ #1 SMP aarch64"}
    assert (found.baseline.date, found.baseline.reason) == (TODAY, "new bench")
    assert found.spread == pytest.approx(0.2 / 941, rel=1e-3)
    assert found.refused == {}


@pytest.mark.parametrize("verdict", ["fail", "marginal", "inconclusive"])
def test_a_run_that_did_not_pass_shows_the_spread_of_its_build(verdict: str) -> None:
    """Without these runs, only the lucky ones of an unchanged link would count, and its spread would seem too small."""
    found = accepted([*nights(5), day(5, 938, verdict, state="cleared")])
    assert min(run.bps for run in found.baseline.runs) == pytest.approx(938e6)
    assert found.refused == {}


@pytest.mark.parametrize("verdict", ["fail", "marginal", "inconclusive", "invalid"])
def test_a_run_that_did_not_pass_does_not_count_for_another_build(verdict: str) -> None:
    found = accepted([*nights(5), day(5, 938, verdict, uname="Linux 6.12.99")])
    assert len(found.baseline.runs) == 5
    assert found.refused == {verdict: 1}


def test_a_run_far_below_all_others_shows_the_spread_of_its_build() -> None:
    found = accepted([*nights(5), day(5, 850, "fail")])
    assert found.refused == {}
    assert min(run.bps for run in found.baseline.runs) == pytest.approx(850e6)


def test_runs_that_all_failed_make_no_baseline() -> None:
    assert accepted(nights(8, verdict="fail")).baseline is None


def test_an_improved_run_counts() -> None:
    assert len(accepted(nights(5, verdict="improved")).baseline.runs) == 5


def test_a_result_that_a_run_measured_twice_does_not_count() -> None:
    once = day(5)
    twice = once.replace(results=once.results * 2)
    assert accepted([*nights(5), twice]).refused == {"repeated": 2}


def test_a_run_with_an_excluded_connection_does_not_count() -> None:
    (one,) = day(5).results[0].directions["tx"].connections
    dropped = [one, replace(one, excluded="the link dropped")]
    assert accepted([*nights(5), day(5, connections=dropped)]).refused == {"repeated": 1}


def test_a_run_within_the_slow_start_of_its_link_does_not_count() -> None:
    """Connections stay at 60 % for up to 4 s: one of 3 s may show nothing else, and only the others tell."""
    (one,) = day(5).results[0].directions["tx"].connections
    shows = replace(one, seconds=1.2, warmup_s=1.8, slow_start_s=1.8)
    low = replace(one, goodput_bps=565e6, seconds=2.5)
    hidden = [day(number, 565.0, connections=[low]) for number in (6, 7)]
    found = accepted([*nights(5), day(5, 941.0, connections=[shows]), *hidden])
    assert min(run.bps for run in found.baseline.runs) == pytest.approx(941e6)
    assert found.refused == {"within the slow start of its connections": 2}


def test_a_run_of_a_dirty_build_does_not_count() -> None:
    assert accepted([*nights(5), day(5, uname="Linux 6.12.25-v8+-dirty #2")]).refused == {"of a dirty build": 1}


def test_an_interrupted_run_does_not_count() -> None:
    interrupted = day(5).replace(complete=False)
    assert accepted([*nights(5), interrupted]).refused == {"interrupted run": 1}


def test_runs_before_a_level_change_do_not_count() -> None:
    found = accepted([*nights(30), *(day(number, 980 + number % 3) for number in range(30, 40))])
    assert len(found.baseline.runs) == 10
    assert found.baseline.value.bps > 979e6
    assert found.refused == {"before the present level was first seen": 30}


def test_a_level_that_was_seen_before_is_kept() -> None:
    """One night in five is low: the lower level is part of the unchanged link, whichever comes last."""
    for last in (941, 850):
        levels = [941] * 12 + [850] * 12 + [941] * 12 + [850] * 12
        found = accepted([day(number, float(mbps)) for number, mbps in enumerate([*levels, last])])
        assert {round(run.bps / 1e6) for run in found.baseline.runs} == {941, 850}


def test_only_the_newest_build_counts_if_it_has_enough_runs() -> None:
    newer = [day(number, uname="Linux 6.12.26") for number in range(10, 16)]
    assert len(accepted([*nights(6), *newer]).baseline.runs) == 6
    few = accepted([*nights(6), *newer[:3]]).baseline
    assert len(few.runs) == 9
    assert few.build["uname"] == "Linux 6.12.25-v8+ #1 SMP aarch64 to Linux 6.12.26"


def test_option_build_selects_a_build() -> None:
    newer = [day(number, uname="Linux 6.12.26") for number in range(10, 16)]
    found = accepted([*nights(6), *newer], build="6.12.25")
    assert found.refused == {"of a build other than '6.12.25'": 6}


def test_a_baseline_has_the_newest_runs_of_its_newest_days() -> None:
    baseline = accepted(nights(50)).baseline
    assert [one.day for one in baseline.sessions] == [BEGINS.date() + timedelta(days=n) for n in range(35, 50)]


def test_a_day_has_at_most_three_runs_beside_other_days() -> None:
    many = [moved(night, hours=hour) for night in nights(3) for hour in range(6)]
    assert [one.runs for one in accepted(many).baseline.sessions] == [3, 3, 3]
    assert [one.runs for one in accepted(many[:6]).baseline.sessions] == [6]


def several(night: RunRecord, places: Sequence[tuple[int, float, float]]) -> RunRecord:
    """Return the run with connections of these numbers since the link-up, traffic before them, and goodput (Mbit/s)."""
    (one,) = night.results[0].directions["tx"].connections
    own = [
        replace(one, number=number, traffic_before_s=before_s, goodput_bps=mbps * 1e6)
        for number, before_s, mbps in places
    ]
    return with_result(night, directions={"tx": night.results[0].directions["tx"].replace(connections=own)})


def test_the_newest_runs_with_several_connections_are_kept() -> None:
    """Gated runs that pass have one connection: later ones would have no counterpart after fifteen days."""
    first = [several(one, ((1, 0, 941), (2, 3, 941), (3, 6, 941))) for one in nights(5)]
    assert [one.day for one in accepted([*first, *nights(20, begin=5)]).baseline.sessions if one.runs == 3] == [
        BEGINS.date() + timedelta(days=number) for number in (2, 3, 4)
    ]


def test_a_link_up_counts_once_in_the_value() -> None:
    """A low link-up has more connections: its run takes longer to be judged."""
    low = several(moved(day(5), hours=1), ((1, 0, 841), (2, 3, 841), (3, 6, 841)))
    high = several(with_result(day(5), link_up="9"), ((1, 0, 941),))
    assert accepted([*nights(5), high, low]).baseline.value.bps == pytest.approx((5 * 941.1 + 891) / 6 * 1e6, rel=1e-3)


def test_the_link_up_of_a_suspicion_is_one_of_its_own() -> None:
    night = several(with_result(day(5), link_up="9"), ((1, 0, 941), (2, 3, 941), (1, 6, 901)))
    own = accepted([*nights(5), night]).baseline.sessions[5:]
    assert [(one.number, one.runs) for one in own] == [(1, 2), (1, 1)]
    assert own[0].link_up != own[1].link_up


def test_a_baseline_numbers_boots_and_link_ups() -> None:
    places = [("a1", "2"), ("a1", "2"), ("a1", "4"), ("b2", "2"), ("", "")]
    runs = [
        with_result(moved(day(0), hours=hour), boot=boot or None, link_up=link_up or None)
        for hour, (boot, link_up) in enumerate(places)
    ]
    found = [(one.boot, one.link_up, one.runs) for one in accepted(runs).baseline.sessions]
    assert found == [(1, 1, 2), (1, 2, 1), (2, 3, 1), (3, 4, 1)]


def test_a_bench_whose_days_differ_needs_more_days() -> None:
    assert accepted(nights(8)).missing == 0
    assert accepted([day(number, 941 + 6 * (number % 2)) for number in range(5)]).missing == 0
    unlike = accepted([day(number, 941 + 28 * (number % 2), verdict="pass") for number in range(5)])
    assert unlike.missing is None
    assert accepted([moved(day(0), hours=hour) for hour in range(5)]).missing == 0
    strict = accepted([moved(day(0), hours=hour) for hour in range(5)], tolerance=Tolerance(Share(0.025)))
    assert strict.missing is not None
    assert strict.missing > 1


def test_too_few_runs_make_no_baseline() -> None:
    found = accepted(nights(4))
    assert found.baseline is None
    assert found.why == "only 4 usable runs, 5 are needed"
    assert accepted(nights(4), least=4).baseline is not None


def test_the_file_of_a_baseline_is_named_after_board_and_nic() -> None:
    assert family_of(FIGURE) == "pi4b-onboard.yaml"
    assert family_of("pi5:i226v@2.5G/pair/tcp-P1-tx") == "pi5-i226v-2.5G.yaml"
    assert family_of("..\\x:y/pair/tcp-P1-tx") == "x-y.yaml"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a lab file and the default history."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PINET_LAB", raising=False)
    monkeypatch.delenv("PINET_HISTORY", raising=False)
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "virtual.yaml").write_text(LAB)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(pinet, ["accept", "--lab", "lab/virtual.yaml", *arguments], catch_exceptions=False)


def test_accept_writes_the_file_and_prints_the_changes(bench: Path) -> None:
    keep([*nights(), *nights(verdict="fail", begin=10, count=2, uname="Linux 6.12.99")])
    done = run("--reason", "first of this bench")
    assert done.exit_code == 0
    assert done.stdout.startswith("--- lab/baselines/pi4b-onboard.yaml\n+++ lab/baselines/pi4b-onboard.yaml\n@@ ")
    assert "+- {" in done.stdout or "+- id: pi4b:onboard/pair/tcp-P1-tx" in done.stdout
    assert f"{FIGURE}: 941.1 Mbit/s, 6 runs of 6 days, spread between runs 0.02 %; left out: 2 fail" in done.stderr
    assert "1 baseline written to lab/baselines: review and commit the files" in done.stderr
    (found,) = load_baselines(labfile.load("lab/virtual.yaml")).values()
    assert found.reason == "first of this bench"
    difference = compare([Bitrate.mbps(800)] * 3, found.baseline(), DEFAULT_TOLERANCE)
    assert difference.result is Relation.SLOWER


@pytest.mark.parametrize(
    ("limits", "missing"),
    [
        ("", False),
        ("  limits:\n  - {board: pi4b, tolerance: 2.5%}\n", True),
        # It is about the other direction.
        ("  limits:\n  - {board: pi4b, direction: rx, tolerance: 2.5%}\n", False),
    ],
)
def test_accept_says_how_many_days_are_missing_for_the_tolerance_of_the_lab(
    bench: Path, limits: str, missing: bool
) -> None:
    (bench / "lab" / "virtual.yaml").write_text(LAB + limits)
    keep([moved(day(0), hours=hour) for hour in range(5)])
    done = run("--reason", "one day")
    found = re.findall(
        r"\n  (\d+) more days are missing for the tolerance 2.5%: until then, many gates will be inconclusive",
        done.stderr,
    )
    assert [int(days) > 1 for days in found] == [True] * missing, done.stderr
    assert missing or "missing for the tolerance" not in done.stderr


def test_an_entry_stays_in_its_file_and_other_entries_do_not_change(bench: Path) -> None:
    keep(nights())
    run("--reason", "one")
    mine = bench / "lab" / "baselines" / "mine.yaml"
    (bench / "lab" / "baselines" / "pi4b-onboard.yaml").rename(mine)
    other = mine.read_text().replace("tcp-P1-tx", "tcp-P4-tx").partition("baselines:\n")[2]
    mine.write_text(mine.read_text() + other)
    done = run(FIGURE, "--reason", "two")
    assert done.exit_code == 0
    assert [path.name for path in mine.parent.iterdir()] == ["mine.yaml"]
    found = load_baselines(labfile.load("lab/virtual.yaml"))
    assert {one.id: one.reason for one in found.values()} == {FIGURE: "two", FIGURE.replace("P1", "P4"): "one"}


def test_a_dry_run_writes_nothing(bench: Path) -> None:
    keep(nights())
    done = run("--reason", "x", "--dry-run")
    assert "+++ lab/baselines/pi4b-onboard.yaml" in done.stdout
    assert not (bench / "lab" / "baselines").exists()


def test_the_exit_code_is_1_if_there_is_nothing_to_accept(bench: Path) -> None:
    keep(nights(verdict="fail"))
    done = run("--reason", "x")
    assert done.exit_code == 1
    assert "not accepted: only 0 usable runs, 5 are needed; left out: 6 fail" in done.stderr
    assert "--lower" not in done.stderr


def test_baselines_of_a_packaged_lab_can_be_committed(bench: Path) -> None:
    keep(nights())
    done = CliRunner().invoke(pinet, ["accept", "--lab", "virtual", "--reason", "first"], catch_exceptions=False)
    assert "1 baseline written to baselines/virtual: review and commit the files" in done.stderr
    assert [path.name for path in (bench / "baselines/virtual").iterdir()] == ["pi4b-onboard.yaml"]
    checked = CliRunner().invoke(pinet, ["check", "virtual"], catch_exceptions=False)
    assert "1 baseline and 0 acknowledged losses in baselines/virtual" in checked.stdout
    # Another lab in the same folder has baselines of its own.
    assert load_baselines(labfile.load("lab/virtual.yaml")) == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--reason", " "], "--reason is empty; expected a text that says why these values are right"),
        (
            ["pi4b:onbord/pair/tcp-P1-tx", "--reason", "x"],
            f"unknown result in its history 'pi4b:onbord/pair/tcp-P1-tx', did you mean '{FIGURE}'?",
        ),
        (["--reason", "x", "--history", "other.db"], "there is no history other.db"),
    ],
)
def test_wrong_arguments_are_explained(
    bench: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    keep(nights())
    monkeypatch.setattr(sys, "argv", ["pinet", "accept", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 4
    assert message in capsys.readouterr().err


def test_only_accept_writes_baselines() -> None:
    """A run never changes its own baselines."""
    sources = Path(pytest_pinet.__file__).parent
    using = [path for path in sources.rglob("*.py") if "write_baselines" in path.read_text()]
    assert sorted(str(path.relative_to(sources)) for path in using) == ["cli/reviewed.py", "config/baselines.py"]
