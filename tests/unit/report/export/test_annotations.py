from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.report.export.annotations import MOST, github, gitlab_annotations
from tests.support.export_runs import ALTERNATED, EXACT, PLAIN, RUNS
from tests.support.report_records import direction, result, run_record

LINK = "https://gitlab.example/group/linux/-/jobs/7/artifacts/file/pinet-report.html"


def labels(run: RunRecord) -> list[str]:
    found: dict[str, Any] = json.loads(gitlab_annotations(run, {"link": LINK}))
    (links,) = found.values()
    # GitLab refuses other keys (app/validators/json_schemas/ci_job_annotation_data.json).
    assert all(one == {"external_link": {"label": one["external_link"]["label"], "url": LINK}} for one in links)
    return [one["external_link"]["label"] for one in links]


def test_the_answer_comes_first_then_the_worst() -> None:
    assert ALTERNATED.change is not None
    assert labels(ALTERNATED) == [
        ALTERNATED.change.sentence,
        "fail: pi4b.onboard.pair.tcp-P1-tx: slower, certain after 7 turns: B is -2.10 %",
        "fail: pi3b.onboard.pair.measurement: panic: panic on pi4b-1 with new: Kernel panic",
        "inconclusive: cm4.onboard.pair.tcp-P1-tx: inconclusive, certain after 7 turns: B is -0.80 %",
        "improved: pi5.onboard.pair.tcp-P1-rx: faster, certain after 7 turns: B is +3.00 %",
    ]


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_label_is_one_short_line(run: RunRecord) -> None:
    assert all("\n" not in label and 0 < len(label) <= 200 for label in labels(run))


def test_a_run_without_a_gate_has_no_answer() -> None:
    assert labels(PLAIN)[0] == "report of all metrics"


def test_more_than_a_page_shows_are_counted() -> None:
    many = run_record([result(f"pi4b:nic{n}/pair", {"tx": direction(1e8, 9e8, "fail")}) for n in range(25)])
    found = labels(many)
    assert len(found) == 1 + MOST
    assert found[-1] == "and 16 more"


def test_without_an_address_there_is_nothing_to_link_to() -> None:
    with pytest.raises(ConfigError, match=r"gitlab-annotations needs link; pass --set link=URL"):
        gitlab_annotations(PLAIN, {})


def test_an_alternated_run() -> None:
    assert github(ALTERNATED, {}).splitlines() == [
        "::error title=pi4b.onboard.pair.tcp-P1-tx::slower, certain after 7 turns: B is -2.10 %25",
        "::error title=pi3b.onboard.pair.measurement::panic: panic on pi4b-1 with new: Kernel panic",
        "::warning title=cm4.onboard.pair.tcp-P1-tx::inconclusive: inconclusive, certain after 7 turns: B is -0.80 %25",
        "::notice title=pi5.onboard.pair.tcp-P1-rx::faster, certain after 7 turns: B is +3.00 %25",
    ]


def test_a_function_of_an_exact_gate_is_shown_at_its_line() -> None:
    first, *_ = github(EXACT, {}).splitlines()
    assert first.startswith("::error file=drivers/net/ethernet/cadence/macb_main.c,line=1302,title=exact.macb.pair.")


def test_a_text_stays_on_one_line_and_begins_no_command() -> None:
    (line,) = [line for line in github(PLAIN, {}).splitlines() if "rps-all" in line]
    assert line.startswith("::error title=pi4b.onboard.incast-2.rps-all-mtu-9000.tcp-P1-rx::# [FAIL]")
    assert "%250A" in line


def test_more_than_github_shows_are_counted() -> None:
    many = run_record([result(f"pi4b:nic{n}/pair", {"tx": direction(1e8, 9e8, "fail")}) for n in range(25)])
    lines = github(many, {}).splitlines()
    assert len(lines) == MOST
    assert lines[-1] == "::error title=pinet::and 16 more; all are in the summary of this job"
