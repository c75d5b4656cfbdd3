"""``pinet doctor`` names how commands reach a node, and what that costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_pinet.doctor.bench import Bench, Finding, Status
from pytest_pinet.doctor.links import check_management, judge_management
from pytest_pinet.lab.node.management import FoundManagement, parse
from pytest_pinet.model.forms import Management
from pytest_pinet.model.lab import Node
from tests.support.doctor_lab import lab

SAME = FoundManagement("eth0", frozenset({"eth0"}))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return lab(tmp_path).nodes["one"]


def declared(node: Node, text: str) -> Node:
    return replace(node, management=Management.parse(text))


def test_a_way_of_its_own_costs_nothing(node: Node) -> None:
    assert judge_management(node, FoundManagement(), True) == [Finding(Status.OK, "one", "separate")]


def test_each_declared_way_is_named_with_its_cost(node: Node) -> None:
    (finding,) = judge_management(declared(node, "same"), SAME, True)
    assert (finding.status, finding.message.partition(",")[0]) == (Status.OK, "same: the port stays in its VLAN")
    (finding,) = judge_management(node, FoundManagement("wlan0", frozenset({"wlan0"}), wifi=True), True)
    assert finding.message == "wifi: Wi-Fi driver and firmware run beside the traffic, and the connection may roam"


def test_a_shared_interface_must_be_declared_if_its_port_would_be_moved(node: Node) -> None:
    (finding,) = judge_management(node, SAME, True)
    assert finding.status is Status.WRONG
    assert finding.message == "ssh comes in by eth0, which is under test, and the lab file does not say so"
    assert finding.act.startswith(f"write `management: same` at {node.where}: the port stays in its VLAN")
    (finding,) = judge_management(node, SAME, False)
    assert finding.status is Status.OK


def test_ssh_may_come_in_by_a_nic_that_is_not_that_of_the_lab_file(tmp_path: Path) -> None:
    # openwrt #17820: eth0 is there, but bound by another driver. So the other checks leave it out.
    bench = lab(tmp_path)
    whole = declared(bench.nodes["one"], "same")
    node = replace(whole, interfaces=())
    assert node.carrying is None
    here = SimpleNamespace(
        lab=replace(bench, nodes={"one": whole}),
        session=lambda _: SimpleNamespace(facts={"management": SAME}),
        shell=lambda _: None,
        one_by_one=lambda look: look(node),
    )
    (finding,) = check_management(cast(Bench, here))
    assert (finding.status, finding.message.partition(",")[0]) == (Status.OK, "same: the port stays in its VLAN")


def test_a_wrong_declaration_is_a_fault(node: Node) -> None:
    (finding,) = judge_management(declared(node, "wifi"), SAME, True)
    assert finding.status is Status.WRONG
    assert finding.message == "the lab file says `management: wifi` for one, but ssh comes in by eth0"


def test_a_second_usb_nic_of_the_same_bus_competes_with_the_traffic(node: Node) -> None:
    # A Pi 3 B+: its Ethernet and all its USB ports share one bus.
    text = (
        "server 10.0.0.7\naddress eth9 10.0.0.7/24\n"
        "usb /sys/devices/platform/soc/3f980000.usb/usb1/1-1/1-1.1/1-1.1.1/1-1.1.1:1.0 eth0\n"
        "usb /sys/devices/platform/soc/3f980000.usb/usb1/1-1/1-1.2/1-1.2:1.0 eth9\n"
    )
    (finding,) = judge_management(node, parse(text), True)
    assert (finding.status, finding.message) == (
        Status.WRONG,
        "ssh comes in by eth9, which shares the USB bus of eth0: the traffic of both competes",
    )
    # A Pi 4: its USB 2 and USB 3 ports have buses of their own.
    (finding,) = judge_management(node, parse(text.replace("usb1/1-1/1-1.2/1-1.2:1.0", "usb2/2-1/2-1:1.0")), True)
    assert finding.status is Status.OK
