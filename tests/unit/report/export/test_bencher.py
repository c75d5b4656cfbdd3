import json

import jsonschema
import pytest

from pytest_pinet.report.export.bencher import bencher
from tests.support.export_runs import ALTERNATED, EXACT, RUNS, points

# https://bencher.dev/docs/reference/bencher-metric-format, with additional properties refused.
SCHEMA = {
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
                    "required": ["value"],
                    "additionalProperties": False,
                }
            },
        }
    },
}


@pytest.mark.parametrize("kind", RUNS)
def test_the_schema_of_bencher(kind: str) -> None:
    found = json.loads(bencher(points(RUNS[kind])))
    jsonschema.validate(found, SCHEMA)
    assert found


def test_values() -> None:
    found = json.loads(bencher(points(ALTERNATED)))
    assert found["pi4b:onboard/pair/tcp-P1-tx"]["goodput"]["value"] == pytest.approx(941e6 * 0.979)
    exact = json.loads(bencher(points(EXACT)))["exact:macb/pair/qemu=7.2.22/frame-60-tx"]
    assert exact["instructions-per-packet"] == {"value": 2334.0}
    assert exact["packets-per-second"] == {"value": pytest.approx(13690.0)}


def test_metrics_of_two_labs_are_apart() -> None:
    first, *rest = points(ALTERNATED)
    both = [first, *rest, *points(ALTERNATED.replace(lab="annex"))]
    assert {name.partition("/")[0] for name in json.loads(bencher(both))} == {"virtual", "annex"}
