"""A ping between two network namespaces: its values, and the settings of both ends in its result."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pytest_pinet.judge.baseline import Reference
from pytest_pinet.judge.gate import GatePlan
from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.measure.figures import measure
from pytest_pinet.measure.ping import Pings
from pytest_pinet.model.traffic import Ping
from tests.support import link_stand_in
from tests.support.namespaces import ip
from tests.support.shaped_link import shaped_link

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(shutil.which("ping") is None, reason="not installed: ping"),
]


def test_a_ping_has_the_settings_of_both_ends(tmp_path: Path) -> None:
    raw: dict[str, str] = {}
    with shaped_link() as cable:
        for number, shell in enumerate((cable.dut, cable.peer), 1):
            ip(f"-n {shell.namespace} addr add 192.0.2.{number}/24 dev eth0")
        link = link_stand_in.link(tmp_path, shells=(cable.dut, cable.peer))
        pings = Pings(Ping(count=2, interval_s=0.01))
        found = measure(link, pings, GatePlan((), PROFILES["standard"]), lambda *_: Reference(), raw)
    assert found.figures is not None, raw
    assert found.figures["loss"].values == (0, 0, 0)
    assert 0 < (found.figures["rtt_min"].value or 0) <= (found.figures["latency"].value or 0)
    assert found.settings is not None
    assert [own["end"] for own in found.settings.values()] == ["one:onboard", "two:onboard"]
    assert found.settings["dut"]["kernel"] == f"{os.uname().release} {os.uname().version}"
