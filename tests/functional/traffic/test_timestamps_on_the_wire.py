"""The two goodput values of a gigabit wire: 941 Mbit/s with TCP timestamps, 949 without."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gate_project import NewProject

pytestmark = pytest.mark.slow

TEST = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard", tuning=[{}, {"timestamps": "off"}], min="50%")
def test_wire(link, gate):
    gate.tcp(link, "tx", duration=1)
"""


def test_a_link_without_tcp_timestamps_is_judged_by_what_it_carries_without_them(new_project: NewProject) -> None:
    project = new_project({"test_wire.py": TEST})
    project.pytest().assert_outcomes(passed=2)
    values: dict[str, dict[str, Any]] = {
        result["combination"]["id"]: result["directions"]["tx"] for result in project.results["results"]
    }
    stamped, plain = values["pi4b:onboard/pair"], values["pi4b:onboard/pair/timestamps=off"]
    assert "no TCP timestamps" in plain["oracle"]
    assert "no TCP timestamps" not in stamped["oracle"]
    assert (stamped["oracle_bps"] / 1e6, plain["oracle_bps"] / 1e6) == pytest.approx((941.5, 949.3), abs=0.05)
    for value in (stamped, plain):
        assert value["limit"]["number"] == pytest.approx(0.5 * value["oracle_bps"])
        assert value["goodput_bps"] < 1.005 * value["oracle_bps"]
