"""A board of the virtual lab that forwards with address translation, and undoes it."""

from __future__ import annotations

import shutil

import pytest

from pytest_pinet.lab.link import tuning_session
from pytest_pinet.lab.link.end import change
from pytest_pinet.measure.traffic_runner import MeasureContext, Runs
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.model.tuning import SettingOutcome
from pytest_pinet.tuning.registry import read_tuning
from tests.support.gate_project import GateLab
from tests.support.visited_link import visited

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("nft") is None, reason="not installed: nft")]


def test_a_chain_translates_addresses_in_both_directions(gate_lab: GateLab) -> None:
    with visited(gate_lab, "pi4b:onboard/chain") as (here, link):
        _, near, second, far = link.ends
        trouble: list[str] = []
        ping = f"ping -n -q -c 1 -W 1 -I {far.device} {near.ip}"
        route = f"ip route replace {far.address.network} via {link.dut.ip} dev {near.device}"
        # Without a route back, only an answer to the board itself arrives.
        change(near.shell, f"ip route del {far.address.network}")
        try:
            assert far.shell.run(ping).returncode != 0
            with tuning_session.tuned(link, read_tuning({"nat": "masquerade"}), trouble.append) as outcomes:
                assert [one.outcome for one in outcomes] == [SettingOutcome.APPLIED, SettingOutcome.APPLIED]
                assert far.shell.run(ping).returncode == 0
                change(near.shell, route)
                tables = link.dut.shell.run("nft list tables").stdout.split()
                for way in (Direction.TX, Direction.RX):
                    with here.measuring(link.combination), Runs(MeasureContext(link, here.tool), 10.0) as runs:
                        assert runs.again(Traffic(way, duration_s=1.0)).towards(way).goodput.bps > 1e6
                        runs.finish(Traffic(way, duration_s=1.0))
                assert {f"pinet_nat_{end.device}" for end in (link.dut, second)} <= set(tables)
            change(near.shell, f"ip route del {far.address.network}")
            assert far.shell.run(ping).returncode != 0
            assert "pinet" not in link.dut.shell.run("nft list ruleset").stdout
        finally:
            change(near.shell, route)
        assert trouble == []
