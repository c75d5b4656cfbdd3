"""The board's serial number from its device tree, and the hash of measurement parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.evidence.build import MARK, parse_serial, parse_settings, read_end, read_serial
from pytest_pinet.evidence.fdt import cells, read_device_tree, text, write_device_tree
from pytest_pinet.execution.nic_interrupts import interrupts_script, parse_interrupts
from pytest_pinet.model.quantities import Bitrate
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.report.result_record import parameters_hash, with_tool
from tests.support.local_shell import LocalShell

TRAFFIC = Traffic(Direction.TX)


@pytest.mark.parametrize(
    ("text", "serial"),
    [
        ("10000000abcdef01\0", "10000000abcdef01"),
        ("c3d9b8674f4b94f6\0\n", "c3d9b8674f4b94f6"),
        ("", None),
        ("cat: cannot open", None),
        ("\0\0", None),
        ("x" * 65, None),
    ],
)
def test_a_serial_number_ends_in_nul(text: str, serial: str | None) -> None:
    assert parse_serial(text) == serial


def test_a_machine_without_a_device_tree_has_none() -> None:
    file = Path("/proc/device-tree/serial-number")
    assert read_serial(LocalShell()) == (parse_serial(file.read_text()) if file.exists() else None)


def test_the_same_parameters_have_the_same_hash() -> None:
    # This value must never change: it would cut every trend.
    assert parameters_hash(TRAFFIC, 1500) == parameters_hash(Traffic(Direction.TX), 1500) == "c59210ac09be"


def test_values_of_another_tool_have_another_hash() -> None:
    assert with_tool("c59210ac09be", "iperf3") == with_tool("c59210ac09be", "wrk") == "c59210ac09be"
    assert with_tool("c59210ac09be", "netperf") != with_tool("c59210ac09be", "replay") != "c59210ac09be"


@pytest.mark.parametrize(
    "other", [{"duration_s": 6.0}, {"warmup_s": None}, {"window": 65536}, {"bitrate": Bitrate(1e6)}, {"udp": True}]
)
def test_other_parameters_have_another_hash(other: dict[str, Any]) -> None:
    assert parameters_hash(replace(TRAFFIC, **other), 1500) != parameters_hash(TRAFFIC, 1500)
    assert parameters_hash(TRAFFIC, 9000) != parameters_hash(TRAFFIC, 1500)


DATA = Path(__file__).parents[2] / "data"
PRINTED = {
    "-k": """\
Features for eth0:
rx-checksumming: on
tx-checksumming: on
\ttx-checksum-ipv4: off [fixed]
tcp-segmentation-offload: off [requested on]
""",
    "-c": """\
Coalesce parameters for eth0:
Adaptive RX: off  TX: off
rx-usecs: 3
rx-frames: n/a
""",
    "-g": """\
Ring parameters for eth0:
Pre-set maximums:
RX:\t\t4096
TX:\t\t4096
Current hardware settings:
RX:\t\t256
TX:\t\t512
""",
    "-a": """\
Pause parameters for eth0:
Autonegotiate:\ton
RX:\t\toff
""",
    "-l": "",
    "sysctls": """\
/proc/sys/net/ipv4/tcp_rmem:4096\t131072\t6291456
/proc/sys/net/ipv4/tcp_congestion_control:cubic
""",
    "governor": "performance\nperformance\n",
}


def parsed(**parts: str) -> dict[str, str]:
    return parse_settings("".join(f"{MARK}{name}\n{text}" for name, text in parts.items()))


def test_settings_are_listed_by_name() -> None:
    found = parsed(**PRINTED)
    assert found["tcp-segmentation-offload"] == "off"
    assert found["tx-checksum-ipv4"] == "off"
    assert (found["ring RX"], found["ring TX"]) == ("256", "512")
    assert found["coalescing rx-usecs"] == "3"
    assert found["pause RX"] == "off"
    assert found["net.ipv4.tcp_rmem"] == "4096 131072 6291456"
    assert found["governor"] == "performance"
    assert not any(name.startswith("channels") for name in found)


FQ_CODEL = "limit 10240p flows 1024 quantum 1514 target 5ms interval 100ms memory_limit 32Mb ecn drop_batch 64"
OF_QUEUES = "".join(f"qdisc fq_codel 0: parent cf4e:{n} {FQ_CODEL} \n" for n in (3, 2, 1))
HTB = "qdisc htb 1: root refcnt 5 r2q 10 default 0x10 direct_packets_stat 17 direct_qlen 1000\n"


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        ("qdisc noqueue 0: root refcnt 2 \n", "noqueue root"),
        (
            "qdisc tbf cf4f: root refcnt 5 rate 100Mbit burst 32Kb lat 50ms \n",
            "tbf root rate 100Mbit burst 32Kb lat 50ms",
        ),
        (f"qdisc mq cf4e: root \n{OF_QUEUES}", f"mq root; 3 fq_codel {FQ_CODEL}"),
        (
            f"{HTB}qdisc ingress ffff: parent ffff:fff1 ---------------- \n",
            "htb root r2q 10 default 0x10 direct_qlen 1000; ingress",
        ),
        ("qdisc netem 8002: root refcnt 2 limit 1000 delay 10ms seed 71314520 \n", "netem root limit 1000 delay 10ms"),
    ],
)
def test_queueing_disciplines_have_all_options_but_no_handles_and_counters(text: str, recorded: str) -> None:
    assert parsed(qdiscs=text) == {"qdiscs": recorded}


def test_governors_that_differ_are_all_listed() -> None:
    assert parsed(governor="performance\nondemand\n") == {"governor": "performance ondemand"}


def test_a_missing_device_has_only_the_settings_of_the_kernel() -> None:
    found = read_end(LocalShell("here"), "nosuch0")
    assert "net.ipv4.tcp_rmem" in found
    assert not {"qdiscs", "ring RX", "driver", "IRQ CPUs"} & found.keys()


# By board: the device, lines of /proc/interrupts with one CPU, and the numbers of the NIC's interrupts.
PI4 = """\
           CPU0
 29:          0     GICv2  89 Level     PCIe PME
 38:    9130441     GICv2 189 Level     eth0
 39:     120033     GICv2 190 Level     eth0
 40:         11  BRCM STB PCIe MSI 524288 Edge      xhci_hcd
IPI0:      6253       Rescheduling interrupts
"""
PI3 = """\
           CPU0
 40:         11  ARMCTRL-level   1 Edge      3f00b880.mailbox
 56:    2200145  ARMCTRL-level  41 Edge      3f980000.usb, dwc2_hsotg:usb1
"""
PI5 = """\
           CPU0
106:       1841  rp1_irq_chip   6 Level     eth0
131:        122  rp1_irq_chip  31 Edge      xhci-hcd:usb1
136:          9  rp1_irq_chip  36 Edge      xhci-hcd:usb3
"""
PC = """\
            CPU0
  0:         22   IO-APIC    2-edge      timer
 33:          1  IR-PCI-MSI-0000:01:00.0    0-edge      mlx5_async0@pci:0000:01:00.0
 34:      99120  IR-PCI-MSI-0000:01:00.0    1-edge      mlx5_comp0@pci:0000:01:00.0
 35:          1  IR-PCI-MSI-0000:01:00.1    0-edge      mlx5_async0@pci:0000:01:00.1
"""
VIRTIO = """\
           CPU0
 45:          1     GICv3  78 Edge      virtio0
 46:      99120     GICv3  79 Edge      virtio1
"""


def path_on(board: str) -> str:
    """Return the path in sysfs of the board's last USB NIC, as the board printed it."""
    lines = (DATA / "init" / f"{board}.txt").read_text().splitlines()
    return [line.split()[1].lstrip("/") for line in lines if line.startswith("usb /sys/")][-1]


MLX5 = "sys/devices/pci0000:00/0000:00:02.0/0000:01:00.0"
VIRTIO_1 = "sys/devices/platform/a003c00.virtio_mmio/virtio1"
PI4_USB = "sys/devices/platform/scb/fd500000.pcie/pci0000:00/0000:00:00.0/0000:01:00.0/usb2/2-1/2-1:1.0"


@pytest.mark.parametrize(
    ("place", "interrupts", "files", "numbers"),
    [
        ("sys/devices/platform/scb/fd580000.ethernet", PI4, {}, ["38", "39"]),
        # The bridge has an interrupt, too, but it is further away.
        (PI4_USB, PI4.replace("eth0", "eth9"), {"0000:01:00.0/msi_irqs/40": "msi", "0000:00:00.0/irq": "29"}, ["40"]),
        (PI4_USB, PI4.replace("eth0", "eth9"), {"0000:01:00.0/irq": "40"}, ["40"]),
        (path_on("pi3b+"), PI3, {}, ["56"]),
        (path_on("pi3b+"), PI3.replace("3f980000.usb, dwc2_hsotg", "dwc_otg, dwc_otg_pcd, dwc_otg_hcd"), {}, ["56"]),
        # The interrupt has the name of the first bus of the controller; the NIC is at the second one.
        (path_on("pi5"), PI5.replace("eth0", "eth9"), {"xhci-hcd.0/usb1/busnum": "1"}, ["131"]),
        (MLX5, PC, {"0000:01:00.0/irq": "0"}, ["33", "34"]),
        (VIRTIO_1, VIRTIO, {}, ["46"]),
        # A device without interrupts, and a NIC without a device.
        (VIRTIO_1, PC, {"virtio1/irq": "0"}, []),
        (None, PI5, {}, ["106"]),
        (None, PC, {}, []),
    ],
)
def test_interrupts_of_a_nic_are_found_up_to_its_host_controller(
    place: str | None, interrupts: str, files: dict[str, str], numbers: list[str], tmp_path: Path
) -> None:
    nic = tmp_path / "sys/class/net/eth0"
    nic.mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/interrupts").write_text(interrupts)
    if place is not None:
        device = tmp_path / place
        device.mkdir(parents=True)
        (nic / "device").symlink_to(device)
        for name, text in files.items():
            above, _, below = name.partition("/")
            file = next(one for one in (device, *device.parents) if one.name == above) / below
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{text}\n")
    done = LocalShell("here").run(interrupts_script("eth0", str(tmp_path)))
    assert parse_interrupts(done.stdout) == numbers


TREE = {
    "/": {"compatible": text("raspberrypi,4-model-b", "brcm,bcm2711"), "#address-cells": cells(2)},
    "/soc/ethernet@7d580000": {"reg": cells(0, 0x7D580000), "dma-coherent": b"", "local-mac-address": b"123456"},
    "/soc": {"ranges": b""},
    "/chosen": {},
}


def test_a_device_tree_is_read_as_it_was_written() -> None:
    data = write_device_tree(TREE)
    found = read_device_tree(data)
    assert found == TREE
    # Each property is in front of all children of its node, as the specification wants.
    assert list(found) == ["/", "/soc", "/soc/ethernet@7d580000", "/chosen"]
    assert int.from_bytes(data[4:8]) == len(data)


def test_a_name_is_stored_once() -> None:
    many = {"/": {"reg": cells(1)}, "/a": {"reg": cells(2)}, "/b": {"reg": cells(3)}}
    assert write_device_tree(many).count(b"reg\0") == 1


def test_wifi_has_its_signal_channel_and_power_saving() -> None:
    # The output that a user of a Pi 400 published (batocera-linux/batocera.linux, issue 5570), with other addresses.
    found = parse_settings(f"{MARK}Wi-Fi\n{(DATA / 'iw' / 'pi400.txt').read_text()}")
    assert found == {
        "Wi-Fi signal": "about -50 dBm",
        "Wi-Fi channel": "44 (5220 MHz), width: 40 MHz",
        "Wi-Fi power save": "on",
    }
    assert parse_settings(f"{MARK}Wi-Fi\nNot connected.\nPower save: off\n") == {"Wi-Fi power save": "off"}
