"""A traffic tool that cannot be used, and the check that traffic crossed the link."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from pytest_pinet.errors import InvalidMeasurement, LinkError
from pytest_pinet.evidence.interface import CountedDevice, Crossing, Moved, read_interface
from tests.support import replay_tool
from tests.support.gate_project import GateLab, NewProject
from tests.support.local_shell import LocalShell

TEST = """
import pytest

@pytest.mark.pinet(board="pi3b", nic="onboard", min="90%")
def test_it(link, gate):
    gate.tcp(link)
"""


def test_an_import_error_of_a_tool_is_reported_before_a_node_is_used(
    new_project: NewProject, tmp_path: Path, gate_lab: GateLab
) -> None:
    before = gate_lab.nodes_on()
    packages = replay_tool.install(tmp_path, "broken", "no_such_module_at_all:Tool")
    output = new_project({"test_it.py": TEST}).replayed(packages, keys="  traffic_tool: broken\n")
    output.assert_outcomes(errors=1)
    output.stdout.fnmatch_lines(
        ["traffic tool 'broken' of package pinet-broken 1.0 cannot be imported: ModuleNotFoundError: *"]
    )
    assert gate_lab.nodes_on() == before


SIZE = 4_000_000


def loopback() -> CountedDevice:
    return CountedDevice(LocalShell(), "lo", "runner lo")


def send_over_loopback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sender:
        receiver, _ = server.accept()
        with receiver:
            thread = threading.Thread(target=sender.sendall, args=(bytes(SIZE),))
            thread.start()
            left = SIZE
            while left:
                left -= len(receiver.recv(1 << 16))
            thread.join()


def through(moved: int) -> list[Moved]:
    return [Moved(moved, 0), Moved(0, moved)]


def test_traffic_that_crossed_is_accepted() -> None:
    crossing = Crossing([loopback(), loopback()])
    send_over_loopback()
    crossing.check(through(SIZE))


def test_traffic_over_another_nic_is_invalid() -> None:
    crossing = Crossing([loopback(), loopback()])
    send_over_loopback()
    with pytest.raises(InvalidMeasurement, match=r"runner lo sent [\d.]+ MB of the 40000.0 MB .*another NIC or cable"):
        crossing.check(through(40_000_000_000))


def test_a_device_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(LinkError, match=r"runner has no network device eth77 \(it has: .*lo.*\)"):
        read_interface(LocalShell(), "eth77")
