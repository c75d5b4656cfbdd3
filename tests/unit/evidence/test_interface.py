"""sysfs data of a network device, including wrong values."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.errors import InvalidMeasurement, TrafficError
from pytest_pinet.evidence import interface
from pytest_pinet.evidence.counting import NARROW
from pytest_pinet.evidence.interface import CountedDevice, Crossing, Moved, read_interface
from pytest_pinet.execution.shell import Completed, Process
from tests.support.local_shell import LocalShell

FILES = {
    "flags": "0x1003", "carrier": "1", "speed": "1000", "duplex": "half", "mtu": "1500", "address": "b8:27:eb:00:00:01",
    "carrier_changes": "2", "statistics/rx_bytes": "10", "statistics/tx_bytes": "20", "statistics/rx_errors": "1",
}  # fmt: skip


class OtherSysfs(LocalShell):
    """This machine with other network devices."""

    def __init__(self, root: Path) -> None:
        super().__init__("pi4b-1")
        self._root = root

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        return super().run(command.replace("/sys/class/net", str(self._root / "class/net")), timeout_s)


@pytest.fixture
def node(tmp_path: Path) -> OtherSysfs:
    device = tmp_path / "class/net/eth1"
    for name, text in FILES.items():
        (device / name).parent.mkdir(parents=True, exist_ok=True)
        (device / name).write_text(f"{text}\n")
    return OtherSysfs(tmp_path)


@pytest.mark.parametrize(
    ("driver", "duplex"),
    [("r8152", "half"), ("cdc_ether", None), ("cdc_ncm", None), (None, "half")],
)
def test_a_driver_that_cannot_know_the_duplex_does_not_say_half(
    node: OtherSysfs, tmp_path: Path, driver: str | None, duplex: str | None
) -> None:
    if driver is not None:
        (tmp_path / "bus/usb/drivers" / driver).mkdir(parents=True)
        (tmp_path / "class/net/eth1/device").mkdir()
        (tmp_path / "class/net/eth1/device/driver").symlink_to(f"../../../../bus/usb/drivers/{driver}")
    found = read_interface(node, "eth1")
    assert (found.duplex, found.speed_mbps, found.rx_bytes, found.rx_errors) == (duplex, 1000, 10, 1)
    assert found.carrier


def test_duplex_is_read_from_drivers_that_know_it(node: OtherSysfs, tmp_path: Path) -> None:
    (tmp_path / "class/net/eth1/duplex").write_text("full\n")
    assert read_interface(node, "eth1").duplex == "full"


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


@pytest.fixture(autouse=True)
def _short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "COUNTER_TIMEOUT_S", 0.1)


def test_a_counter_may_start_over_once_on_any_kernel() -> None:
    node = Node(rx=NARROW - 10 * MB, tx=NARROW - 1)
    look = crossing(node)
    node.rx, node.tx = 90 * MB, 3 * MB
    look.check([Moved(3 * MB, 100 * MB)])
    assert look.after[0].bytes_since(look.before[0]) == (100 * MB, 3 * MB + 1)
    with pytest.raises(InvalidMeasurement, match=r"received 100\.0 MB of the 200\.0 MB"):
        look.check([Moved(0, 200 * MB)])


def test_more_than_4_gib_on_a_32_bit_kernel_are_not_checked() -> None:
    node = Node(machine="armv7l")
    look = crossing(node)
    node.rx = 7_500 * MB % NARROW
    look.check([Moved(0, 7_400 * MB)])
    # Counts in 32 bits are checked as usual. A 64-bit kernel counts all bytes.
    with pytest.raises(InvalidMeasurement, match=r"received 3205\.0 MB of the 4000\.0 MB"):
        look.check([Moved(0, 4_000 * MB)])
    node.machine = "aarch64"
    with pytest.raises(InvalidMeasurement, match=r"received 3205\.0 MB of the 7400\.0 MB"):
        look.check([Moved(0, 7_400 * MB)])


def test_after_a_restart_it_counts_from_there() -> None:
    node = Node(rx=500 * MB, tx=500 * MB)
    look = crossing(node)
    node.rx, node.tx, node.changes = 2 * MB, 2 * MB, 3
    look.rebase()
    node.rx += 100 * MB
    look.check([Moved(0, 99 * MB)])
    with pytest.raises(InvalidMeasurement, match=r"received 100\.0 MB of the 300\.0 MB"):
        look.check([Moved(0, 300 * MB)])
    node.changes += 2
    with pytest.raises(TrafficError, match="the link of pi3b-1 eth0 went down during the measurement"):
        look.check([Moved(0, 99 * MB)])


def test_a_carrier_that_was_taken_down_on_purpose_leaves_the_bytes_counted() -> None:
    node = Node(rx=5 * MB)
    look = crossing(node)
    node.rx, node.changes = 105 * MB, 3
    look.accept_carriers()
    node.rx = 205 * MB
    look.check([Moved(0, 198 * MB)])


def test_this_kernel_tells_how_wide_it_is() -> None:
    machine = LocalShell().run("uname -m").stdout
    assert read_interface(LocalShell(), "lo").narrow == ("64" not in machine)
