"""The checks of ``pinet doctor`` in order, and what stops them."""

from __future__ import annotations

from pathlib import Path

from pytest_pinet.doctor.bench import lines
from pytest_pinet.doctor.examine import examine


def test_without_a_lab_file_all_other_checks_are_one_line(tmp_path: Path) -> None:
    (first, wrong), *others = examine(str(tmp_path / "none.yaml"), (), print)
    assert first == "lab file"
    assert "none.yaml: this file does not exist" in wrong[0].message
    text = [line for check, findings in others for line in lines(check, findings)]
    assert text == ["-    all other checks       not checked: the lab file is wrong"]
