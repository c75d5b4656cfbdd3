"""The wire's capacity decides which limits are possible."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConfigError

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


def test_941_in_both_directions_at_once_is_refused_as_above_the_bound(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a limit of 941\.0 Mbit/s can never be met: .* each way"):
        loaded(tmp_path / "lab.yaml", "bidir", 941)
    loaded(tmp_path / "lab.yaml", "tx", 941)
    loaded(tmp_path / "lab.yaml", "bidir", 915)
