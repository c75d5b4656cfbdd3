"""Carrier that is lost at the far end: how long the link is silent, what does not count, and what is undone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import CapabilityError
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.judge.shares import ShareRule
from pytest_pinet.lab.link import link as link_module
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.switch.fixed import FixedSwitch
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.measure.recovery import Recovery
from pytest_pinet.model.combination import Combination, Endpoint
from pytest_pinet.traffic.iperf3 import Iperf3
from pytest_pinet.tuning.journal import replay
from tests.support.gate_project import GateLab
from tests.support.namespaces import TWO_BOARDS, NamespaceShell, ip
from tests.support.visited_link import visited

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(shutil.which("ping") is None, reason="not installed: ping"),
]

# Drops all answers to pings.
DEAF = (
    "PATH=$PATH:/usr/sbin; nft 'add table inet deaf;"
    " add chain inet deaf rx { type filter hook prerouting priority -300; };"
    " add rule inet deaf rx icmp type echo-reply drop'"
)


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Link]:
    """Yield a link between two namespaces. The session of each end has no driver of labgrid."""
    file = tmp_path / "two.yaml"
    file.write_text(TWO_BOARDS)
    lab = load(file)
    shells = [NamespaceShell(name, f"pinet-{os.getpid()}-{name}") for name in ("left", "right")]
    for shell in shells:
        ip(f"netns add {shell.namespace}")
    undo = UndoStack()
    try:
        left, right = shells
        ip(f"-n {left.namespace} link add eth0 type veth peer name eth0 netns {right.namespace}")
        sessions = {
            shell.name: cast(NodeSession, SimpleNamespace(shell=shell, facts={}, strategy=None)) for shell in shells
        }
        ends = [Endpoint(lab.nodes[name], lab.nodes[name].interface("pcie")) for name in ("left", "right")]
        switch = ManagedSwitch(lab.switches["sw1"], FixedSwitch(), Journal(str(file), tmp_path / "journal"))
        yield link_module.connect(Combination.pair(*ends), sessions, {"sw1": switch}, undo)
        assert undo.close() == []
    finally:
        for shell in shells:
            ip(f"netns del {shell.namespace}")


RULE = ShareRule.passing_after(5, 0.02)


def no_boot(_: Link) -> None:
    pytest.fail("the link came back, so nothing needs a boot")


def neighbours(link: Link) -> str:
    return "".join(end.shell.run("ip neigh show dev eth0").stdout for end in link.ends)


def test_the_silence_is_as_long_as_the_carrier_is_away(link: Link) -> None:
    found = Recovery(Iperf3(), no_boot, down_s=0.5, rule=RULE).once(link, None)
    # A busy machine may add to it, but nothing makes it shorter. Without the permanent neighbour it is 1 s or more.
    assert 0.49 <= found.values["silence"] < 1.0 or found.excluded, found.notes
    assert found.values["goodput_after"] > 0.001
    assert found.notes == ("eth0 of right was down for 0.5 s",)
    assert "PERMANENT" not in neighbours(link)
    # A veth without a queue can refuse each packet while its far end is down. Ping then prints nothing: it looks like
    # a pause of the sender, so such a flap does not count.
    assert found.excluded or "no answer yet" in found.raw


def test_a_link_that_does_not_come_back_is_silent_for_the_whole_time(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_pinet.measure.recovery.RECOVERY_TIMEOUT_S", 2.0)
    # As a driver that receives nothing any more after a replug.
    run = link.peer.shell.run

    def dead(command: str, timeout_s: float = 10.0) -> object:
        if "link set eth0 down" in command:
            link.dut.shell.run(DEAF)
        return run(command, timeout_s)

    monkeypatch.setattr(link.peer.shell, "run", dead)
    booted: list[Link] = []
    found = Recovery(Iperf3(), booted.append, down_s=0.5, rule=RULE).once(link, None)
    assert found.values["silence"] >= 2.0
    assert found.values["goodput_after"] == 0.0
    assert found.notes[1] == "no answer within 2 s after the carrier was given back"
    assert booted == [link]
    # Whatever its limit is: a link that did not come back is bad.
    whole = Recovery(Iperf3(), booted.append, down_s=0.5, silence_s=60.0, rule=RULE)
    assert whole.why_bad(found).startswith("silent for 2.")


def test_a_far_end_that_does_not_change_the_carrier_is_a_skip(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    # As with an unmanaged switch in between: the peer's device goes down, and the carrier of the board stays.
    run = link.peer.shell.run
    kept = {"ip link set eth0 down": "true"}

    def in_between(command: str, timeout_s: float = 10.0) -> object:
        for old, new in kept.items():
            command = command.replace(old, new)
        return run(command, timeout_s)

    monkeypatch.setattr(link.peer.shell, "run", in_between)
    with pytest.raises(CapabilityError, match=r"left eth0 .* kept its carrier while eth0 of right was down"):
        Recovery(Iperf3(), no_boot, down_s=0.2, rule=RULE).once(link, None)
    assert "PERMANENT" not in neighbours(link)


def test_the_carrier_of_our_own_connection_is_not_taken_away(link: Link) -> None:
    link.dut.session.facts.clear()
    ip(f"-n {link.dut.shell.namespace} addr add 192.168.1.7/24 dev eth0")  # type: ignore[attr-defined]
    link.dut.shell.environment["SSH_CONNECTION"] = "192.168.1.2 40000 192.168.1.7 22"  # type: ignore[attr-defined]
    with pytest.raises(CapabilityError, match="carries the ssh connection of this run, so its carrier is not taken"):
        Recovery(Iperf3(), no_boot, rule=RULE).once(link, None)


def test_a_killed_run_leaves_its_neighbours_to_the_next_lease(link: Link) -> None:
    from pytest_pinet.lab.link import far_end

    far_end.keep_neighbours(link, UndoStack())
    assert neighbours(link).count("PERMANENT") == 2
    for end in link.ends:
        assert any(what.startswith("neighbour ") for what in replay(end.shell).done)
    assert "PERMANENT" not in neighbours(link)


def test_the_switch_port_of_the_board_goes_down_and_comes_up_again(gate_lab: GateLab) -> None:
    with visited(gate_lab) as (here, link), here.exclusive(link.combination):
        port, switch = link.dut.port.port, link.switches[link.dut.port.switch]
        found = Recovery(here.tool, no_boot, down_s=0.5, rule=RULE).once(link, here.watch)
        assert found.notes == (f"port {port} of switch sw1 was down for 0.5 s",)
        assert 0.49 <= found.values["silence"] < 1.5 or found.excluded
        assert found.values["goodput_after"] > 0.3
        assert switch.state(port).admin_up is True
