"""Two nodes with two NICs each, all on one unmanaged switch: each link uses its own NICs, in both directions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import LinkError
from pytest_pinet.evidence.interface import read_interface
from pytest_pinet.execution.shell import Completed
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link import end as end_module
from pytest_pinet.lab.link import link, link_checks
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.switch.fixed import FixedSwitch
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.model.combination import Combination, Endpoint
from pytest_pinet.model.lab import Lab
from pytest_pinet.tuning.journal import replay
from tests.support.namespaces import NamespaceShell, ip

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

LAB = """\
pinet:
  boards:
    pc: {clock_mhz: 1000, cores: 1, buses: [pcie3x1]}
  nics:
    cable: {driver: veth, bus: pcie3x1, speeds_mbps: [10000]}
  switches:
    sw1: {backend: fixed, ports: p1-p4}
  nodes:
    left:
      board: pc
      interfaces: {a: {nic: cable, port: sw1/p1}, b: {nic: cable, port: sw1/p2}}
    right:
      board: pc
      interfaces: {a: {nic: cable, port: sw1/p3}, b: {nic: cable, port: sw1/p4}}
"""
NODES = ("left", "right")
NAMES = ("a", "b")
# Each of the four NICs under test, with each NIC of the other node as its peer.
LINKS = [(dut, a, peer, b) for dut, peer in permutations(NODES) for a, b in product(NAMES, NAMES)]
# The kernel's own values. With a strict rp_filter the wrong NIC would not answer.
DEFAULTS = {"arp_ignore": 0, "arp_announce": 0, "rp_filter": 0}


@dataclass
class Bench:
    """The nodes, and the switch that all their NICs are cabled to."""

    lab: Lab
    shells: dict[str, NamespaceShell]
    switch: ManagedSwitch
    journal: Path

    def connect(self, dut: str, a: str, peer: str, b: str, undo: UndoStack) -> link.Link:
        ends = [Endpoint(self.lab.nodes[n], self.lab.nodes[n].interface(i)) for n, i in ((dut, a), (peer, b))]
        sessions = {n: cast(NodeSession, SimpleNamespace(shell=s, facts={})) for n, s in self.shells.items()}
        return link.connect(Combination.pair(*ends), sessions, {"sw1": self.switch}, undo)

    def settings(self) -> str:
        files = " ".join(f"/proc/sys/net/ipv4/conf/*/{name}" for name in DEFAULTS)
        return "".join(shell.run(f"grep -H . {files}").stdout for shell in self.shells.values())

    def entries(self) -> list[str]:
        return sorted(path.name for path in self.journal.glob("*"))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(end_module, "ARP_JOURNAL", str(tmp_path / "undo"))
    file = tmp_path / "four.yaml"
    file.write_text(LAB)
    lab = load(file)
    shells = {name: NamespaceShell(name, f"pinet-{os.getpid()}-{name}") for name in NODES}
    switch = NamespaceShell("switch", f"pinet-{os.getpid()}-switch")
    everything = (switch, *shells.values())
    for shell in everything:
        ip(f"netns add {shell.namespace}")
    try:
        switch.run("ip link add br0 type bridge && ip link set br0 up")
        for name, shell in shells.items():
            # eth2 is not in the lab file.
            for index in range(3):
                port = f"{name}{index}"
                ip(f"-n {shell.namespace} link add eth{index} type veth peer name {port} netns {switch.namespace}")
                switch.run(f"ip link set {port} master br0 up")
                values = "; ".join(f"echo {v} >/proc/sys/net/ipv4/conf/eth{index}/{n}" for n, v in DEFAULTS.items())
                shell.run(f"{values}; ip link set eth{index} up")
        fixed = ManagedSwitch(lab.switches["sw1"], FixedSwitch(), Journal(str(file), tmp_path / "journal"))
        yield Bench(lab, shells, fixed, tmp_path / "undo")
    finally:
        for shell in everything:
            ip(f"netns del {shell.namespace}")


def test_each_of_four_nics_in_one_segment_is_reached_at_its_own_address(bench: Bench) -> None:
    before = bench.settings()
    for dut, a, peer, b in LINKS:
        undo = UndoStack()
        found = bench.connect(dut, a, peer, b, undo)
        # Also with empty tables, whichever NIC answers first.
        for here, there in (found.ends, found.ends[::-1]):
            mac = read_interface(there.shell, there.device).mac
            for _ in range(5):
                here.shell.run("ip neigh flush all")
                assert here.shell.run(f"ping -n -q -c 1 -W 5 -I {here.device} {there.ip}").returncode == 0
                assert f"{there.ip} dev {here.device} lladdr {mac}" in here.shell.run("ip neigh").stdout
        assert bench.settings() != before
        assert undo.close() == []
        assert bench.settings() == before
        assert bench.entries() == []


def test_without_the_settings_the_node_answers_with_any_of_its_nics(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is what the settings are for: 8 of 8 links ended with this error."""
    monkeypatch.setattr(link, "answer_for_own_addresses", lambda *_: None)
    errors = []
    for ends in LINKS:
        undo = UndoStack()
        try:
            bench.connect(*ends, undo)
        except LinkError as error:
            errors.append(error.message)
        assert undo.close() == []
    assert errors
    assert all(" at MAC " in error for error in errors)


@pytest.mark.parametrize("rp_filter", [1, 2])
def test_a_link_opens_whatever_the_nodes_filter(bench: Bench, rp_filter: int) -> None:
    for shell in bench.shells.values():
        shell.run(f"echo {rp_filter} >/proc/sys/net/ipv4/conf/all/rp_filter")
    undo = UndoStack()
    bench.connect("left", "b", "right", "b", undo)
    assert undo.close() == []


def test_values_that_already_hold_are_left_alone(bench: Bench) -> None:
    for shell in bench.shells.values():
        shell.run("echo 2 >/proc/sys/net/ipv4/conf/all/arp_ignore; echo 2 >/proc/sys/net/ipv4/conf/eth0/arp_announce")
    before = bench.settings()
    undo = UndoStack()
    bench.connect("left", "a", "right", "a", undo)
    assert bench.settings() == before
    assert bench.entries() == []
    assert undo.close() == []


def test_an_interruption_while_the_link_opens_undoes_the_settings(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bench.settings()

    def interrupt(*_: object, **__: object) -> None:
        assert bench.settings() != before
        raise KeyboardInterrupt

    monkeypatch.setattr(link_checks, "check_reachable", interrupt)
    undo = UndoStack()
    with pytest.raises(KeyboardInterrupt):
        bench.connect("left", "a", "right", "b", undo)
    assert undo.close() == []
    assert bench.settings() == before


def test_the_next_run_undoes_the_settings_of_a_crashed_run(bench: Bench) -> None:
    before = bench.settings()
    bench.connect("left", "a", "right", "b", UndoStack())
    assert bench.settings() != before
    # A namespace has no files of its own: the entry of the other node is kept aside.
    other, mine = sorted(bench.entries(), key=lambda name: "settings of left" in (bench.journal / name).read_text())
    (bench.journal / other).rename(bench.journal.parent / other)
    left = replay(bench.shells["left"], str(bench.journal))
    assert (left.done, left.failed) == (("ARP settings of left",), ())
    (bench.journal.parent / other).rename(bench.journal / mine)
    assert replay(bench.shells["right"], str(bench.journal)).done == ("ARP settings of right",)
    assert bench.settings() == before


def test_the_undo_skips_a_nic_that_was_unplugged_meanwhile(bench: Bench) -> None:
    undo = UndoStack()
    bench.connect("left", "a", "right", "b", undo)
    bench.shells["left"].run("ip link del eth2")
    assert undo.close() == []


def test_a_node_that_refuses_the_settings_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = bench.shells["right"]
    run = shell.run

    def read_only(command: str, timeout_s: float = 10.0) -> Completed:
        return run(command.replace("echo 1 > /proc/sys/", "echo 1 > /proc/sys/no/"), timeout_s)

    monkeypatch.setattr(shell, "run", read_only)
    undo = UndoStack()
    with pytest.raises(LinkError, match=r"right refused arp_ignore=1 and arp_announce=2, .*\n  -> on right: check"):
        bench.connect("left", "a", "right", "a", undo)
    assert undo.close() == []
