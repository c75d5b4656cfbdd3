"""Pings, requests and ladders in the table, in JUnit, and in the schema of ``results.json``."""

from __future__ import annotations

import jsonschema
import pytest

from pytest_pinet.model.measurement import Window
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.report.junit import junit_properties
from pytest_pinet.report.result_record import most_apart, window_record
from pytest_pinet.report.sentences import apart_notes
from pytest_pinet.report.terminal import count_line, rows_of, summary_table
from tests.support.report_records import run_record
from tests.support.traffic_results import http_result, ladder_result, ping_result
from tools.results_schema import results_schema


def test_a_ping_is_a_row_without_goodput_and_counts_as_measured() -> None:
    (row,) = rows_of([ping_result()])
    assert row.goodput_bps is None
    assert row.notes == ("10 of 10 pings came back in 2 ms (1 to 3)",)
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
    assert properties["pinet.ping.rtt_mean_s"] == 2e-3
    assert properties["pinet.ping.loss"] == 0
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
