from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.model.record.run import RunRecord
from pytest_pinet.report.export.annotations import MOST, gitlab_annotations
from tests.support.export_runs import ALTERNATED, PLAIN, RUNS
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
