"""``pinet discover`` finds the cabling, and corrects the lab file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.doctor_command import copy_with, pinet
from tests.support.gate_project import GateLab

pytestmark = pytest.mark.slow

# One value in quotes, one followed by a comment.
EXCHANGED = [
    ("onboard: {port: sw1/p4}", 'onboard: {port: "sw1/p6"}'),
    ("onboard: {port: sw1/p6}", "onboard: {port: sw1/p4}  # the blue cable"),
]


def test_exchanged_cables_are_found_and_corrected_in_the_lab_file(gate_lab: GateLab, tmp_path: Path) -> None:
    file = copy_with(gate_lab, tmp_path, EXCHANGED)
    wrong = file.read_text()
    told = pinet(gate_lab, "discover", "--lab", str(file))
    assert told.code == 1
    assert "wrong cables: pi4b-1:onboard and pi4b-2:onboard are exchanged (sw1/p6 and sw1/p4)" in told.output
    assert "--write" in told.output
    assert file.read_text() == wrong
    told = pinet(gate_lab, "discover", "--lab", str(file), "--write")
    assert told.code == 0
    assert '-        onboard: {port: "sw1/p6"}\n+        onboard: {port: "sw1/p4"}\n' in told.output
    right = wrong.replace('"sw1/p6"', '"sw1/p4"').replace("sw1/p4}  # the", "sw1/p6}  # the")
    assert file.read_text() == right
    told = pinet(gate_lab, "discover", "--lab", str(file))
    assert (told.code, told.output.splitlines()[-1]) == (0, f"{file} is right")
    assert gate_lab.nodes_on() == set()
    assert gate_lab.holders() == []


def test_a_switch_that_tells_nothing_is_said_so(gate_lab: GateLab, tmp_path: Path) -> None:
    head, rest = gate_lab.text_without_launcher().split("    sw1:\n", 1)
    text = head + "    sw1: {backend: fixed, ports: p1-p16}\n\n  nodes:\n" + rest.split("  nodes:\n", 1)[1]
    file = tmp_path / "lab.yaml"
    file.write_text(text)
    told = pinet(gate_lab, "discover", "--lab", str(file))
    assert told.code == 0
    assert "11 of 11 cannot be told" in told.output
    assert "switch sw1 (fixed) cannot tell who is on its ports" in " ".join(told.output.split())
