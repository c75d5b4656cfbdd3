"""A link under test that does not come back fails the test, whenever that shows; other links are the lab's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from pytest_pinet.errors import DroppedLink, LabError, LinkError, TrafficError
from pytest_pinet.evidence.observer import Observer
from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab.link import link_checks
from pytest_pinet.lab.switch.fixed import FixedSwitch
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch
from pytest_pinet.measure import preconditions
from pytest_pinet.measure.measurement import of_dropped_link
from pytest_pinet.measure.traffic_runner import MeasureContext, Runs
from pytest_pinet.model.connection import Connection
from pytest_pinet.model.measurement import Event, EventKind, Measurement
from pytest_pinet.model.traffic import Direction, HttpTraffic
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.traffic.tool import TrafficJob
from tests.support.doctor_lab import lab
from tests.support.link_stand_in import TX, flow, link, one_connection
from tests.support.local_shell import LocalShell

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
    monkeypatch.setattr(link_checks, "CARRIER_TIMEOUT_S", 0.1)


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
