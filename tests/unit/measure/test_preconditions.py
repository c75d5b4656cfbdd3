"""What must hold at the ends: their state, and their links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from pytest_pinet.errors import DroppedLink, InvalidMeasurement, LabError, LinkError, TrafficError
from pytest_pinet.evidence.observer import Observer
from pytest_pinet.execution.shell import Completed, Process
from pytest_pinet.lab.link import link_checks
from pytest_pinet.lab.switch.fixed import FixedSwitch
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.measure import preconditions
from pytest_pinet.measure.measurement import of_dropped_link
from pytest_pinet.measure.preconditions import Preconditions, refuse
from pytest_pinet.measure.traffic_runner import MeasureContext, Runs
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.evidence import PcieLink
from pytest_pinet.model.lab import VIRTUAL
from pytest_pinet.model.measurement import Event, EventKind, Measurement, Sockets
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, HttpTraffic, Traffic
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.traffic.tool import TrafficJob
from tests.support import link_stand_in
from tests.support.doctor_lab import lab
from tests.support.link_stand_in import TX, flow, link, one_connection
from tests.support.local_shell import LocalShell

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


STATE = "flags=0x1003\ncarrier={carrier}\nspeed=1000\nduplex=full\nmtu=1500\naddress=02:00:00:00:00:01\n"
COUNTERS = "carrier_changes=4\nstatistics/rx_bytes=0\nstatistics/tx_bytes=0\ntimestamps=1\nmachine=aarch64\n"
ACT = (
    "the carrier cannot tell the NIC eth0 of node one and its driver from the cable between it and port s/p1: change "
    "the cable, and try a build that is known to be good"
)


class EndShell(LocalShell):
    """An end whose device has a carrier or not, and that takes the commands which change it."""

    def __init__(self, name: str, carrier: bool) -> None:
        super().__init__(name)
        self._carrier = carrier

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        if "carrier_changes" in command:
            return Completed(0, STATE.format(carrier=int(self._carrier)) + COUNTERS, "")
        return Completed(0, "", "")


class Watched:
    """An observer that saw these events."""

    def __init__(self, *events: Event) -> None:
        self._events = events

    def ensure(self, seconds: float) -> None:
        pass

    def events(self, started_s: float) -> tuple[Event, ...]:
        return self._events

    def retransmits(self) -> None:
        return None


class FailingTool:
    """A tool whose traffic ends as iperf3 does over a link that is down."""

    def prepare(self, job: TrafficJob) -> None:
        pass

    def measure(self, job: TrafficJob) -> Measurement:
        raise TrafficError("iperf3 still runs 15 s after the traffic should have ended", evidence="its output")


def drop(seconds: float, port: str = "s/p1") -> Event:
    return Event(EventKind.LINK_DOWN, 0.2, seconds, f"link dropped for {seconds} s at 14:03:07, {port}")


def lost(event: Event, *ends: int) -> Connection:
    return replace(one_connection(flow(), excluded=event.text), link_events=(event,), dropped=ends)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the wait for a carrier, not the drop that is too long."""
    monkeypatch.setattr(link_checks, "carrier_timeout_s", lambda ends: 0.1)


def runs_with(
    folder: Path, carriers: Sequence[bool], connections: Sequence[Connection] = (), link_ups: bool = True
) -> Runs:
    """Return runs over a link whose ends have a carrier or not, after these connections."""
    shells = [EndShell(name, carrier) for name, carrier in zip(("one", "two"), carriers, strict=True)]
    found = link(folder, shells=shells)
    wired = lab(folder).switches["s"]
    found.switches = {"s": ManagedSwitch(wired, FixedSwitch(), Journal("lab.yaml", folder))}
    runs = Runs(MeasureContext(found, FailingTool()), 60.0, link_ups)
    runs.connections += connections
    return runs


def after(runs: Runs, one: Connection) -> None:
    runs.connections.append(one)
    runs._after_a_drop()


def traffic_fails(runs: Runs, *seen: Sequence[Event]) -> pytest.ExceptionInfo[LabError]:
    """Run traffic that fails, while each end sees these events. Return the error."""
    runs._observers = {index: cast(Observer, Watched(*events)) for index, events in enumerate(seen)}
    with pytest.raises(LabError) as found:
        runs.again(TX)
    return found


def test_a_link_that_dropped_and_does_not_come_back_is_blamed(tmp_path: Path) -> None:
    runs = runs_with(tmp_path, (False, True))
    with pytest.raises(DroppedLink) as found:
        after(runs, lost(drop(1.2), 0))
    assert found.value.message == (
        "link dropped for 1.2 s at 14:03:07, s/p1: the link of one:onboard did not come back within 12 s after it "
        "dropped"
    )
    assert found.value.act == ACT


def test_a_carrier_may_take_longer_on_a_virtual_clock(tmp_path: Path) -> None:
    """Other work on the machine slows the clock of such a board down, and its link is not at fault."""
    runs = runs_with(tmp_path, (False, True))
    dut, peer = runs._link.ends
    node = replace(dut.endpoint.node, clock=VIRTUAL)
    runs._link.ends = (replace(dut, endpoint=replace(dut.endpoint, node=node)), peer)
    with pytest.raises(DroppedLink, match="did not come back within 48 s"):
        after(runs, lost(drop(1.2), 0))


@pytest.mark.parametrize(
    ("carriers", "ends"),
    [((True, False), (1,)), ((False, False), (0,)), ((False, False), (0, 1)), ((False, True), (0, 1))],
)
def test_a_lost_link_of_another_end_is_the_lab_s(
    tmp_path: Path, carriers: tuple[bool, bool], ends: tuple[int, ...]
) -> None:
    with pytest.raises(LinkError) as found:
        after(runs_with(tmp_path, carriers), lost(drop(1.2), *ends))
    assert type(found.value) is LinkError
    assert found.value.message.startswith("no link on ")


def test_a_fresh_link_up_that_does_not_come_up_is_blamed(tmp_path: Path) -> None:
    with pytest.raises(DroppedLink) as found:
        runs_with(tmp_path, (False, True), [lost(drop(1.2), 0)]).again(TX)
    assert found.value.message.endswith(
        "s/p1: the link of one:onboard did not come back within 12 s after it was taken down and up"
    )


def test_a_fresh_link_up_on_which_the_peer_has_no_carrier_is_the_lab_s(tmp_path: Path) -> None:
    with pytest.raises(LinkError) as found:
        runs_with(tmp_path, (True, False), [lost(drop(1.2), 0)]).again(TX)
    assert type(found.value) is LinkError


def test_a_drop_that_ends_the_traffic_is_blamed_if_the_link_stays_down(tmp_path: Path) -> None:
    found = traffic_fails(runs_with(tmp_path, (False, True)), [drop(2.0)], [])
    assert found.type is DroppedLink
    assert "the link of one:onboard did not come back within 12 s after it dropped" in found.value.message


def test_a_drop_that_ends_the_traffic_is_blamed_if_it_lasted_too_long(tmp_path: Path) -> None:
    found = traffic_fails(runs_with(tmp_path, (True, True)), [drop(12.5)], [])
    assert found.type is DroppedLink
    assert isinstance(found.value.__cause__, TrafficError)


def test_a_drop_that_ends_the_traffic_is_blamed_if_it_is_the_second_one(tmp_path: Path) -> None:
    runs = runs_with(tmp_path, (True, True), [lost(drop(1.2), 0)], link_ups=False)
    found = traffic_fails(runs, [drop(1.5)], [])
    assert found.type is DroppedLink
    assert found.value.message == (
        "link dropped for 1.5 s at 14:03:07, s/p1: the link of one:onboard dropped in 2 of 2 connections"
    )


@pytest.mark.parametrize(
    ("own", "others"),
    [
        # Traffic that fails on a link that holds, or that dropped once and shortly.
        ([], []),
        ([drop(1.5)], []),
        # The switch or its power.
        ([drop(20.0)], [drop(20.0, "s/p3")]),
        ([], [drop(20.0, "s/p3")]),
    ],
)
def test_other_failures_of_the_traffic_are_the_lab_s(
    tmp_path: Path, own: Sequence[Event], others: Sequence[Event]
) -> None:
    found = traffic_fails(runs_with(tmp_path, (True, True)), own, others)
    assert found.type is TrafficError


def test_drops_that_were_too_short_to_be_seen_one_by_one_count_each(tmp_path: Path) -> None:
    runs = runs_with(tmp_path, (True, True))
    runs._observers = {0: cast(Observer, Watched(replace(drop(0.1), times=3))), 1: cast(Observer, Watched())}
    assert runs._seen(0.0)[1] == (0, 0, 0)


def test_the_record_of_a_dropped_link_names_the_requests_that_were_measured(tmp_path: Path) -> None:
    """Then it has the parameters of the other results of this traffic."""
    requests = HttpTraffic(Direction.TX, size=1000, streams=4)
    found = of_dropped_link(link(tmp_path), requests, "standard", datetime.now(UTC), DroppedLink("it dropped"))
    assert found.http is not None
    assert (found.verdict, found.http.size_bytes, found.http.rounds) == (Verdict.FAIL, 1000, ())


def test_several_drops_in_one_connection_are_counted_in_the_message(tmp_path: Path) -> None:
    found = link(tmp_path)
    connections = [lost(drop(0.3), 0, 0), lost(drop(0.4), 0)]
    drops = preconditions.LinkDrops(found, connections, True, None)
    with pytest.raises(DroppedLink, match="dropped 3 times in 2 of 2 connections, again on a fresh link-up"):
        drops.check()
