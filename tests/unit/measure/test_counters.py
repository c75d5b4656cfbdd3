"""Counters of switches and NICs, and octets of our own connections."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_pinet.evidence import interface
from pytest_pinet.judge.preconditions import management_notes, management_trouble
from pytest_pinet.lab.link.link import Link
from pytest_pinet.lab.node.management import FoundManagement
from pytest_pinet.measure.counters import CounterCheck, ManagementCounter
from pytest_pinet.model.evidence import EndEvidence, ManagementTraffic
from pytest_pinet.model.lab import VIRTUAL
from tests.support import link_stand_in
from tests.support.link_stand_in import TX, UP, flow, link, one_connection
from tests.support.local_shell import LocalShell


def test_the_duplex_is_that_after_the_traffic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uncounted: Any = SimpleNamespace(capabilities=frozenset())
    here = link(tmp_path)
    here = replace(here, switches={end.port.switch: uncounted for end in here.ends})
    monkeypatch.setattr(interface, "read_interface", lambda *_: UP)
    cables = CounterCheck(here)
    assert cables.duplexes == ["full", "full"]
    monkeypatch.setattr(interface, "read_interface", lambda *_: replace(UP, duplex="half"))
    cables.check([], TX)
    assert cables.duplexes == ["half", "half"]


SECOND_BPS = 125_000_000


class Connection:
    """A TCP connection of this machine, which stands for ssh: ``shell`` believes that it came in by it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._client = socket.create_connection(self._listener.getsockname())
        self._server, _ = self._listener.accept()
        (there, port), (here, own) = self._client.getsockname(), self._server.getsockname()
        self.shell = LocalShell("one", {"PATH": "/usr/bin:/bin", "SSH_CONNECTION": f"{there} {port} {here} {own}"})

    def move(self, size: int) -> None:
        self._server.sendall(bytes(size))
        left = size
        while left:
            left -= len(self._client.recv(left))

    def close(self) -> None:
        for one in (self._client, self._server, self._listener):
            one.close()


@pytest.fixture
def connection() -> Iterator[Connection]:
    found = Connection()
    yield found
    found.close()


def shared(folder: Path, connection: Connection) -> Link:
    """A link whose first end is also the way of ssh into its node."""
    link = link_stand_in.link(folder, shells=(connection.shell, LocalShell("two")))
    link.dut.session.facts["management"] = FoundManagement("eth0", frozenset({"eth0"}))
    link.peer.session.facts["management"] = FoundManagement()
    return link


def counted(
    counter: ManagementCounter, connection: Connection, size: int, payload: int
) -> dict[int, ManagementTraffic]:
    """Let a connection move ``size`` bytes beside traffic of ``payload`` bytes in a second."""
    counter.before()
    look = counter.watching(None, 0.4)
    assert look is not None
    look()
    connection.move(size)
    time.sleep(0.25)
    look()
    return counter.after([flow(payload=payload)])


def test_octets_and_their_share_of_the_traffic(tmp_path: Path, connection: Connection) -> None:
    counter = ManagementCounter(shared(tmp_path, connection))
    found = counted(counter, connection, 500_000, SECOND_BPS)
    assert set(found) == {0}
    one = found[0]
    assert 500_000 < one.octets < 600_000
    assert one.share == pytest.approx(one.octets / one.seconds / SECOND_BPS)
    assert counter.uncounted == []
    assert "segs_out" in counter.raw()["0-management.txt"]


def test_ends_with_a_way_of_their_own_are_not_read(tmp_path: Path, connection: Connection) -> None:
    link = shared(tmp_path, connection)
    link.dut.session.facts["management"] = FoundManagement("eth9", frozenset({"eth9"}))
    counter = ManagementCounter(link)
    counter.before()
    assert counter.watching(None, 1.0) is None
    assert (counter.after([]), counter.raw()) == ({}, {})


def with_a_virtual_clock(found: Link) -> Link:
    """The same link, whose second end has a virtual clock."""
    first, second = found.ends
    node = replace(second.endpoint.node, clock=VIRTUAL)
    return replace(found, ends=(first, replace(second, endpoint=replace(second.endpoint, node=node))))


def test_beside_a_virtual_clock_the_tool_reads_at_the_end(tmp_path: Path, connection: Connection) -> None:
    counter = ManagementCounter(with_a_virtual_clock(shared(tmp_path, connection)))
    counter.before()
    assert counter.watching(None, 0.4) is None
    assert set(counter.at_end) == {"one"}
    connection.move(500_000)
    time.sleep(0.05)
    printed = connection.shell.run(counter.at_end["one"]).stdout
    found = counter.after([flow(payload=SECOND_BPS)], {"one": printed, "two": ""})
    assert 500_000 < found[0].octets < 600_000
    assert counter.uncounted == []


def test_a_tool_that_does_not_read_at_the_end_gets_a_note(tmp_path: Path, connection: Connection) -> None:
    counter = ManagementCounter(with_a_virtual_clock(shared(tmp_path, connection)))
    counter.before()
    assert counter.after([flow(payload=SECOND_BPS)], {}) == {}
    assert counter.uncounted == [
        "ssh, or an NFS root, of one:onboard uses the interface under test, but its octets were not counted "
        "(there was no second reading near the end of the traffic)"
    ]


def test_without_a_virtual_clock_the_tool_reads_nothing(tmp_path: Path, connection: Connection) -> None:
    assert ManagementCounter(shared(tmp_path, connection)).at_end == {}


def test_a_node_without_ss_gets_a_note(tmp_path: Path, connection: Connection) -> None:
    connection.shell = LocalShell("one", {"PATH": "/nowhere", "SSH_CONNECTION": "127.0.0.1 1 127.0.0.1 1"})
    counter = ManagementCounter(shared(tmp_path, connection))
    assert counted(counter, connection, 10, SECOND_BPS) == {}
    assert counter.uncounted == [
        "ssh, or an NFS root, of one:onboard uses the interface under test, but its octets were not counted "
        "(this needs ss of iproute2)"
    ]


@pytest.mark.parametrize(("share", "noted", "invalid"), [(0.0009, 0, 0), (0.0011, 1, 0), (0.011, 0, 1)])
def test_more_than_a_thousandth_is_noted_and_more_than_a_hundredth_is_invalid(
    share: float, noted: int, invalid: int
) -> None:
    evidence = (EndEvidence("one:onboard", "eth0", management=ManagementTraffic(1000, 2.0, share)),)
    quiet = (EndEvidence("one:onboard", "eth0", management=ManagementTraffic(10, 2.0, 1e-6)),)
    connections = [replace(one_connection(flow()), evidence=quiet), replace(one_connection(flow()), evidence=evidence)]
    notes, trouble = management_notes(connections), management_trouble(connections)
    assert (len(notes), len(trouble)) == (noted, invalid)
    assert notes == [] or notes[0] == (
        f"ssh, or an NFS root, of one:onboard used its interface, too: {share * 100:.2g} % of the measured traffic "
        "(at most 0.1 % is allowed)"
    )
    acts = [one.act for one in trouble]
    assert acts == invalid * [
        "look for other users of the node, for programs that print much during the traffic, and for programs that "
        "read or write files of an NFS root"
    ]
    dropped = [replace(one, excluded="its link dropped") for one in connections]
    assert (management_notes(dropped), management_trouble(dropped)) == ([], [])
