"""Every form of report accepts every kind of result: pings have no goodput, and a tuning is part of a combination."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from pytest_pinet.cli import pinet
from pytest_pinet.config.baselines import read_baselines, write_baselines
from pytest_pinet.evidence.sources import ORDER
from pytest_pinet.history.accepting import candidate, family_of
from pytest_pinet.history.history import keep_run, lines_of, open_history, runs_of
from pytest_pinet.history.store import HistoryStore
from pytest_pinet.history.trends import trend
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.tuning import SettingOutcome, Tuned
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.published.table import rows as published_rows
from pytest_pinet.published.table import table as published_table
from pytest_pinet.report.allure import content
from pytest_pinet.report.allure.identity import KnownTest, Subject, allure2_history, allure3_history, allure3_id
from pytest_pinet.report.allure.identity import runs_of as runs_of_series
from pytest_pinet.report.allure.run_files import environment, figures_csv, metrics, write_run_files
from pytest_pinet.report.charts.results import overview_chart
from pytest_pinet.report.export.openmetrics import openmetrics
from pytest_pinet.report.failure import error_text, failure_text
from pytest_pinet.report.junit import junit_properties
from pytest_pinet.report.markdown import summary_markdown, verdict_in_words
from pytest_pinet.report.result_record import parameters_hash
from pytest_pinet.report.terminal import rows_of, summary_table
from pytest_pinet.report.trends import RunFacts, all_series, run_facts, series_with
from tests.support.commands import go_without_allure
from tests.support.history_records import kept, points_in
from tests.support.report_records import direction, result, run_record
from tests.support.traffic_results import ALL, http_result, ladder_result, ping_result, tuned
from tools.results_schema import results_schema

PING = "pi4b:onboard/pair/ping-c10-i0.2-s56"
TUNED = "pi4b:onboard/pair/rps=all+mtu=9000"
PLAIN = Subject(CombinationId("pi4b", "onboard", "pair"), "test_all", {}, "test_all.py")
TUNED_SUBJECT = replace(PLAIN, combination=replace(PLAIN.combination, tuning="rps=all+mtu=9000"))
EACH = pytest.mark.parametrize("one", ALL.values(), ids=ALL)


def night(number: int, *results: ResultRecord) -> RunRecord:
    """Return a run of this day in November."""
    started = f"2026-11-{number:02}T02:00:00+00:00"
    return run_record(
        [one.replace(started=started) for one in results],
        run=f"night-{number}",
        started=started,
        finished=started,
        session=f"{number:032x}",
    )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with three nights of all kinds in its history, the last one as its latest run."""
    go_without_allure(tmp_path, monkeypatch)
    for number in (1, 2, 3):
        run = night(number, result("pi4b:onboard/pair", {"rx": direction(941e6)}), *ALL.values())
        folder = tmp_path / ".pinet" / "runs" / run.run
        folder.mkdir(parents=True)
        (folder / "results.json").write_text(json.dumps(run.dump()))
        assert keep_run(None, run, folder) is None
    (tmp_path / ".pinet" / "latest").symlink_to("runs/night-3")
    return tmp_path


def ran(*words: str) -> Result:
    done = CliRunner().invoke(pinet, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    return done


# -- each form accepts each record ---------------------------------------------------------------------------------


@EACH
def test_a_report_of_it_alone_can_be_written(one: ResultRecord, tmp_path: Path) -> None:
    run = run_record([one])
    jsonschema.validate(run.dump(), results_schema())
    assert summary_table([one], [], verbose=True)
    assert failure_text(one)
    assert error_text(one)
    assert junit_properties([one])
    assert summary_markdown(run)
    assert figures_csv([one]).count(b"\n") == 2
    assert overview_chart(rows_of([one]), "title", "note").svg()
    write_run_files(tmp_path, run, RunFacts("id", "build"), {})
    assert run_facts(run, None, 9).build
    assert openmetrics(kept([run])[0][1])


@EACH
def test_allure_gets_a_result_of_it(one: ResultRecord, tmp_path: Path) -> None:
    subject = TUNED_SUBJECT if one.combination.tuning else PLAIN
    series = series_with(None, [one], 60, True)
    assert content.title(subject, [one]).startswith(one.combination.id)
    assert content.description_html([one], series)
    assert [name for name, _, excluded in content.parameters(subject, [one]) if not excluded] == ["combination"]
    assert [value for name, value in content.labels(subject, [one]) if name == "figure"]
    assert content.attachments([one], series, tmp_path, {}) or one.figures is not None


@EACH
def test_published_values_are_compared_with_a_result(one: ResultRecord) -> None:
    from pytest_pinet.catalogue.published import published

    assert published_table(published_rows(published().values(), [one], True), True)


@EACH
def test_the_history_gives_back_what_it_took_from_it(one: ResultRecord, tmp_path: Path) -> None:
    (run, points) = kept([night(1, one)])[0]
    points = sorted(points, key=lambda point: point.figure)
    store = HistoryStore.open(str(tmp_path / "history.db"), create=True)
    store.add(run, points)
    assert store.points_of(run.id) == points
    assert list(runs_of(lines_of(store.everything()), "export", pytest.fail)) == [(run, points)]
    store.close()


@pytest.mark.parametrize(
    "words",
    [
        ["history"],
        ["history", "--json"],
        ["history", "--runs"],
        ["history", "export"],
        ["compare", "latest~1", "latest"],
        ["summary"],
        ["summary", "--format", "md"],
        ["export", "--format", "openmetrics"],
        ["report", "-o", "page.html"],
        ["report", "--history", "off", "-o", "page.html"],
        ["published"],
    ],
    ids=" ".join,
)
def test_each_command_takes_a_history_of_all_of_them(here: Path, words: list[str]) -> None:
    assert ran(*words).output


# -- pings: values without goodput --------------------------------------------------------------------------------


def test_a_ping_stands_in_the_history_with_each_of_its_values(here: Path) -> None:
    with open_history(".pinet/history.db") as history:
        # A failed ping in the same run is the same measurement.
        for name, values in (("loss", {0.0, 1.0}), ("latency", {0.002})):
            found = history.trend(f"{PING}-{name}")
            assert {point.value for point in found.points} == values
            assert found.points[-1].direction == name
        assert "pi4b:onboard/pair" not in [figure.id for figure in history.figures()]


def test_a_page_names_the_values_of_a_ping(here: Path) -> None:
    ran("report", "-o", "page.html")
    part = (here / "page.html").read_text().partition("<h2>pi4b:onboard/pair</h2>")[2].partition("</article>")[0]
    assert "ping-c10-i0.2-s56" in part
    assert "latency" in part


def test_the_title_of_a_ping_has_its_round_trip() -> None:
    expected = "pi4b:onboard/pair · ping-c10-i0.2-s56 loss 0%, latency 2 ms, rtt_min 1 ms, rtt_max 3 ms"
    assert content.title(PLAIN, [ping_result()]) == expected
    assert content.title(PLAIN, [ping_result("fail", 0)]).endswith("loss 100% · fail")


def test_allure_s_histories_know_what_became_of_pings_and_have_no_metric_of_them(here: Path) -> None:
    with open_history(".pinet/history.db") as history:
        runs = runs_of_series(all_series(history, 60), "")
    test = KnownTest(PLAIN.id, "ping", str(PLAIN.combination), (f"{PING}-loss",))
    last = json.loads(allure3_history(runs, [test]).splitlines()[-1])
    assert last["testResults"][allure3_id(PLAIN.id, str(PLAIN.combination))]["status"] == "failed"
    assert PING not in last["metrics"]
    assert f"{TUNED}/tcp-P1-rx" in last["metrics"]
    assert len(json.loads(allure2_history(runs, [test])["history.json"])[PLAIN.id]["items"]) == 3
    assert not any("ping" in str(one["key"]) for one in metrics([ping_result()]))


def test_markdown_tells_round_trips_requests_and_rates_that_were_held() -> None:
    told = [ALL[name] for name in ("ping", "http", "ladder")]
    cells = [line.split(" | ")[0] for line in summary_markdown(run_record(told)).splitlines()]
    assert "| pi4b:onboard/pair ping-c10-i0.2-s56-latency" in cells
    assert "| pi4b:onboard/pair http-c8-s1000<br>10000 requests/s of 1000 bytes on 8 connections" in cells
    assert any("ladder<br>90.0 Mbit/s is the highest of 2 rates held with at most 0.1 % lost" in cell for cell in cells)
    assert "s56-loss | - | 100% | none |" in summary_markdown(run_record([ALL["ping-lost"]]))


def test_a_run_of_pings_alone_measured_something() -> None:
    assert verdict_in_words(run_record([ping_result()])).startswith(
        "Throughput holds: one measurement meets its limit."
    )
    assert verdict_in_words(run_record([ping_result("fail")])).startswith("Throughput fails in 1 of 1 measurements.")


def test_the_table_of_results_has_a_row_without_numbers_for_a_ping() -> None:
    (row,) = csv.DictReader(io.StringIO(figures_csv([ping_result()]).decode()))
    assert (row["figure"], row["verdict"], row["goodput_bps"]) == (PING, "pass", "")


# -- requests and ladders -----------------------------------------------------------------------------------------


def test_the_description_says_what_was_served_and_held() -> None:
    assert "10000 requests/s of 1000 bytes on 8 connections" in content.description_html([http_result()], [])
    assert "90.0 Mbit/s is the highest of 2 rates held" in content.description_html([ladder_result()], [])


def test_the_environment_names_the_tool_that_has_these_versions() -> None:
    lines = environment(run_record([http_result(), ladder_result()])).splitlines()
    assert "nginx,\\ wrk=nginx/1.22.1; wrk 4.1.0" in lines
    assert "iperf3=3.12; 3.18" in lines


# -- tunings: another combination, another trend ------------------------------------------------------------------


def test_a_tuned_metric_has_a_trend_of_its_own(here: Path) -> None:
    with open_history(".pinet/history.db") as history:
        plain, own = history.trend("pi4b:onboard/pair/tcp-P1-rx"), history.trend(f"{TUNED}/tcp-P1-rx")
        (series,) = [one for one in all_series(history, 60) if one.figure == own.figure]
    assert {point.combination for point in plain.points} == {"pi4b:onboard/pair"}
    assert {point.combination for point in own.points} == {TUNED}
    assert series.combination == CombinationId("pi4b", "onboard", "pair", "rps=all+mtu=9000")
    assert (str(series.combination), series.traffic, series.direction) == (TUNED, "tcp-P1", "rx")


def test_series_of_this_run_and_of_the_history_have_the_same_combination() -> None:
    (series,) = series_with(None, [tuned()], 60, True)
    assert series.combination == CombinationId("pi4b", "onboard", "pair", "rps=all+mtu=9000")


def test_a_tuned_metric_can_be_accepted(tmp_path: Path) -> None:
    points = points_in([night(number, tuned()) for number in range(1, 7)])
    found = candidate(trend(f"{TUNED}/tcp-P1-rx", "virtual", points), date(2026, 11, 21), "first")
    assert found.baseline is not None
    write_baselines(tmp_path / family_of(found.figure), [found.baseline])
    assert [one.id for one in read_baselines(tmp_path / "pi4b-onboard.yaml")] == [f"{TUNED}/tcp-P1-rx"]


def test_allure_tells_tunings_apart_and_shows_what_came_of_each() -> None:
    assert TUNED_SUBJECT.id != PLAIN.id
    found = content.parameters(TUNED_SUBJECT, [tuned()])
    assert ("combination", TUNED, False) in found
    assert ("tuning.rps", "all applied on pi4b-1:onboard, pi4b-2:onboard", True) in found
    text = "9000 rejected (it is 1500: Invalid argument) on pi4b-1:onboard, pi4b-2:onboard"
    assert ("tuning.mtu", text, True) in found
    labels = content.labels(TUNED_SUBJECT, [])
    assert ("tuning", "rps=all+mtu=9000") in labels
    assert ("story", "pair rps=all+mtu=9000") in labels


def test_values_with_and_without_a_setting_are_no_trend() -> None:
    held = [Tuned("pi4b-1", "rps", "all", "0", "f", SettingOutcome.APPLIED)]
    lost = [replace(held[0], outcome=SettingOutcome.UNSUPPORTED, found="")]
    traffic = Traffic(Direction.TX)
    assert parameters_hash(traffic, 1500, held) == parameters_hash(traffic, 1500)
    assert parameters_hash(traffic, 1500, lost) != parameters_hash(traffic, 1500)


# -- the bottleneck ------------------------------------------------------------------------------------------------


def test_the_diagnosis_stands_in_allure_and_on_the_page(here: Path) -> None:
    line = "interrupts on one core: CPU 0 of pi4b-1:onboard was 99 % busy, 97 % in interrupts and softirqs"
    assert f"<p>limited by {line}</p>" in content.description_html([tuned()], [])
    ran("report", "-o", "page.html")
    assert f": limited by {line}" in (here / "page.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    ran("report", "--history", "off", "-o", "page.html")
    assert f": limited by {line}" in (here / "page.html").read_text().replace("\N{NO-BREAK SPACE}", " ")


def test_a_setting_that_does_not_hold_is_reported_in_allure() -> None:
    told = "<p>tuning mtu=9000 of pi4b-1:onboard: rejected, the value is 1500: Invalid argument</p>"
    assert told in content.description_html([tuned()], [])


def test_evidence_is_attached_with_the_names_of_its_ends(tmp_path: Path) -> None:
    one = tuned().replace(files=["raw/x/client.json", "raw/x/0-kernel.txt", "raw/x/1-stat.txt"])
    (tmp_path / "raw" / "x").mkdir(parents=True)
    for name in one.files:
        (tmp_path / name).write_text("text")
    found = {name: body for name, _, body in content.attachments([one], [], tmp_path, {})}
    assert {"client.json", "kernel messages pi4b-1:onboard", "processors pi4b-2:onboard"} <= set(found)
    record = json.loads(found[f"evidence {one.id}"])
    assert record["limited_by"]["cause"] == "interrupts on one core"
    assert [end["kernel"] for end in record["evidence"]] == [["eth0: dropped"]] * 2
    assert len(record["tunings"]) == 4


def test_every_source_of_evidence_has_a_name_in_allure() -> None:
    assert set(ORDER) <= set(content.SOURCES)


def test_files_that_are_too_many_are_named(tmp_path: Path) -> None:
    names = [f"raw/{number}.txt" for number in range(content.MOST_FILES + 2)]
    found = content.attachments([ping_result().replace(files=names)], [], tmp_path, {})
    assert [(name, body.decode().splitlines()[1:]) for name, _, body in found] == [("more files", names[-2:])]


def test_the_trend_of_points_without_values_is_empty() -> None:
    empty = result("pi4b:onboard/pair", {}, "pass").replace(figures={})
    found = trend(empty.id, "virtual", points_in([night(number, empty) for number in (1, 2)]))
    assert (found.changes, found.levels) == ((), (None, None))
    assert found.last is not None
    assert found.last.verdict is Verdict.PASS
