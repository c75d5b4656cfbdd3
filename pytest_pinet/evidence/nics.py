"""Reads what a node is: the model of the board, and each NIC with its address, its driver and its place on the bus."""

from __future__ import annotations

import re
import shlex

from pytest_pinet.execution.shell import Shell
from pytest_pinet.model.forms import DEVICE
from pytest_pinet.model.hardware import FoundBoard, FoundNic

# A board in QEMU is slow, and starts two programs for each NIC.
TIMEOUT_S = 30.0
# The shell reads the files itself: one process for each file is slow on a slow board. ``cd`` and ``pwd -P`` follow the
# links of sysfs. ``device`` of a USB NIC is an interface of the USB device, which has speed and device tree node, too.
_READ = r"""
LC_ALL=C; export LC_ALL; PATH=$PATH:/usr/sbin:/sbin
one() { v=; read -r v <$2 && [ -n "$v" ] && echo "$1=$v"; } 2>/dev/null
to() { (cd -P "$2" && echo "$1=$(pwd -P)"); } 2>/dev/null
echo model=$(tr -d '\0' <$root/proc/device-tree/model 2>/dev/null)
own=$(tr -d '\0' <$root/proc/device-tree/aliases/ethernet0 2>/dev/null)
[ -z "$own" ] || to own $root/proc/device-tree$own
for nic in $(ls $root/sys/class/net); do
 cd $root/sys/class/net/$nic 2>/dev/null || continue
 [ $nic != lo ] || continue
 echo device=$nic
 for lower in lower_*; do [ ! -e $lower ] || echo stacked=$lower; done
 one mac address; to driver device/driver; to subsystem device/subsystem; to place device
 to net_node of_node; to node device/of_node; to parent_node device/../of_node
 one usb_mbps device/../speed; one pcie device/current_link_speed; one lanes device/current_link_width
 ethtool -i $nic 2>/dev/null; ethtool -P $nic 2>/dev/null
done
:
"""
_NO_ADDRESS = "00:00:00:00:00:00"
_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def read_board(shell: Shell, root: str = "") -> FoundBoard:
    """Read board and NICs in one remote command. Raises SshError. ``root`` is put before all paths."""
    return parse_board(shell.run(f"root={shlex.quote(root)}{_READ}", timeout_s=TIMEOUT_S).stdout)


def parse_board(text: str) -> FoundBoard:
    """Parse the node's output."""
    head, *sections = re.split(r"^device=", text, flags=re.MULTILINE)
    values = _values(head)
    nics = [_nic(section, values.get("own")) for section in sections]
    # The kernel accepts almost any character in a device's name. Commands contain only names of the usual form.
    return FoundBoard(values.get("model"), {nic.device: nic for nic in nics if DEVICE.pattern.fullmatch(nic.device)})


def _values(text: str) -> dict[str, str]:
    """Return our values (``key=value``) and the values of ethtool (``key: value``)."""
    pairs = (re.split(r"=|: *", line, maxsplit=1) for line in text.splitlines())
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2 and pair[1].strip()}


def _nic(section: str, own: str | None) -> FoundNic:
    device, _, text = section.partition("\n")
    values = _values(text)
    # A bridge has no place: "N/A".
    info = None if values.get("bus-info") == "N/A" else values.get("bus-info")
    bus = _base(values.get("subsystem")) or _kind(info)
    # The kernel's own names of USB interfaces change with the order in which their controllers start.
    place = _base(values.get("place")) if bus != "usb" else None
    nodes = ("net_node", "node", *(("parent_node",) if bus == "usb" else ()))
    # Without ethtool, the driver that sysfs names.
    driver = values["driver"] if "/" not in values.get("driver", "/") else _base(values.get("driver"))
    return FoundNic(
        device=device.strip(),
        mac=_mac(values.get("mac")),
        permanent_mac=_mac(values.get("Permanent address")),
        driver=driver,
        bus=bus,
        bus_info=info or place,
        is_own=own is not None and own in [values.get(key) for key in nodes],
        is_stacked="stacked" in values,
        usb_mbps=_number(values.get("usb_mbps")),
        # "5.0 GT/s PCIe"
        pcie_gts=_number(values.get("pcie", "").partition(" ")[0]),
        pcie_lanes=int(values["lanes"]) if values.get("lanes", "").isdecimal() else None,
    )


def _base(path: str | None) -> str | None:
    return path.rpartition("/")[2] if path else None


def _kind(bus_info: str | None) -> str | None:
    """Return the kind of bus of a place; None if there is no place."""
    if bus_info is None:
        return None
    return "usb" if bus_info.startswith("usb-") else "pci" if _PCI_ADDRESS.fullmatch(bus_info) else "platform"


def _mac(text: str | None) -> str | None:
    return text if text is not None and _MAC.fullmatch(text) and text != _NO_ADDRESS else None


def _number(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"\d+(\.\d+)?", text) else None
