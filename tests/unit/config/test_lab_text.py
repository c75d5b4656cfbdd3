"""Ports in the text of a lab file, and the JSON Schema of lab files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_pinet.config import lab_text
from pytest_pinet.config.labfile import load
from pytest_pinet.config.schema import SCHEMA_FILE, schema_text
from pytest_pinet.config.yaml_lines import parse
from pytest_pinet.errors import ConfigError, OutputError
from pytest_pinet.model.lab import PortRef
from tests.support.doctor_lab import LAB_FILE, lab


def test_exactly_these_scalars_change(tmp_path: Path) -> None:
    first, second, third, _ = lab(tmp_path).interfaces()
    swapped = {first: PortRef("s", "p2"), second: PortRef("s", "p9"), third: PortRef("s", "p1")}
    text = lab_text.with_ports(LAB_FILE, "lab.yaml", swapped)
    expected = LAB_FILE.replace("s/p2", "s/p9").replace("{port: s/p1}", "{port: s/p2}").replace("'s/p3'", "'s/p1'")
    assert text == expected


def test_the_file_is_replaced_as_a_whole_and_keeps_its_kind(tmp_path: Path) -> None:
    lab(tmp_path)
    file, link = tmp_path / "lab.yaml", tmp_path / "link.yaml"
    crlf = "\ufeff" + LAB_FILE.replace("\n", "\r\n")
    file.write_bytes(crlf.encode())
    file.chmod(0o640)
    link.symlink_to(file)
    interface = load(link).interfaces()[0]
    lab_text.replace(
        str(link), lab_text.with_ports(lab_text.read(str(link)), str(link), {interface: PortRef("s", "p7")})
    )
    assert file.read_bytes() == crlf.replace("s/p1", "s/p7").encode()
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lab.yaml", "link.yaml"]


def test_a_lab_file_on_a_full_disk_is_one_sentence() -> None:
    with pytest.raises(OutputError, match=r"^cannot write /dev/full: No space left on device$"):
        lab_text.replace("/dev/full", LAB_FILE)


def test_an_invalid_lab_file_is_not_written(tmp_path: Path) -> None:
    interface = lab(tmp_path).interfaces()[0]
    file = str(tmp_path / "lab.yaml")
    text = lab_text.with_ports(LAB_FILE, file, {interface: PortRef("s", "p2")})
    with pytest.raises(ConfigError, match=r"file not changed, these ports are wrong: .*both cabled to port s/p2"):
        lab_text.replace(file, text)
    assert Path(file).read_text() == LAB_FILE
    assert [path.name for path in tmp_path.iterdir()] == ["lab.yaml"]


def test_a_port_that_aliases_share_is_left_to_a_person(tmp_path: Path) -> None:
    text = LAB_FILE.replace("s/p1}", "&port s/p1}").replace("# The lab of the doctor's tests.", "")
    text += "x-more: [*port]\n"
    file = tmp_path / "lab.yaml"
    file.write_text(text)
    interface = load(file).interfaces()[0]
    with pytest.raises(ConfigError, match=r"lab.yaml:9: the port of one:onboard comes from an anchor"):
        lab_text.with_ports(text, str(file), {interface: PortRef("s", "p2")})


def test_a_port_whose_name_needs_quotes_gets_them(tmp_path: Path) -> None:
    interface = lab(tmp_path).interfaces()[0]
    text = lab_text.with_ports(LAB_FILE, "lab.yaml", {interface: PortRef("s", "Port: 1, left's")})
    assert "{port: 's/Port: 1, left''s'}" in text


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
