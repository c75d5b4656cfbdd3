from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.history.points import PointList, metric_id
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.verdict import SEVERITY, Verdict
from pytest_pinet.report.allure import content
from pytest_pinet.report.allure.identity import PREFIX, STATUS, Subject, categories, status_of
from tests.support.chart_series import series
from tests.support.loss_levels import losses
from tests.support.report_records import NIGHT, direction, result

SUBJECT = Subject(CombinationId("pi4b", "onboard", "pair"), "test_rate", {"direction": "tx"}, "test_rate.py")
GOOD = result("pi4b:onboard/pair", {"tx": direction(941.3e6, 885e6)})
SLOW = result("pi4b:onboard/pair", {"tx": direction(700.2e6, 885e6, "fail")}, message="tx 700.2 Mbit/s is too slow")
LAB = result("pi4b:onboard/pair", {}, "error", "no carrier on eth0")
INVALID = result(
    "pi4b:onboard/pair", {"tx": direction(941.3e6, 885e6, "invalid")}, message="segments carried 1448 bytes"
)


def test_the_title_contains_the_value() -> None:
    assert content.title(SUBJECT, [GOOD]) == "pi4b:onboard/pair · tcp-P1 tx 941.3 Mbit/s (100.0 % of max)"
    assert (
        content.title(SUBJECT, [SLOW]) == "pi4b:onboard/pair · tcp-P1 tx 700.2 Mbit/s (20.9 % below the limit) · fail"
    )
    assert content.title(SUBJECT, [LAB]) == "pi4b:onboard/pair · error"


def test_only_the_combination_is_no_excluded_parameter() -> None:
    """Parameters that are not excluded are part of Allure 3's history id: a kernel there would cut the trend at each
    build.
    """
    found = content.parameters(SUBJECT, [GOOD])
    assert [name for name, _, excluded in found if not excluded] == ["combination"]
    assert ("build.uname", "6.12.25-v8+ aarch64", True) in found
    assert ("direction", "tx", True) in found


def test_labels_lead_from_board_to_topology_and_name_the_metrics() -> None:
    found = content.labels(SUBJECT, [GOOD])
    assert [value for name, value in found if name in ("epic", "feature", "story")] == ["pi4b", "onboard", "pair"]
    assert ("figure", "pi4b:onboard/pair/tcp-P1-tx") in found
    assert {("board", "pi4b"), ("nic", "onboard"), ("topology", "pair"), ("verdict", "pass")} <= set(found)


@pytest.mark.parametrize("one", NIGHT, ids=lambda one: str(one.id))
def test_metrics_have_the_same_ids_as_in_the_history(one: ResultRecord) -> None:
    figures = {value for name, value in content.labels(SUBJECT, [one]) if name == "figure"}
    assert {metric_id(one.id, way) for way in one.directions} <= figures


def test_the_description_shows_trends_as_data_in_img_and_nothing_that_allure_strips() -> None:
    """Allure strips inline SVG and leaves its text; it drops style and script."""
    html = content.description_html([GOOD], [series()])
    assert re.search(r'<img alt="[^"]+" width="\d+" src="data:image/svg\+xml;base64,[A-Za-z0-9+/=]+">', html)
    assert not re.search(r"<(svg|script|style)", html)
    assert "<td>941.3 Mbit/s</td>" in html


def test_a_message_cannot_become_html() -> None:
    html = content.description_html([LAB.replace(message="<script>alert(1)</script>")], [])
    assert "<script" not in html


def test_attachments_hold_pictures_counters_consoles_and_raw_output(tmp_path: Path) -> None:
    counts = {
        "end": "pi4b-1:onboard",
        "port": "sw1/3",
        "node": {"rx_bytes": 5, "errors": None},
        "switch": {"rx_octets": 7},
    }
    one = GOOD.replace(cables=[counts], files=["raw/a/client.json", "raw/a/gone.txt"])
    (tmp_path / "raw" / "a").mkdir(parents=True)
    (tmp_path / "raw" / "a" / "client.json").write_text("{}")
    found = content.attachments([one], [series()], tmp_path, {"pi4b-1": "login:"})
    assert [(name, kind) for name, kind, _ in found] == [
        ("throughput over time pi4b:onboard/pair/tcp-P1-tx", "image/svg+xml"),
        ("trend pi4b:onboard/pair/tcp-P1-tx", "image/svg+xml"),
        ("switch and NIC counters pi4b:onboard/pair/tcp-P1-tx", "text/csv"),
        ("serial console pi4b-1", "text/plain"),
        ("client.json", "application/json"),
    ]
    rows = list(csv.DictReader(io.StringIO(found[2][2].decode())))
    assert [row["side"] for row in rows] == ["node", "switch"]
    assert rows[0] == {**rows[0], "rx_bytes": "5", "errors": "", "rx_octets": ""}


def test_of_a_huge_file_the_end_is_attached_and_says_where_the_rest_is(tmp_path: Path) -> None:
    (tmp_path / "big.json").write_bytes(b"x" * (content.MOST_BYTES + 10) + b"end")
    found = content.attachments([LAB.replace(files=["big.json"])], [], tmp_path, {})
    name, kind, body = found[0]
    assert (name, kind) == ("big.json", "text/plain")
    assert body.startswith(b"[13 bytes left out; the whole file: ")
    assert body.endswith(b"end")


# -- verdicts -----------------------------------------------------------------------------------------------------


def test_every_verdict_has_a_status_and_only_good_ones_are_green() -> None:
    assert set(STATUS) == set(SEVERITY)
    assert [v for v in SEVERITY if STATUS[v] == "passed"] == [Verdict.MARGINAL, Verdict.IMPROVED, Verdict.PASS]
    assert STATUS[Verdict.FAIL] == "failed"
    assert {STATUS[v] for v in (Verdict.ERROR, Verdict.INVALID, Verdict.INCONCLUSIVE)} == {"broken"}


@pytest.mark.parametrize(
    ("results", "pytest_status", "status", "prefix"),
    [
        ([GOOD], "passed", "passed", ""),
        ([GOOD], "failed", "failed", ""),
        ([GOOD], "broken", "broken", ""),
        ([SLOW], "failed", "failed", "regression"),
        ([GOOD, SLOW], "failed", "failed", "regression"),
        ([LAB], "broken", "broken", "lab error"),
        # A broken kernel during setup is a failure. Allure would treat it as a skipped test.
        ([SLOW], None, "failed", "regression"),
        ([], "passed", "unknown", "not measured"),
        ([], "skipped", "skipped", ""),
        ([], "failed", "failed", ""),
        ([], None, "unknown", ""),
    ],
)
def test_a_status_is_never_better_than_verdict_or_test(
    results: list[object], pytest_status: str | None, status: str, prefix: str
) -> None:
    assert status_of(results, pytest_status) == (status, prefix)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("results", "pytest_status", "status", "prefix"),
    [
        ([INVALID], "skipped", "skipped", "expected"),
        ([SLOW], "skipped", "skipped", "expected"),
        ([GOOD], "skipped", "skipped", ""),
        # A lab error is never an expected failure.
        ([LAB], "skipped", "broken", "lab error"),
        # It did not end as its mark expects.
        ([INVALID], "broken", "broken", "invalid"),
        ([GOOD], "passed", "passed", ""),
    ],
)
def test_what_a_test_is_marked_to_end_with_is_grey(
    results: list[object], pytest_status: str, status: str, prefix: str
) -> None:
    assert status_of(results, pytest_status, expected=True) == (status, prefix)  # type: ignore[arg-type]


@pytest.mark.parametrize("verdict", PREFIX)
def test_each_message_falls_into_one_category_of_its_status(verdict: Verdict) -> None:
    message = f"{PREFIX[verdict]}: tx 700 Mbit/s\nand more"
    rules = [
        rule
        for rule in categories()
        if re.fullmatch(str(rule["messageRegex"]), message) and STATUS[verdict] in rule["matchedStatuses"]  # type: ignore[operator]
    ]
    assert len(rules) == 1


def test_an_empty_trend_is_not_drawn() -> None:
    empty = replace(series(), dots=PointList(), shifts=())
    assert content.attachments([], [empty], None, {}) == []


def test_the_loss_of_a_metric_that_passes_stands_in_the_description() -> None:
    _, level = losses()
    html = content.description_html([GOOD], [replace(series(), level=level)])
    assert "<p>pi4b:onboard/pair/tcp-P1-rx: -4.8 % since 2026-07-19 (" in html
    assert "open, no owner" in html
