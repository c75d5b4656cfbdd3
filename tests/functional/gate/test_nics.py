"""Boards whose NICs are not the NICs of the lab file: no value, and a verdict that is neither pass nor fail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from pytest_pinet.config.labfile import load
from pytest_pinet.virtual.spec import mac_address
from tests.support.doctor_command import doctor, pinet
from tests.support.gate_project import GateLab, NewProject, Project

pytestmark = pytest.mark.slow

TESTS = """
import pytest

FEW = dict(duration=1, warmup=0.5, bitrate="20 Mbit/s", min="10 Mbit/s")

@pytest.mark.pinet(board="pi4b", nic="ax88179")
def test_usb(link, gate):
    gate.tcp(link, **FEW)

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_onboard(link, gate):
    gate.tcp(link, **FEW)
"""
USB, ONBOARD = "test_usb[pi4b:ax88179/pair]", "test_onboard[pi4b:onboard/pair]"
MAC = mac_address("pi4b-1", "eth1")


@pytest.fixture(scope="module")
def project(new_project: NewProject) -> Project:
    return new_project({"test_nics.py": TESTS})


def message(project: Project, test: str) -> str:
    (result,) = (one for one in project.results["results"] if one["test"].endswith(test))
    return re.sub(r"\s+", " ", str(result["message"]))


@contextmanager
def exchanged(lab: GateLab, node: str) -> Iterator[None]:
    """Let both NICs of a node have the name of the other."""
    swap = (
        "for n in 0 1; do ip link set eth$n down; ip link set eth$n name old$n; done;"
        " ip link set old0 name eth1; ip link set old1 name eth0; ip link set eth0 up; ip link set eth1 up"
    )
    lab.switch_power(True, node)
    try:
        lab.await_boot(node)
        lab.execute(node, swap)
        yield
    finally:
        # In this lab, names outlive the power.
        lab.execute(node, swap)
        lab.switch_power(False, node)


def test_two_nics_with_exchanged_names_are_never_measured_under_the_name_of_the_other(
    project: Project, gate_lab: GateLab
) -> None:
    with exchanged(gate_lab, "pi4b-1"):
        assert project.pytest().ret == 1
        # The cables are right.
        answer = pinet(gate_lab, "discover", "--lab", str(gate_lab.file))
    assert answer.code == 0
    assert "wrong cable" not in answer.output
    assert f"        usb: {{nic: ax88179, port: sw1/p5, mac: '{MAC}', driver: ax88179_178a, " in answer.output
    assert project.verdicts == {USB: "invalid", ONBOARD: "invalid"}
    assert "eth1 has driver bcmgenet, but ax88179 needs ax88179_178a; it fits pi4b-1:onboard" in message(project, USB)
    assert "eth0 has driver ax88179_178a, but genet needs bcmgenet; it fits pi4b-1:usb" in message(project, ONBOARD)


def test_discover_prints_lines_with_which_the_lab_file_is_right(gate_lab: GateLab, tmp_path: Path) -> None:
    answer = pinet(gate_lab, "discover", "--lab", str(gate_lab.file))
    assert answer.code == 0
    printed = [line for line in answer.output.splitlines() if line.startswith("    ")]
    interfaces = yaml.safe_load("\n".join(printed))
    text = yaml.load(gate_lab.text_without_launcher(), Loader=yaml.BaseLoader)
    assert list(interfaces) == list(text["pinet"]["nodes"])
    head, rest = gate_lab.text_without_launcher().split("  nodes:\n", 1)
    nodes = {name: {**text["pinet"]["nodes"][name], **lines} for name, lines in interfaces.items()}
    pasted = yaml.safe_dump({"nodes": nodes}, sort_keys=False).replace("\n", "\n  ").rstrip()
    file = tmp_path / "lab.yaml"
    file.write_text(f"{head}  {pasted}\n\n  # The most{rest.split('  # The most', 1)[1]}")
    lab = load(file)
    for before, after in zip(load(gate_lab.file).interfaces(), lab.interfaces(), strict=False):
        assert (after.port, after.nic, after.mac) == (before.port, before.nic, mac_address(before.node, before.device))
        assert after.drivers == (before.nic.driver,)
        assert after.bus_info
    found = doctor(gate_lab, file=file)
    assert found.wrong == {}
