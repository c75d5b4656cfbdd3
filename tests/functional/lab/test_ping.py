"""A ping between two network namespaces: its values, and the settings of both ends in its result."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pytest_pinet.judge.profile import PROFILES
from pytest_pinet.measure.ping import measure
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
        found = measure(link, Ping(count=2, interval_s=0.01), (), PROFILES["standard"], raw)
    assert found.ping is not None, raw
    assert (found.ping.sent, found.ping.received) == (2, 2)
    assert found.settings is not None
    assert [own["end"] for own in found.settings.values()] == ["one:onboard", "two:onboard"]
    assert found.settings["dut"]["kernel"] == f"{os.uname().release} {os.uname().version}"
