"""The two truths of a gigabit wire, measured: 941 Mbit/s with TCP timestamps, 949 without."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import pytest
from gate_bench import NewProject

pytestmark = pytest.mark.slow

TEST = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard", tuning=[{}, {"timestamps": "off"}])
def test_wire(link, gate):
    for _ in range(3):
        gate.tcp(link, "tx", streams=4)
"""


def test_941_and_949_differ_by_tcp_timestamps(new_project: NewProject) -> None:
    project = new_project({"test_wire.py": TEST})
    project.pytest()
    figures: dict[str, list[dict[str, Any]]] = {}
    for result in project.results["results"]:
        figures.setdefault(result["combination"]["id"], []).append(result["directions"]["tx"])
    # Whatever else this machine does takes from a figure, and adds to none.
    stamped, plain = (
        max(figures[name], key=itemgetter("goodput_bps"))
        for name in ("pi4b:onboard/pair", "pi4b:onboard/pair/timestamps=off")
    )
    assert "no TCP timestamps" in plain["oracle"]
    assert "no TCP timestamps" not in stamped["oracle"]
    assert (stamped["oracle_bps"] / 1e6, plain["oracle_bps"] / 1e6) == pytest.approx((941.5, 949.3), abs=0.05)
    assert stamped["goodput_bps"] / 1e6 == pytest.approx(941.5, abs=3.5)
    assert plain["goodput_bps"] / 1e6 == pytest.approx(949.3, abs=3.5)
    assert (plain["goodput_bps"] - stamped["goodput_bps"]) / 1e6 == pytest.approx(7.8, abs=3)
