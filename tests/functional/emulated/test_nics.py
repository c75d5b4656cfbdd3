"""A board in QEMU with four real drivers, all on one unmanaged switch: which NIC is measured, and under which name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.evidence.nics import read_board
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link import link
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.lab.switch.fixed import FixedSwitch
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.model.combination import Combination, Endpoint
from pytest_pinet.tuning.journal import FOLDER
from pytest_pinet.virtual.runtime import ssh_command
from pytest_pinet.virtual.spec import mac_address
from tests.support.emulated_gate import BOOT_S, NEEDS, card_or_skip
from tests.support.small_virtual_lab import BOARD_ANSWER_S, Bench, bench_up
from tests.support.waiting import wait_until

LAB_FILE = """\
pinet:
  name: nics
  launcher: virtual
  boards:
    virt: {clock_mhz: 62, cores: 1, buses: [pcie3x1, usb3], model: QEMU virt}
  nics:
    e1000e: {driver: e1000e, bus: pcie3x1, speeds_mbps: [1000]}
    virtio: {driver: virtio_net, bus: pcie3x1, speeds_mbps: [10000]}
    usb-net: {driver: cdc_ether, bus: usb3, speeds_mbps: [1000]}
    e1000: {driver: e1000, bus: pcie3x1, speeds_mbps: [1000]}
  switches:
    sw-1: {backend: linux, address: "ssh://root@127.0.0.1:1", ports: p1-p5}
  nodes:
    board:
      board: virt
      machine: virt
      interfaces:
        pcie: {nic: e1000e, port: sw-1/p1}
        virtio: {nic: virtio, port: sw-1/p2}
        usb: {nic: usb-net, port: sw-1/p3}
        pci: {nic: e1000, port: sw-1/p4}
    peer:
      board: pi4b
      interfaces:
        onboard: {port: sw-1/p5}
"""
NICS = {
    "pcie": ("eth0", "e1000e"),
    "virtio": ("eth1", "virtio_net"),
    "usb": ("eth2", "cdc_ether"),
    "pci": ("eth3", "e1000"),
}
SETTINGS = "grep -H . /proc/sys/net/ipv4/conf/*/arp_ignore /proc/sys/net/ipv4/conf/*/arp_announce"

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]


class Links:
    """Opens links between the board and its peer, over ssh, with a switch that connects all ports."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.folder = folder
        self.shells = {n: SshShell(n, ssh_command(bench.lab.file, n, [])) for n in ("board", "peer")}
        self.undo = UndoStack()

    def open(self, name: str, old: str = "", new: str = "") -> link.Link:
        """Open the link of an interface, with some text of the lab file replaced."""
        assert old in LAB_FILE
        file = self.folder / "lab.yaml"
        file.write_text(LAB_FILE.replace(old, new) if old else LAB_FILE)
        lab = load(file)
        fixed = ManagedSwitch(lab.switches["sw-1"], FixedSwitch(), Journal(str(file), self.folder / "journal"))
        ends = [Endpoint(lab.nodes[n], lab.nodes[n].interface(i)) for n, i in (("board", name), ("peer", "onboard"))]
        sessions = {n: cast(NodeSession, SimpleNamespace(shell=s, facts={})) for n, s in self.shells.items()}
        return link.connect(Combination.pair(*ends), sessions, {"sw-1": fixed}, self.undo)

    def refused(self, name: str, old: str = "", new: str = "") -> str:
        with pytest.raises(InvalidMeasurement) as caught:
            self.open(name, old, new)
        assert self.undo.close() == []
        return re.sub(r"\s+", " ", caught.value.message)

    def settings(self) -> str:
        return "".join(shell.run(SETTINGS).stdout for shell in self.shells.values())


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with ExitStack() as stack:
        with card_or_skip():
            bench = stack.enter_context(bench_up(tmp_path_factory.mktemp("emulated"), LAB_FILE))
        for node in ("board", "peer"):
            bench.outlet(node, "1")
        for node in ("board", "peer"):
            wait_until(f"ssh of {node}", partial(bench.answers, node, BOARD_ANSWER_S), BOOT_S)
        yield bench


@pytest.fixture
def links(bench: Bench, tmp_path: Path) -> Links:
    return Links(bench, tmp_path)


def test_the_board_reports_its_model_and_its_nics(links: Links) -> None:
    found = read_board(links.shells["board"])
    assert found.model == "QEMU virt"
    for device, driver in NICS.values():
        nic = found.nics[device]
        assert (nic.mac, nic.driver) == (mac_address("board", device), driver)
    assert [found.nics[device].bus for device, _ in NICS.values()] == ["pci", "virtio", "usb", "pci"]
    assert re.fullmatch(r"0000:00:0\d\.0", str(found.nics["eth0"].bus_info))
    assert str(found.nics["eth2"].bus_info).startswith("usb-0000:00:")


def test_four_nics_on_one_unmanaged_switch_are_each_reached(links: Links) -> None:
    before = links.settings()
    for name, (device, _) in NICS.items():
        found = links.open(name)
        assert found.dut.device == device
        assert "/arp_ignore:1" in links.settings()
        assert links.undo.close() == []
        assert links.settings() == before
    assert links.shells["board"].run(f"ls {FOLDER}").stdout == ""


def test_exchanged_names_are_never_measured_and_addresses_find_the_nics(links: Links) -> None:
    swap = (
        "for n in 0 1; do ip link set eth$n down; ip link set eth$n name old$n; done;"
        " ip link set old0 name eth1; ip link set old1 name eth0"
    )
    assert links.shells["board"].run(swap).returncode == 0
    try:
        assert "board:pcie: eth0 has driver virtio_net, but e1000e needs e1000e; it fits board:virtio" in links.refused(
            "pcie"
        )
        assert "board:virtio: eth1 has driver e1000e, but virtio needs virtio_net; it fits board:pcie" in links.refused(
            "virtio"
        )
        mac = mac_address("board", "eth0")
        found = links.open("pcie", "port: sw-1/p1}", f"port: sw-1/p1, mac: '{mac}'}}")
        assert (found.dut.device, found.states[0].mac) == ("eth1", mac)
        assert links.undo.close() == []
    finally:
        links.shells["board"].run(swap)


def test_another_board_and_a_vanished_nic_are_invalid(links: Links) -> None:
    assert "board: the board is a 'QEMU virt', the lab file has virt (Raspberry Pi 9)" in links.refused(
        "pcie", "QEMU virt", "Raspberry Pi 9"
    )
    shell = links.shells["board"]
    assert shell.run("modprobe -r e1000e").returncode == 0
    try:
        assert "board:pcie: there is no network device eth0; the NICs there: " in links.refused("pcie")
    finally:
        shell.run("modprobe e1000e; sleep 1; ls /sys/class/net", 30)
