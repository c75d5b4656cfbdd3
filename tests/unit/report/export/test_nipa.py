import json
from datetime import datetime

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.report.export.cases import nipa
from tests.support.export_runs import ALTERNATED, PLAIN, RUNS

BRANCH = {"branch": "net-next-2026-11-23--12-00"}


def test_an_alternated_run() -> None:
    found = json.loads(nipa(ALTERNATED, BRANCH | {"link": "https://ci.example.org/9"}))
    first, *_ = found["results"]
    assert (found["executor"], found["branch"]) == ("pinet-virtual", BRANCH["branch"])
    assert (found["start"], found["end"]) == ("2026-11-21 00:01:02+00:00", "2026-11-21 00:02:03+00:00")
    assert found["device"] == dict.fromkeys(["cm4:onboard", "pi3b:onboard", "pi4b:onboard", "pi5:onboard"], "bcmgenet")
    assert first == {
        "test": "pi4b-onboard-pair",
        "group": "selftests-pinet",
        "result": "fail",
        "time": 15.0,
        "link": "https://ci.example.org/9",
        "results": [
            {"test": "tcp-P1-tx", "result": "fail", "time": 8},
            {"test": "tcp-P1-rx", "result": "pass", "time": 8},
        ],
    }
    assert [one["result"] for one in found["results"]] == ["fail", "pass", "warn", "fail"]


@pytest.mark.parametrize("kind", RUNS)
def test_names_and_results_that_nipa_knows(kind: str) -> None:
    found = json.loads(nipa(RUNS[kind], BRANCH))
    assert datetime.fromisoformat(found["start"]).tzinfo is not None
    for test in found["results"]:
        assert test["result"] in ("pass", "skip", "warn", "fail")
        names = [one["test"] for one in test["results"]]
        assert len({*names}) == len(names)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "nipa needs branch; pass --set branch=net-next-2026-11-23--12-00"),
        (
            {"branch": "net"},
            "--set branch: 'net' does not end in a time; expected net-next-2026-11-23--12-00",
        ),
    ],
)
def test_a_branch_is_necessary(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        nipa(PLAIN, settings)
    assert str(raised.value) == message
