"""Finds the network devices that our own ssh connection to a node uses, through bridges, bonds and VLANs.

A root file system over NFS needs its devices as much, so they count, too.
"""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field

from pytest_pinet.errors import LinkError
from pytest_pinet.evidence.counting import is_count
from pytest_pinet.evidence.sockets import NFS_ROOT
from pytest_pinet.execution.shell import Shell
from pytest_pinet.model.forms import Management, ManagementMode
from pytest_pinet.model.lab import Node

# The exit status of a shell for a command that does not exist.
NOT_FOUND = 127
_FACT = "management"
_VLAN_ID = re.compile(r"\bid ([0-9]{1,4})\b")
# The route back to our end counts, too: a node with two NICs in one network may answer over the other NIC.
_COMMAND = r"""
PATH=$PATH:/usr/sbin:/sbin; command -v ip >/dev/null || exit 127
set -- $SSH_CONNECTION; echo "server $3"
if [ -n "$3" ]; then echo "route $(ip -o route get ${1%%%*} from ${3%%%*} 2>/dev/null)"; fi
NFS_ROOT; for d in $nics; do echo "root $d"; done
ip -o addr show 2>/dev/null | while read -r number device family address rest; do echo "address $device $address"; done
cd $root/sys/class/net
for l in */lower_*; do [ ! -e "$l" ] || echo "lower ${l%%/*} ${l#*/lower_}"; done
for p in */brport */bonding_slave; do [ ! -e "$p" ] || echo "part ${p%%/*} $(readlink -f "${p%%/*}/master")"; done
for u in */device; do u=$(readlink -f "$u")" ${u%%/*}"; case $u in */usb[0-9]*) echo "usb $u";; esac; done
for w in */phy80211 */wireless; do [ ! -e "$w" ] || echo "wifi ${w%%/*}"; done
ip -d -o link show type vlan 2>/dev/null
grep -hs VID: /proc/net/vlan/*
:
""".replace("NFS_ROOT", NFS_ROOT)


@dataclass(frozen=True)
class FoundManagement:
    """The way of our ssh connection into a node.

    ``device`` has the address that we connect to; it is empty if no device of the node has this address, such as behind
    a relay. ``carriers`` are all devices that share hardware with the way in or out. ``vlan`` is the number of the VLAN
    that the connection is tagged with. ``parts`` maps ports of bridges and bonds to the bridge or bond, ``usb`` maps
    the NICs on USB to the root of their bus (``usb1``). ``root`` names the devices of a root file system over NFS.
    """

    device: str = ""
    carriers: frozenset[str] = frozenset()
    vlan: int | None = None
    wifi: bool = False
    parts: Mapping[str, str] = field(default_factory=dict)
    usb: Mapping[str, str] = field(default_factory=dict)
    root: str = ""

    def of(self, node: Node) -> Management:
        """Return the form of ``management:`` that describes this."""
        return self.beside(interface.device for interface in node.interfaces)

    def beside(self, tested: Iterable[str]) -> Management:
        """Return the form of ``management:`` that describes this, if these devices are under test."""
        if any(device in self.carriers for device in tested):
            mode = ManagementMode.SAME if self.vlan is None else ManagementMode.VLAN
            return Management(mode, self.vlan)
        return Management(ManagementMode.WIFI if self.wifi else ManagementMode.SEPARATE)

    def words(self, node: Node) -> str:
        """Describe the way in, as the end of a sentence that begins with ssh."""
        if not self.device:
            return "comes in by a relay, not by an interface of the node"
        kind = " (Wi-Fi)" if self.wifi else "" if self.vlan is None else f" (VLAN {self.vlan})"
        tested = [i.device for i in node.interfaces if i.device in self.carriers and i.device != self.device]
        uses = f" and uses {' and '.join(tested)}" if tested else ""
        return f"comes in by {self.device}{kind}{uses}" + (
            f"; the root file system uses {self.root}" if self.root else ""
        )


def find_management(shell: Shell, facts: MutableMapping[str, object], root: str = "") -> FoundManagement:
    """Return the way of our ssh connection. It is read once per boot and kept in ``facts``.

    ``root`` is put before the paths of mounts, command line and devices.

    Raises LinkError for a node without ``ip``, and SshError.
    """
    if _FACT not in facts:
        done = shell.run(f"root={shlex.quote(root)}; {_COMMAND}")
        if done.returncode == NOT_FOUND:
            raise missing(shell.name, "ip", "iproute2")
        facts[_FACT] = parse(done.stdout)
    found = facts[_FACT]
    assert isinstance(found, FoundManagement)
    return found


def missing(node: str, command: str, package: str) -> LinkError:
    """Return the error for a node that lacks a command."""
    return LinkError(f"{node} has no command {command!r}", f"on {node}: sudo apt-get install {package}")


def parse(text: str) -> FoundManagement:
    """Parse the output of a node."""
    server, route = "", ""
    roots: list[str] = []
    addresses: dict[str, str] = {}
    lower: dict[str, set[str]] = {}
    parts: dict[str, str] = {}
    usb: dict[str, str] = {}
    wifi: set[str] = set()
    vlans: dict[str, int] = {}
    for line in text.splitlines():
        match line.split():
            case ["server", address]:
                server = address
            case ["route", *words] if "dev" in words[:-1]:
                route = words[words.index("dev") + 1]
            case ["root", device] if device != "lo":
                roots.append(device)
            case ["address", device, address]:
                addresses[_plain(address.partition("/")[0])] = device.partition("@")[0]
            case ["lower", device, part]:
                lower.setdefault(device, set()).add(part)
            case ["part", device, whole]:
                parts[device] = whole.rpartition("/")[2]
            case ["usb", path, device]:
                usb[device] = next((part for part in path.split("/") if part.startswith("usb")), "")
            case ["wifi", device]:
                wifi.add(device)
            case [device, "VID:", number, *_] if is_count(number):
                vlans[device] = int(number)
            case [_, device, *words] if "802.1Q" in words and (found := _VLAN_ID.search(line)):
                vlans[device.rstrip(":").partition("@")[0]] = int(found[1])
    # The address of a link has the device after a percent sign: fe80::1%eth0.
    host, _, scope = server.partition("%")
    way_in = scope or addresses.get(_plain(host), "")
    ends = {way_in, route, *roots} - {"", "lo"}
    below = _below(ends, lower)
    known = {*addresses.values(), *lower, *below}
    device = "" if way_in == "lo" else way_in
    return FoundManagement(
        device,
        frozenset(one for one in known if _below([one], lower) & below),
        # Without the VLAN of ssh, the root file system uses the same frames as a test.
        next(
            (vlans[one] for one in _below([way_in], lower) if one in vlans and one in _below(roots or [one], lower)),
            None,
        ),
        bool(_below([way_in], lower) & wifi),
        parts,
        usb,
        " and ".join(roots),
    )


def _plain(address: str) -> str:
    """Return an address in one form: sshd shows IPv4 clients of an IPv6 socket as ::ffff:192.0.2.1."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(getattr(found, "ipv4_mapped", None) or found)


def _below(devices: Iterable[str], lower: Mapping[str, set[str]]) -> set[str]:
    """Return these devices and all devices that they consist of."""
    found: set[str] = set()
    todo = [device for device in devices if device]
    while todo:
        if (device := todo.pop()) not in found:
            found.add(device)
            todo += lower.get(device, ())
    return found


def check_declared(node: Node, found: FoundManagement) -> None:
    """Raise LinkError if the lab file declares another way into a node than the one that was found."""
    declared, seen = node.management, found.of(node)
    if declared is None:
        return
    carrying = node.carrying
    if declared == seen and (carrying is None or carrying.device in found.carriers):
        return
    wanted = f" of {carrying.device}" if carrying is not None else ""
    act = f"write `management: {seen}` at {node.where}" if declared != seen else f"make {carrying} carry ssh"
    raise LinkError(
        f"the lab file says `management: {declared}`{wanted} for {node.name}, but ssh {found.words(node)}",
        f"{act}, or correct the address of {node.name} in labgrid's NetworkService",
    )
