"""A link opens only over the NICs of the lab file, on the board of the lab file; each mismatch makes a result invalid.

The nodes are network namespaces. A program in the place of ethtool says what each NIC is, by its MAC address, as a
driver does: also after the NIC got another name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import InvalidMeasurement, with_act
from pytest_pinet.execution.shell import Completed
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link import end as end_module
from pytest_pinet.lab.link import link
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.switch.fixed import FixedSwitch
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.model.combination import Combination, Endpoint
from tests.support.namespaces import NamespaceShell, ip

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

LAB = """\
pinet:
  boards:
    pc: {clock_mhz: 1000, cores: 1, buses: [usb2, pcie3x1], model: Stand-in}
  nics:
    cable: {driver: veth, bus: pcie3x1, speeds_mbps: [10000]}
    asix: {driver: ax88179_178a, bus: usb2, speeds_mbps: [10000]}
    realtek: {driver: r8152, bus: usb2, speeds_mbps: [10000]}
  switches:
    sw1: {backend: fixed, ports: p1-p4}
  nodes:
    pi:
      board: pc
      interfaces:
        first: {nic: asix, port: sw1/p1, WAY1}
        second: {nic: realtek, port: sw1/p2, WAY2}
    peer:
      board: pc
      interfaces:
        pcie: {nic: cable, port: sw1/p3, device: eth0}
"""
FIRST, SECOND = "a0:ce:c8:00:00:01", "00:e0:4c:00:00:02"
ETHTOOL = f"""\
#!/bin/sh
read -r mac <"/sys/class/net/$2/address"
case "$1 $mac" in
"-i {FIRST}") echo "driver: ax88179_178a"; echo "bus-info: usb-0000:01:00.0-1.1" ;;
"-i {SECOND}") echo "driver: r8152"; echo "bus-info: usb-0000:01:00.0-1.2" ;;
-i*) echo "driver: veth"; echo "bus-info: " ;;
-P*) echo "Permanent address: not set" ;;
*) exit 75 ;;
esac
"""
BY_NAME = ("device: eth1", "device: eth2")
BY_MAC = (f"mac: '{FIRST}'", f"mac: '{SECOND}'")
BY_BUS = ("bus_info: 'usb-0000:01:00.0-1.1'", "bus_info: 'usb-0000:01:00.0-1.2'")
SWAP = "for n in 1 2; do ip link set eth$n name old$n; done; ip link set old1 name eth2; ip link set old2 name eth1"


class Bench:
    """A node with two adapters that are not up yet, and its peer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tool = folder / "bin/ethtool"
        tool.parent.mkdir()
        tool.write_text(ETHTOOL)
        tool.chmod(0o755)
        (folder / "model").write_text("Stand-in Rev 1.0\0")
        environment = {"PATH": f"{tool.parent}:{os.environ['PATH']}"}
        self.shells = {n: NamespaceShell(n, f"pinet-{os.getpid()}-{n}", environment) for n in ("pi", "peer")}
        for shell in self.shells.values():
            self._with_device_tree(shell)
        self.switch = NamespaceShell("switch", f"pinet-{os.getpid()}-switch")
        self.undo = UndoStack()
        self.sessions = {n: cast(NodeSession, SimpleNamespace(shell=s, facts={})) for n, s in self.shells.items()}

    def _with_device_tree(self, shell: NamespaceShell) -> None:
        """Let this file be the model in the device tree, which a PC does not have."""
        run = shell.run

        def with_model(command: str, timeout_s: float = 10.0) -> Completed:
            return run(command.replace("$root/proc/device-tree/model", str(self.folder / "model")), timeout_s)

        shell.run = with_model  # type: ignore[method-assign]

    def set_up(self) -> None:
        pi, peer, switch = self.shells["pi"].namespace, self.shells["peer"].namespace, self.switch.namespace
        self.switch.run("ip link add br0 type bridge && ip link set br0 up")
        for namespace, device, mac in ((pi, "eth1", FIRST), (pi, "eth2", SECOND), (peer, "eth0", "02:00:00:00:00:03")):
            port = f"port{mac[-1]}"
            ip(f"-n {namespace} link add {device} address {mac} type veth peer name {port} netns {switch}")
            self.switch.run(f"ip link set {port} master br0 up")

    def connect(self, ways: tuple[str, str], name: str) -> link.Link:
        """Open a link between this interface of the node and the peer."""
        file = self.folder / "lab.yaml"
        file.write_text(LAB.replace("WAY1", ways[0]).replace("WAY2", ways[1]))
        lab = load(file)
        fixed = ManagedSwitch(lab.switches["sw1"], FixedSwitch(), Journal(str(file), self.folder / "journal"))
        ends = [Endpoint(lab.nodes[n], lab.nodes[n].interface(i)) for n, i in (("pi", name), ("peer", "pcie"))]
        return link.connect(Combination.pair(*ends), self.sessions, {"sw1": fixed}, self.undo)

    def refused(self, ways: tuple[str, str], name: str) -> str:
        """Return the error of this link as one line, with lab.yaml for its path. Nothing was changed on the node."""
        before = self.shells["pi"].run("ip addr").stdout
        with pytest.raises(InvalidMeasurement) as caught:
            self.connect(ways, name)
        assert self.undo.close() == []
        assert self.shells["pi"].run("ip addr").stdout == before
        text = with_act(caught.value.message, caught.value.act)
        return re.sub(r"\s+", " ", text.replace(f"{self.folder}/", ""))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(end_module, "ARP_JOURNAL", str(tmp_path / "undo"))
    found = Bench(tmp_path)
    namespaces = [shell.namespace for shell in (found.switch, *found.shells.values())]
    for namespace in namespaces:
        ip(f"netns add {namespace}")
    try:
        found.set_up()
        yield found
    finally:
        for namespace in namespaces:
            ip(f"netns del {namespace}")


@pytest.mark.parametrize("ways", [BY_NAME, BY_MAC, BY_BUS], ids=["name", "mac", "bus"])
@pytest.mark.parametrize(("name", "device", "mac"), [("first", "eth1", FIRST), ("second", "eth2", SECOND)])
def test_each_adapter_is_used_as_in_the_lab_file(
    bench: Bench, ways: tuple[str, str], name: str, device: str, mac: str
) -> None:
    found = bench.connect(ways, name)
    assert (found.dut.device, found.states[0].mac) == (device, mac)
    assert bench.undo.close() == []


@pytest.mark.parametrize("ways", [BY_MAC, BY_BUS], ids=["mac", "bus"])
@pytest.mark.parametrize(("name", "device", "mac"), [("first", "eth2", FIRST), ("second", "eth1", SECOND)])
def test_two_adapters_with_exchanged_names_are_found_by_their_addresses(
    bench: Bench, ways: tuple[str, str], name: str, device: str, mac: str
) -> None:
    bench.shells["pi"].run(SWAP)
    found = bench.connect(ways, name)
    assert (found.dut.device, found.states[0].mac) == (device, mac)
    assert found.combination.dut.node.interface(name).device == device
    assert bench.undo.close() == []


def test_facts_that_were_known_by_the_names_are_forgotten_when_the_names_change(bench: Bench) -> None:
    facts = bench.sessions["pi"].facts
    for swap, kept in (("true", True), ("ip link set eth1 down; ip link set eth2 down; " + SWAP, False)):
        bench.connect(BY_MAC, "first")
        assert bench.undo.close() == []
        facts["build eth1"] = {"driver": "ax88179_178a"}
        bench.shells["pi"].run(swap)
        bench.connect(BY_MAC, "first")
        assert bench.undo.close() == []
        assert ("build eth1" in facts) is kept


def test_two_adapters_with_exchanged_names_are_never_measured_by_name(bench: Bench) -> None:
    bench.shells["pi"].run(SWAP)
    assert bench.refused(BY_NAME, "first") == (
        "lab.yaml:14: pi:first: eth1 has driver r8152, but asix needs ax88179_178a; it fits pi:second, so their names "
        "may be exchanged: not measured -> load ax88179_178a on pi, or correct in lab.yaml:14: the NIC, its `driver:`, "
        "or how it is found (`mac:`); `pinet discover` prints the lines for the lab file"
    )
    assert bench.refused(BY_NAME, "second").startswith(
        "lab.yaml:15: pi:second: eth2 has driver ax88179_178a, but realtek needs r8152; it fits pi:first, "
    )


def test_another_driver_than_that_of_the_lab_file_is_invalid(bench: Bench) -> None:
    ways = (f"mac: '{FIRST}', driver: [cdc_ncm, cdc_ether]", BY_MAC[1])
    assert bench.refused(ways, "first").startswith(
        "lab.yaml:14: pi:first: eth1 has driver ax88179_178a, but asix needs cdc_ncm or cdc_ether: not measured -> "
    )


def test_an_adapter_in_another_socket_is_invalid(bench: Bench) -> None:
    ways = (f"mac: '{FIRST}', bus_info: 'usb-0000:01:00.0-2'", BY_MAC[1])
    assert bench.refused(ways, "first") == (
        "lab.yaml:14: pi:first: eth1 is at bus_info usb-0000:01:00.0-1.1, but the lab file has asix at "
        "usb-0000:01:00.0-2: not measured -> move the NIC to its old place, or correct `bus_info:` in lab.yaml:14"
    )


@pytest.mark.parametrize(
    ("ways", "what"),
    [
        (BY_NAME, "network device eth2"),
        (BY_MAC, "NIC with MAC 00:e0:4c:00:00:02"),
        (BY_BUS, "NIC with bus_info usb-0000:01:00.0-1.2"),
    ],
    ids=["name", "mac", "bus"],
)
def test_a_nic_that_has_vanished_is_invalid(bench: Bench, ways: tuple[str, str], what: str) -> None:
    bench.shells["pi"].run("ip link del eth2")
    assert bench.refused(ways, "second").startswith(
        f"lab.yaml:15: pi:second: there is no {what}; the NICs there: "
        "eth1 (driver ax88179_178a, bus_info usb-0000:01:00.0-1.1, MAC a0:ce:c8:00:00:01): not measured -> plug the NIC"
    )
    # The other adapter is as before.
    assert bench.connect(ways, "first").dut.device == "eth1"
    assert bench.undo.close() == []


def test_another_board_is_invalid(bench: Bench) -> None:
    (bench.folder / "model").write_text("Raspberry Pi 4 Model B Rev 1.4\0")
    assert bench.refused(BY_MAC, "first") == (
        "lab.yaml:16: peer: the board is a 'Raspberry Pi 4 Model B Rev 1.4', the lab file has pc (Stand-in): "
        "not measured -> correct `board:` in lab.yaml:16, or connect the right board"
    )
