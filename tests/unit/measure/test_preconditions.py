"""Preconditions at both ends of a link, before, between and after traffic. The ends answer like nodes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.execution.shell import Completed, Process
from pytest_pinet.measure import preconditions
from pytest_pinet.measure.preconditions import Preconditions, refuse
from pytest_pinet.model.evidence import PcieLink
from pytest_pinet.model.measurement import Sockets
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from tests.support import link_stand_in
from tests.support.link_stand_in import TX, flow, one_connection

GEN2 = "nic_speed=5.0 GT/s PCIe\nnic_width=1\nnic_max_speed=8.0 GT/s PCIe\nnic_max_width=8\n"
GEN2 += "slot_max_speed=5.0 GT/s PCIe\nslot_max_width=1\n"


def busy(percent: int) -> str:
    """Return two first lines of /proc/stat."""
    return f"cpu=cpu 0 0 0 0 0 0 0 0\ncpu_after=cpu {percent} 0 0 {100 - percent} 0 0 0 0\n"


class Node:
    """Answers the command that reads the conditions. The last answer repeats."""

    def __init__(self, name: str, *answers: str) -> None:
        self.name = name
        self.answers = list(answers or [""])
        self.commands = 0

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        assert "/class/net/" in command
        self.commands += 1
        return Completed(0, self.answers[min(self.commands, len(self.answers)) - 1], "")

    def spawn(self, command: str) -> Process:
        raise AssertionError("conditions need no process that lasts")


def opened(folder: Path, one: Node, two: Node, nic: str = "onboard") -> Preconditions:
    return Preconditions(link_stand_in.link(folder, (("one", nic), ("two", "onboard")), (one, two)))


def test_the_state_before_the_traffic_is_recorded(tmp_path: Path) -> None:
    conditions = opened(tmp_path, Node("one", GEN2), Node("two"))
    assert [one.pcie for one in conditions.before] == [PcieLink(5.0, 1), None]
    assert conditions.notes == []


def test_a_fault_before_the_traffic_is_refused_at_either_end(tmp_path: Path) -> None:
    with pytest.raises(InvalidMeasurement, match="two is limited by its firmware: under-voltage"):
        opened(tmp_path, Node("one"), Node("two", "throttled=0x50001"))
    with pytest.raises(InvalidMeasurement, match=r"the USB NIC .* of one runs at 480 Mbit/s instead of 5000"):
        opened(tmp_path, Node("one", "usb=480"), Node("two"), nic="usb")
    # A NIC on the SoC has no USB that could be slow.
    opened(tmp_path, Node("one", "usb=480"), Node("two"))


def test_a_bus_has_no_speed_with_a_virtual_clock(tmp_path: Path) -> None:
    slow = link_stand_in.link(tmp_path, (("one", "usb"), ("two", "onboard")), (Node("one", "usb=12"), Node("two")))
    one = slow.ends[0]
    board = replace(one.endpoint, node=replace(one.endpoint.node, clock="virtual"))
    conditions = Preconditions(replace(slow, ends=(replace(one, endpoint=board), slow.ends[1])))
    assert conditions.before[0].usb_mbps == 12


def test_a_fault_during_the_traffic_is_reported_afterwards(tmp_path: Path) -> None:
    fine = opened(tmp_path, Node("one", "throttled=0x0"), Node("two"))
    assert fine.check_after([one_connection(flow())], TX) == []
    conditions = opened(tmp_path, Node("one", "throttled=0x0", "throttled=0x40000"), Node("two"))
    (fault,) = conditions.check_after([one_connection(flow())], TX)
    assert fault.text == "one had throttled during the traffic"
    with pytest.raises(InvalidMeasurement, match=r"^one had throttled during the traffic\n  -> give it a stronger"):
        refuse([fault])
    trained_down = GEN2.replace("nic_speed=5.0", "nic_speed=2.5")
    conditions = opened(tmp_path, Node("one", GEN2, trained_down), Node("two"))
    (fault,) = conditions.check_after([], TX)
    assert re.search(r"PCIe link of one .* runs at 2\.5 GT/s x1", fault.text)


def test_too_small_segments_are_refused_with_the_name_of_their_sender(tmp_path: Path) -> None:
    small = flow(1, 0, sockets=Sockets(1, 536))
    conditions = opened(tmp_path, Node("one"), Node("two"))
    with pytest.raises(InvalidMeasurement, match="segments of two:onboard carried 536 bytes, though MTU 1500 allows"):
        conditions.check_after([one_connection(flow(sockets=Sockets(1, 1448))), one_connection(small)], TX)
    conditions.check_after([one_connection(small)], Traffic(Direction.TX, mss=536))
    # The kernel reports a link that is down. This connection has no result.
    conditions.check_after(
        [replace(one_connection(small), excluded="link dropped for 1.2 s"), one_connection(flow())], TX
    )
    conditions.check_after([one_connection(small)], Traffic(Direction.TX, udp=True, bitrate=Bitrate(1e7)))


def test_the_wait_for_an_end_that_stays_busy_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preconditions, "QUIET_TIMEOUT_S", 0.2)
    two = Node("two", "", busy(97))
    conditions = opened(tmp_path, Node("one", "", busy(3)), two)
    conditions.look_for_others()
    assert two.commands >= 3


def test_an_end_that_becomes_quiet_is_not_waited_for_any_longer(tmp_path: Path) -> None:
    two = Node("two", "", busy(97), busy(97), busy(1))
    conditions = opened(tmp_path, Node("one"), two)
    conditions.look_for_others()
    assert conditions.notes == []
    assert two.commands == 4


def test_a_little_other_work_is_noted_once_with_the_number_of_connections(tmp_path: Path) -> None:
    conditions = opened(tmp_path, Node("one", "", busy(40)), Node("two", "", busy(5)))
    conditions.look_for_others()
    conditions.look_for_others()
    assert conditions.notes == ["one was up to 40 % busy with other work before 2 connections"]
