"""The wire's capacity decides which limits are possible."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConfigError
from pytest_pinet.judge.gate import judge
from pytest_pinet.judge.oracle import highest_limit, tcp_goodput
from pytest_pinet.model.hardware import Bus
from pytest_pinet.model.limits import Limit, Origin
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.verdict import Verdict

LAB = """\
pinet:
  switches:
    sw: {{backend: fixed, ports: [p1, p2]}}
  nodes:
    a: {{board: pi4b, interfaces: {{onboard: {{port: sw/p1}}}}}}
    b: {{board: pi4b, interfaces: {{onboard: {{port: sw/p2}}}}}}
  limits:
    - {{board: pi4b, direction: {direction}, min: {mbps} Mbit/s}}
"""


def loaded(path: Path, direction: str, mbps: float) -> None:
    path.write_text(LAB.format(direction=direction, mbps=mbps))
    load(path)


def test_timestamps_are_the_difference_between_941_and_949_mbps() -> None:
    assert tcp_goodput(1000, 1500, timestamps=True).bps / 1e6 == pytest.approx(941.5, abs=0.05)
    assert tcp_goodput(1000, 1500, timestamps=False).bps / 1e6 == pytest.approx(949.3, abs=0.05)


def test_941_in_both_directions_at_once_is_refused_as_above_the_bound(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a limit of 941\.0 Mbit/s can never be met: .* each way"):
        loaded(tmp_path / "lab.yaml", "bidir", 941)
    loaded(tmp_path / "lab.yaml", "tx", 941)
    loaded(tmp_path / "lab.yaml", "bidir", 915)


def test_an_impossible_limit_in_both_directions_is_invalid() -> None:
    limit = Limit(Bitrate.mbps(941), Origin.MARKER, "min='941 Mbit/s' of the marker")
    both = highest_limit(1000, 1500, Bus.SOC, both_ways=True)
    judged = judge(Bitrate.mbps(936), both, limit)
    assert judged.verdict is Verdict.INVALID
    assert "941" in judged.reason
