"""A lab with links at a tenth of their rate reports values at full rate, and says so."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.virtual.scale import ENOUGH, Trial, Trials, carried
from pytest_pinet.virtual.spec import spec_of
from tests.support.gate_project import LAB_FILE, GateLab

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]


def test_auto_runs_at_a_tenth_where_this_machine_was_too_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "virtual.yaml"
    file.write_text(LAB_FILE.read_text())
    # As on a machine that carries less than half of it.
    fastest_bps = spec_of(load(file)).fastest_bps
    Trials().add(Trial(fastest_bps, 0.42, datetime.now(UTC).isoformat(timespec="seconds")))
    lab = GateLab(file)
    try:
        found = lab.status()
        assert found["scale"] == 0.1
        assert found["scale_because"].startswith("this machine carried 42 % of 2.46 Gbit/s on 20")
        (line,) = (line for line in lab.pinet("status").splitlines() if line.startswith("links run at 0.1"))
        assert len(line) <= 80
        # This command also reports rates at full rate.
        assert max(i["tx_goodput_bps"] for node in found["nodes"] for i in node["interfaces"]) > 2e9
    finally:
        lab.down()


def test_a_trial_tells_what_this_machine_carries_and_what_it_does_not() -> None:
    # So little that the queues of the path can bridge the time that other work takes a processor away.
    assert carried(5e6) >= ENOUGH
    assert carried(200e9) < 0.9
