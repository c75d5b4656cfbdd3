"""The boot of a virtual board: its boot partition, the stand-in firmware, and the resulting link model."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_pinet.errors import LabError
from tests.support.gate_project import GateLab
from tests.support.waiting import wait_until

BOOT = "/boot/firmware"


def interface(lab: GateLab, node: str, name: str) -> dict[str, Any]:
    for entry in lab.status()["nodes"]:
        if entry["name"] == node:
            return next(i for i in entry["interfaces"] if i["name"] == name)
    raise AssertionError(node)


def cycle(lab: GateLab, node: str) -> None:
    lab.switch_power(False, node)
    lab.switch_power(True, node)
    lab.await_boot(node)


@pytest.fixture
def board(gate_lab: GateLab, request: pytest.FixtureRequest) -> Any:
    """Yield a running board, and restore its boot partition afterwards."""
    node = str(request.param)
    gate_lab.switch_power(True, node)
    gate_lab.await_boot(node)
    kept = {name: gate_lab.execute(node, f"cat {BOOT}/{name}") for name in ("config.txt", "cmdline.txt")}
    yield node
    for name, text in kept.items():
        gate_lab.execute(node, f"printf %s '{text}' > {BOOT}/{name}")
    gate_lab.switch_power(False, node)


@pytest.mark.parametrize("board", ["pi4b-1"], indirect=True)
def test_a_clock_in_config_txt_applies_from_the_next_power_on(gate_lab: GateLab, board: str) -> None:
    assert gate_lab.execute(board, "vcgencmd get_config arm_freq") == "arm_freq=1500\n"
    gate_lab.execute(board, f"echo arm_freq=2000 >> {BOOT}/config.txt")
    assert interface(gate_lab, board, "usb")["model"] == "usb3-ax88179"
    cycle(gate_lab, board)
    assert gate_lab.execute(board, "vcgencmd get_config arm_freq") == "arm_freq=2000\n"
    found = interface(gate_lab, board, "usb")
    assert found["model"] == "usb3-ax88179 (2000 MHz)"
    assert found["tx_goodput_bps"] / 1e6 == pytest.approx(827, abs=1)


@pytest.mark.parametrize("board", ["pi4b-1"], indirect=True)
def test_a_requested_trial_boot_uses_tryboot_txt_once(gate_lab: GateLab, board: str) -> None:
    def run(command: str) -> str:
        return gate_lab.execute(board, command)

    def started() -> str:
        """Return when the board was booted; empty if it does not answer."""
        try:
            return run("cut -d' ' -f22 /proc/1/stat")
        except (AssertionError, LabError):
            return ""

    def reboot() -> str:
        before = started()
        run("(sleep 0.2; reboot) >/dev/null 2>&1 &")
        wait_until(f"the reboot of {board}", lambda: started() not in ("", before))
        return run("vcgencmd get_config arm_freq").strip()

    arm, ask = "vcmailbox 0x00038064 4 0 1", "vcmailbox 0x00030064 4 0 0 | cut -d' ' -f6"
    run(f"{{ cat {BOOT}/config.txt; echo arm_freq=2000; }} > {BOOT}/tryboot.txt")
    try:
        assert run(ask).strip() == "0x00000000"
        assert reboot() == "arm_freq=1500"
        run(arm)
        assert run(ask).strip() == "0x00000001"
        assert reboot() == "arm_freq=2000"
        assert interface(gate_lab, board, "usb")["model"] == "usb3-ax88179 (2000 MHz)"
        # The request was for one boot.
        assert run(ask).strip() == "0x00000000"
        assert reboot() == "arm_freq=1500"
        run(arm)
        cycle(gate_lab, board)
        assert run("vcgencmd get_config arm_freq").strip() == "arm_freq=1500"
    finally:
        run(f"rm -f {BOOT}/tryboot.txt")


@pytest.mark.parametrize("board", ["cm4-1"], indirect=True)
def test_the_kernel_command_line_is_cmdline_txt_and_selects_the_pcie_payload(gate_lab: GateLab, board: str) -> None:
    before = gate_lab.execute(board, "cat /proc/cmdline")
    assert "MaxPayload 128 bytes, MaxReadReq" in gate_lab.execute(board, "lspci -D -vv")
    gate_lab.execute(board, f"sed -i 's/$/ pci=pcie_bus_perf/' {BOOT}/cmdline.txt")
    cycle(gate_lab, board)
    assert gate_lab.execute(board, "cat /proc/cmdline") == f"{before.strip()} pci=pcie_bus_perf\n"
    assert interface(gate_lab, board, "pcie")["rx_goodput_bps"] / 1e6 == pytest.approx(3420, abs=5)
    # As a tuning reads it: one for the bridge and one for the card. The board's own NIC is not behind them.
    assert gate_lab.execute(board, "lspci -D -vv").count("MaxPayload 512 bytes, MaxReadReq") == 2
    assert "bus-info: 0000:01:00.0" in gate_lab.execute(board, "ethtool -i eth1")
    assert "0000:01" not in gate_lab.execute(board, "ethtool -i eth0")
    refused = gate_lab.execute(board, "echo x > /proc/cmdline 2>&1 || echo refused")
    assert "refused" in refused


@pytest.mark.parametrize("board", ["cm4-1"], indirect=True)
def test_the_rates_follow_the_mtu_of_the_device_until_power_off(gate_lab: GateLab, board: str) -> None:
    def mtu() -> int:
        return int(interface(gate_lab, board, "pcie")["mtu"])

    gate_lab.execute(board, "ip link set eth1 mtu 9000")
    wait_until("the lab to see the MTU", lambda: mtu() == 9000)
    assert interface(gate_lab, board, "pcie")["tx_goodput_bps"] / 1e6 == pytest.approx(3248, abs=5)
    cycle(gate_lab, board)
    assert mtu() == 1500
    assert interface(gate_lab, board, "pcie")["tx_goodput_bps"] / 1e6 == pytest.approx(3020, abs=5)


@pytest.mark.parametrize("board", ["pi3b-1"], indirect=True)
def test_reported_throttling_ends_at_the_next_boot(gate_lab: GateLab, board: str) -> None:
    def bits() -> str:
        return gate_lab.execute(board, "vcgencmd get_throttled").strip()

    def faults() -> list[str]:
        return next(list(node["faults"]) for node in gate_lab.status()["nodes"] if node["name"] == board)

    assert bits() == "throttled=0x0"
    gate_lab.degrade(board, "--throttle", "under-voltage")
    gate_lab.degrade(board, "--throttle", "throttled")
    assert bits() == "throttled=0x50005"
    assert faults() == ["firmware: under-voltage", "firmware: throttled"]
    cycle(gate_lab, board)
    assert bits() == "throttled=0x50005"
    assert board in gate_lab.restore()
    assert (bits(), faults()) == ("throttled=0x50000", [])
    cycle(gate_lab, board)
    assert bits() == "throttled=0x0"
