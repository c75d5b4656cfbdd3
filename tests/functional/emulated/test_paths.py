"""What a gate call sets up on its path between two emulated boards, whose kernels have netem and 802.1Q."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_pinet.lab.link import tuning_session
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.link.path_setup import set_up
from pytest_pinet.lab.link.rate_shaper import is_reduced
from pytest_pinet.model.combination import Combination, Endpoint
from pytest_pinet.model.traffic import PathSetup, Ping, PingReport
from pytest_pinet.model.tuning import SettingOutcome
from pytest_pinet.traffic import ping
from pytest_pinet.tuning.registry import read_tuning
from tests.support.emulated_gate import NEEDS, emulated_session

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]


@pytest.fixture(scope="module")
def link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Link]:
    with emulated_session(tmp_path_factory.mktemp("paths")) as here:
        dut, peer = (here.lab.nodes[name] for name in ("virt-1", "virt-2"))
        ends = (Endpoint(node, node.interface("pcie")) for node in (dut, peer))
        with here.open(Combination.pair(*ends)) as opened:
            yield opened


def pinged(link: Link) -> PingReport:
    return ping.measure(link.dut.shell, Ping(20, 0.05), link.dut.ip, link.peer.ip, "peer")[0]


def test_delay_and_loss_are_added_at_the_peer_and_removed(link: Link) -> None:
    root = link.peer.shell.run("PATH=$PATH:/usr/sbin:/sbin; tc qdisc show").stdout
    with set_up(link, PathSetup(delay_s=0.2)) as slow:
        # Two clocks that count instructions do not run evenly.
        found = pinged(slow)
        assert found.mean_s is not None
        assert found.mean_s > 0.1
        assert "netem" in slow.peer.shell.run("PATH=$PATH:/usr/sbin:/sbin; tc qdisc show").stdout
    with set_up(link, PathSetup(6, loss=0.5)) as lossy:
        assert 0 < pinged(lossy).received < 20
    assert not is_reduced(link.peer)
    assert link.peer.shell.run("PATH=$PATH:/usr/sbin:/sbin; tc qdisc show").stdout == root
    assert pinged(link).received == 20


def test_frames_have_a_vlan_tag(link: Link) -> None:
    with set_up(link, PathSetup(vlan=7)) as tagged:
        assert tagged.dut.device == "eth0.7"
        assert pinged(tagged).received == 20
        assert "vlan protocol 802.1Q id 7" in tagged.peer.shell.run("ip -d link show eth0.7").stdout
    assert "eth0.7" not in link.dut.shell.run("ip -o link").stdout + link.peer.shell.run("ip -o link").stdout


@pytest.mark.parametrize(("speed", "mode"), [(100, "100baseT/Full"), ("100-half", "100baseT/Half")])
def test_a_nic_that_stays_at_its_speed_has_no_effect(link: Link, speed: int | str, mode: str) -> None:
    shell, trouble = link.dut.shell, list[str]()
    modes = shell.run("ethtool eth0").stdout
    with tuning_session.tuned(link, read_tuning({"speed": speed}), trouble.append) as (tuned,):
        # QEMU's e1000e takes what it advertises, and its link stays at 1000 Mbit/s.
        assert (tuned.outcome, tuned.found) == (SettingOutcome.UNSUPPORTED, f"advertises {mode}")
    assert trouble == []
    assert shell.run("ethtool eth0").stdout == modes
