"""Devices whose byte counters restart or wrap between two readings. A stand-in node answers for sysfs."""

from __future__ import annotations

import pytest

from pytest_pinet.errors import InvalidMeasurement, TrafficError
from pytest_pinet.evidence.counting import NARROW
from pytest_pinet.evidence.device_traffic import CountedDevice, Crossing, Moved
from pytest_pinet.evidence.interface import read_interface
from pytest_pinet.execution.shell import Completed, Process
from tests.support.local_shell import LocalShell

MB = 1_000_000


class Node:
    """A node with one device whose counters the test sets."""

    name = "pi3b-1"

    def __init__(self, rx: int = 0, tx: int = 0, machine: str = "aarch64") -> None:
        self.rx, self.tx, self.machine, self.changes = rx, tx, machine, 1

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        assert "/sys/class/net/eth0" in command
        assert "uname -m" in command
        lines = [
            "flags=0x1003\ncarrier=1\nspeed=1000\nduplex=full\nmtu=1500\naddress=b8:27:eb:00:00:01",
            f"carrier_changes={self.changes}\nstatistics/rx_bytes={self.rx}\nstatistics/tx_bytes={self.tx}",
            f"timestamps=1\nmachine={self.machine}",
        ]
        return Completed(0, "\n".join(lines) + "\n", "")

    def spawn(self, command: str) -> Process:
        raise AssertionError("counters need no process that lasts")


def crossing(node: Node) -> Crossing:
    return Crossing([CountedDevice(node, "eth0", "pi3b-1 eth0")])


def once(condition: object) -> bool:
    assert callable(condition)
    return bool(condition())


def test_a_counter_may_start_over_once_on_any_kernel() -> None:
    node = Node(rx=NARROW - 10 * MB, tx=NARROW - 1)
    look = crossing(node)
    node.rx, node.tx = 90 * MB, 3 * MB
    look.check([Moved(3 * MB, 100 * MB)], once)
    assert look.after[0].bytes_since(look.before[0]) == (100 * MB, 3 * MB + 1)
    with pytest.raises(InvalidMeasurement, match=r"received 100\.0 MB of the 200\.0 MB"):
        look.check([Moved(0, 200 * MB)], once)


def test_more_than_4_gib_on_a_32_bit_kernel_are_not_checked() -> None:
    node = Node(machine="armv7l")
    look = crossing(node)
    node.rx = 7_500 * MB % NARROW
    look.check([Moved(0, 7_400 * MB)], once)
    # Counts in 32 bits are checked as usual. A 64-bit kernel counts all bytes.
    with pytest.raises(InvalidMeasurement, match=r"received 3205\.0 MB of the 4000\.0 MB"):
        look.check([Moved(0, 4_000 * MB)], once)
    node.machine = "aarch64"
    with pytest.raises(InvalidMeasurement, match=r"received 3205\.0 MB of the 7400\.0 MB"):
        look.check([Moved(0, 7_400 * MB)], once)


def test_after_a_restart_it_counts_from_there() -> None:
    node = Node(rx=500 * MB, tx=500 * MB)
    look = crossing(node)
    node.rx, node.tx, node.changes = 2 * MB, 2 * MB, 3
    look.rebase()
    node.rx += 100 * MB
    look.check([Moved(0, 99 * MB)], once)
    with pytest.raises(InvalidMeasurement, match=r"received 100\.0 MB of the 300\.0 MB"):
        look.check([Moved(0, 300 * MB)], once)
    node.changes += 2
    with pytest.raises(TrafficError, match="the link of pi3b-1 eth0 went down during the measurement"):
        look.check([Moved(0, 99 * MB)], once)


def test_a_carrier_that_was_taken_down_on_purpose_leaves_the_bytes_counted() -> None:
    node = Node(rx=5 * MB)
    look = crossing(node)
    node.rx, node.changes = 105 * MB, 3
    look.accept_carriers()
    node.rx = 205 * MB
    look.check([Moved(0, 198 * MB)], once)


def test_this_kernel_tells_how_wide_it_is() -> None:
    machine = LocalShell().run("uname -m").stdout
    assert read_interface(LocalShell(), "lo").narrow == ("64" not in machine)
