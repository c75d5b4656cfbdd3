"""Pings, requests and ladders in the table, in JUnit, and in the schema of ``results.json``."""

from __future__ import annotations

import jsonschema
import pytest
from report_data import run_record
from traffic_data import climbed, pinged, served

from pytest_pinet.report.junit import junit_properties
from pytest_pinet.report.record import ResultRecord
from pytest_pinet.report.rows import rows_of
from pytest_pinet.report.schema import results_schema
from pytest_pinet.report.terminal import count_line, summary_table


def test_a_ping_is_a_row_without_goodput_and_counts_as_measured() -> None:
    (row,) = rows_of([pinged()])
    assert row.goodput_bps is None
    assert row.notes == ("10 of 10 pings came back in 2 ms (1 to 3)",)
    assert count_line([pinged()], []) == "1 measured: 1 pass"


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (served(), "10000 requests/s of 1000 bytes on 8 connections"),
        (climbed(), "90 Mbit/s is the highest of 2 rates held with at most 0.1 % lost; at 120 Mbit/s 20 % were lost"),
    ],
)
def test_what_belongs_to_a_figure_stands_below_it(record: ResultRecord, told: str) -> None:
    assert told in " ".join(line.strip() for line in summary_table([record], []))


def test_junit_has_them_as_properties() -> None:
    properties = dict(junit_properties([pinged()]))
    assert properties["pinet.ping.rtt_mean_s"] == 2e-3
    assert properties["pinet.ping.loss"] == 0
    assert dict(junit_properties([served()]))["pinet.requests_per_s"] == 10_000
    assert dict(junit_properties([climbed()]))["pinet.knee_bps"] == 90_000_000


def test_they_are_in_the_schema() -> None:
    jsonschema.validate(run_record([pinged(), served(), climbed()]), results_schema())
