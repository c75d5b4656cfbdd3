"""Which ends reach each other, and which must not: network namespaces as ends, bridges as switches."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import LinkError
from pytest_pinet.evidence.interface import InterfaceState, read_interface
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link import link as link_module
from pytest_pinet.lab.link.end import End
from pytest_pinet.lab.link.link_checks import check_reachable
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.combination import Endpoint
from tests.support.namespaces import NamespaceShell, ip

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

NODES = "abcd"
LAB = "pinet:\n  switches: {sw1: {backend: fixed, ports: p1-p8}}\n  nodes:\n" + "".join(
    f"    {name}: {{board: cm4, interfaces: {{pcie: {{nic: aqc107, port: sw1/p{i}, device: eth0}},"
    f" onboard: {{port: sw1/p{i + 4}, device: eth1}}}}}}\n"
    for i, name in enumerate(NODES, start=1)
)
MakeEnds = Callable[..., list[End]]


@pytest.fixture
def make_ends(tmp_path: Path) -> Iterator[MakeEnds]:
    """Yield ends of these nodes, each with an address and a cable to the named bridge."""
    file = tmp_path / "four.yaml"
    file.write_text(LAB)
    nodes = load(file).nodes
    switch = f"pinet-{os.getpid()}-switch"
    shells = {name: NamespaceShell(name, f"pinet-{os.getpid()}-{name}") for name in NODES}

    def make(*wanted: tuple[str, str, str, str]) -> list[End]:
        ends = []
        for node, device, bridge, address in wanted:
            shell = shells[node]
            if not NamespaceShell("switch", switch).run(f"ip link show {bridge}").stdout:
                ip(f"-n {switch} link add {bridge} type bridge")
                ip(f"-n {switch} link set {bridge} up")
            ip(f"-n {shell.namespace} link add {device} type veth peer name {node}{device} netns {switch}")
            ip(f"-n {switch} link set {node}{device} master {bridge} up")
            ip(f"-n {shell.namespace} link set {device} up")
            ip(f"-n {shell.namespace} addr add {address} dev {device}")
            interface = nodes[node].interface("pcie" if device == "eth0" else "onboard")
            session = cast(NodeSession, SimpleNamespace(shell=shell, facts={}))
            ends.append(End(Endpoint(nodes[node], interface), session, shell, ipaddress.IPv4Interface(address)))
        return ends

    for namespace in (switch, *(shell.namespace for shell in shells.values())):
        ip(f"netns add {namespace}")
    try:
        yield make
    finally:
        for namespace in (switch, *(shell.namespace for shell in shells.values())):
            ip(f"netns del {namespace}")


def states(ends: Sequence[End]) -> list[InterfaceState]:
    return [read_interface(end.shell, end.device) for end in ends]


@pytest.mark.parametrize("isolated", [True, False])
def test_a_switch_that_does_not_isolate_segments_is_an_error(make_ends: MakeEnds, isolated: bool) -> None:
    second = "br2" if isolated else "br1"
    ends = make_ends(
        ("a", "eth0", "br1", "198.18.0.1/29"),
        ("b", "eth0", "br1", "198.18.0.2/29"),
        ("c", "eth0", second, "198.18.0.3/29"),
        ("d", "eth0", second, "198.18.0.4/29"),
    )
    message = r"a eth0 \(port p1 .* reaches c eth0 \(port p3 .*does not isolate the groups"
    with nullcontext() if isolated else pytest.raises(LinkError, match=message):
        check_reachable([ends[:2], ends[2:]], states(ends), isolated=True)
    # A switch without this capability has fixed wiring.
    check_reachable([ends[:2], ends[2:]], states(ends), isolated=False)


def test_an_end_that_is_not_in_the_segment_is_named(make_ends: MakeEnds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_pinet.lab.link.link_checks.REACH_TIMEOUT_S", 1.5)
    ends = make_ends(
        ("a", "eth0", "br1", "198.18.0.1/29"),
        ("b", "eth0", "br1", "198.18.0.2/29"),
        ("c", "eth0", "br2", "198.18.0.3/29"),
    )
    with pytest.raises(LinkError, match=r"a eth0 .* does not reach c eth0 \(port p3 of switch sw1\) within 2 s"):
        check_reachable([ends], states(ends), isolated=True)


def test_another_machine_at_the_address_is_named_by_its_mac(make_ends: MakeEnds) -> None:
    ends = make_ends(("a", "eth0", "br1", "198.18.0.1/30"), ("b", "eth0", "br1", "198.18.0.2/30"))
    found = states(ends)
    found[1] = replace(found[1], mac="02:00:00:00:00:99")
    with pytest.raises(LinkError, match=r"a eth0 .* reaches 198.18.0.2 at MAC .*, but b eth0 .* has 02:00:00:00:00:99"):
        check_reachable([ends], found, isolated=True)


def test_a_node_forwards_between_two_nics_until_the_undo(make_ends: MakeEnds) -> None:
    dut, near, second, far = make_ends(
        ("a", "eth0", "br1", "198.18.0.1/30"),
        ("b", "eth0", "br1", "198.18.0.2/30"),
        ("a", "eth1", "br2", "198.18.0.5/30"),
        ("c", "eth0", "br2", "198.18.0.6/30"),
    )

    def settings() -> tuple[str, str, str]:
        forwarding_of = dut.shell.run("cat /proc/sys/net/ipv4/conf/eth[01]/forwarding").stdout
        return forwarding_of, near.shell.run("ip route").stdout, far.shell.run("ip route").stdout

    before = settings()
    undo = UndoStack()
    link_module.set_up_forwarding(dut, near, second, far, undo)
    assert near.shell.run(f"ping -c 1 -W 5 {far.ip}").returncode == 0
    assert settings()[0].split() == ["1", "1"]
    assert undo.close() == []
    assert settings() == before


def test_a_node_that_does_not_forward_is_named(make_ends: MakeEnds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "FORWARDING_TIMEOUT_S", 1.5)
    dut, near, second, far = make_ends(
        ("a", "eth0", "br1", "198.18.0.1/30"),
        ("b", "eth0", "br1", "198.18.0.2/30"),
        ("a", "eth1", "br2", "198.18.0.5/30"),
        ("c", "eth0", "br2", "198.18.0.6/30"),
    )
    dut.shell.run("nft 'add table ip f; add chain ip f c { type filter hook forward priority 0; policy drop; }'")
    undo = UndoStack()
    with pytest.raises(LinkError, match=r"b eth0 .* does not reach c eth0 .* through a within 2 s"):
        link_module.set_up_forwarding(dut, near, second, far, undo)
    assert undo.close() == []
