"""Pings, requests and ladders in the table, in JUnit, and in the schema of ``results.json``."""

from __future__ import annotations

import jsonschema
import pytest
from report_data import direction, result, run_record

from pytest_pinet.model.http import HttpReport
from pytest_pinet.model.measurement import Window
from pytest_pinet.model.ping import Ping, PingReport
from pytest_pinet.report.junit import junit_properties
from pytest_pinet.report.record import ResultRecord
from pytest_pinet.report.rows import rows_of
from pytest_pinet.report.schema import results_schema
from pytest_pinet.report.terminal import count_line, summary_table
from pytest_pinet.report.traffic import http_record, ping_record, window_record


def pinged(verdict: str = "pass") -> ResultRecord:
    record = result("pi4b:onboard/pair", {}, verdict, "loss 50 % is above the limit 1 %")
    record["combination"]["traffic"] = "ping-c10-i0.2-s56"
    record["ping"] = ping_record(Ping(), [PingReport(10, 10, 1e-3, 2e-3, 3e-3, 1e-4)])
    return record


def served() -> ResultRecord:
    record = result("pi4b:onboard/pair", {"tx": direction(80e6)}, traffic="http-c8-s1000")
    record["http"] = http_record(1000, 8, [HttpReport(10_000, 1.0, 1e7), HttpReport(10_100, 1.01, 1e7)])
    record["windows"] = [window_record(1, Window(0.5, 2.5, 0.02))]
    record["start_skew_s"] = 0.02
    return record


def climbed() -> ResultRecord:
    record = result("pi4b:onboard/pair", {"rx": direction(90e6)}, traffic="udp-P1-b120M-ladder")
    record["ladder"] = {
        "loss": 0.001,
        "knee_bps": 90e6,
        "steps": [
            {"rate_bps": 90e6, "goodput_bps": 90e6, "loss": 0.0, "attempts": 1, "reached": True, "held": True},
            {"rate_bps": 120e6, "goodput_bps": 94e6, "loss": 0.2, "attempts": 2, "reached": True, "held": False},
        ],
    }
    return record


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
