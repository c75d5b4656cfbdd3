"""Byte counters prove that traffic crossed the devices under test."""

import socket
import threading

import pytest

from pytest_pinet.errors import InvalidMeasurement, LinkError
from pytest_pinet.evidence.interface import CountedDevice, Crossing, Moved, read_interface
from tests.support.local_shell import LocalShell

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


def once(condition: object) -> bool:
    assert callable(condition)
    return bool(condition())


def test_traffic_that_crossed_is_accepted() -> None:
    crossing = Crossing([loopback(), loopback()])
    send_over_loopback()
    crossing.check(through(SIZE), once)


def test_traffic_over_another_nic_is_invalid() -> None:
    crossing = Crossing([loopback(), loopback()])
    send_over_loopback()
    with pytest.raises(InvalidMeasurement, match=r"runner lo sent [\d.]+ MB of the 40000.0 MB .*another NIC or cable"):
        crossing.check(through(40_000_000_000), once)


def test_a_device_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(LinkError, match=r"runner has no network device eth77 \(it has: .*lo.*\)"):
        read_interface(LocalShell(), "eth77")
