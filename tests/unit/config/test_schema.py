"""The JSON Schema that is shipped for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_pinet.config.schema import SCHEMA_FILE, schema_text
from pytest_pinet.config.yaml_lines import parse

ROOT = Path(__file__).parents[3]
SCHEMA: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def data(name: str) -> Any:
    return parse((ROOT / "lab" / name).read_text(encoding="utf-8"), name).data


def test_the_shipped_schema_is_current() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), "run: python -m pytest_pinet.config.schema"


def test_it_is_a_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", ["virtual.yaml", "example-bench.yaml"])
def test_it_takes_the_labs_that_we_ship(name: str) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(data(name))] == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("tagrets",), {}),
        (("pinet", "nod"), {}),
        (("pinet", "launcher"), "no launcher"),
        (("pinet", "nodes"), {}),
        (("pinet", "nodes", "pi3b-1", "bord"), "pi3b"),
        (("pinet", "nodes", "pi3b-1", "boot_timeout"), 30),
        (("pinet", "nodes", "no name"), {"board": "pi3b", "interfaces": {"onboard": {"port": "sw1/p1"}}}),
        (("pinet", "nodes", "pi3b-1", "interfaces", "onboard", "port"), "p1"),
        (("pinet", "switches", "sw1", "backend"), "no backend"),
        (("pinet", "limits", 0, "min"), 900),
        (("pinet", "limits", 0, "min"), "900"),
        (("pinet", "limits", 0, "min"), "nan Mbit/s"),
        (("pinet", "limits", 0, "direction"), "up"),
        (("pinet", "limits", 0, "tolerance"), 3),
        (("pinet", "limits", 0, "tolerance"), {"absolute": "20 Mbit/s"}),
        (("pinet", "limits", 0, "retransmits"), 0.1),
        (("pinet", "limits", 0, "latency"), 5),
        (("pinet", "limits", 0, "cpu"), "40"),
        (("pinet", "limits", 0, "marginal"), "2"),
        (("pinet", "profile"), "soke"),
    ],
)
def test_it_refuses_what_we_refuse(path: tuple[str | int, ...], value: object) -> None:
    lab = data("virtual.yaml")
    inner = lab
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    assert not VALIDATOR.is_valid(lab)


def test_it_takes_every_kind_of_limit() -> None:
    lab = data("virtual.yaml")
    lab["pinet"] |= {"profile": "soak", "baselines": "accepted", "calibration": "noise.yaml"}
    lab["pinet"]["limits"] = [
        {"min": "94%", "tolerance": "3%", "marginal": "2%"},
        {"tolerance": {"relative": "3%", "absolute": "20 Mbit/s"}},
        {"tolerance": "3% and 20 Mbit/s"},
        {"retransmits": "0.1%", "loss": "0.5%", "latency": "5 ms", "cpu": "140%"},
    ]
    assert [error.message for error in VALIDATOR.iter_errors(lab)] == []
