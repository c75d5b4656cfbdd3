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
    answer = pinet(gate_lab, "discover", "--lab", str(file))
    assert answer.code == 1
    assert "wrong cables: pi4b-1:onboard and pi4b-2:onboard are exchanged (sw1/p6 and sw1/p4)" in answer.output
    assert "--write" in answer.output
    assert file.read_text() == wrong
    answer = pinet(gate_lab, "discover", "--lab", str(file), "--write")
    assert answer.code == 0
    assert '-        onboard: {port: "sw1/p6"}\n+        onboard: {port: "sw1/p4"}\n' in answer.output
    right = wrong.replace('"sw1/p6"', '"sw1/p4"').replace("sw1/p4}  # the", "sw1/p6}  # the")
    assert file.read_text() == right
    answer = pinet(gate_lab, "discover", "--lab", str(file))
    assert (answer.code, answer.output.splitlines()[-1]) == (0, f"{file} is right")
    assert gate_lab.nodes_on() == set()
    assert gate_lab.holders() == []


def test_a_switch_without_neighbour_information_is_reported(gate_lab: GateLab, tmp_path: Path) -> None:
    head, rest = gate_lab.text_without_launcher().split("    sw1:\n", 1)
    text = head + "    sw1: {backend: fixed, ports: p1-p16}\n\n  nodes:\n" + rest.split("  nodes:\n", 1)[1]
    file = tmp_path / "lab.yaml"
    file.write_text(text)
    answer = pinet(gate_lab, "discover", "--lab", str(file))
    assert answer.code == 0
    assert "11 of 11 NICs were not found" in answer.output
    assert "switch sw1 does not report its neighbours" in " ".join(answer.output.split())
