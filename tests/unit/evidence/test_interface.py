"""sysfs data of a network device, including wrong values."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.evidence.interface import read_interface
from pytest_pinet.execution.shell import Completed
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
