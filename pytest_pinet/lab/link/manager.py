"""The program that configures a network device of a node: find it, and its commands to release and to resume a device.

NetworkManager flushes all addresses 6 s after a lost carrier, and systemd-networkd drops addresses that it did not set.
dhcpcd and ifupdown change only their own addresses: seen with dhcpcd 9.4.1, which cannot release a single device.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_pinet.evidence.counting import is_count

# NMDeviceState: 10 is unmanaged, all values above 10 are managed, 100 is connected.
_NM_UNMANAGED, _NM_CONNECTED = 10, 100
# The SETUP column of networkctl for a device that networkd leaves alone.
_NETWORKD_FREE = ("unmanaged", "n/a", "-")
# IDX LINK TYPE OPERATIONAL SETUP: 2 eth0 ether routable configured
_NETWORKCTL_WORDS = 5
_READ = r"""
PATH=$PATH:/usr/sbin:/sbin; LC_ALL=C; export LC_ALL
for device in DEVICES; do
    echo "device $device"
    [ ! -e /sys/class/net/$device/phy80211 ] || echo wireless
    nmcli -t -f GENERAL.STATE,GENERAL.CON-UUID,GENERAL.AUTOCONNECT device show $device 2>/dev/null | sed 's/^/nmcli /'
    [ ! -d /run/systemd/netif/links ] ||
        networkctl list --no-legend --no-pager $device 2>/dev/null | sed 's/^/networkctl /'
    ifquery --state $device 2>/dev/null | sed 's/^/ifquery /'
    # Not `dhcpcd -U`, which hangs after some calls (9.4.1). Without a name, the process is for all devices.
    for pid in /run/dhcpcd/pid /run/dhcpcd/$device*.pid /run/dhcpcd.pid /run/dhcpcd-$device*.pid; do
        ! read -r number 2>/dev/null <$pid || [ ! -d /proc/$number ] || echo "dhcpcd $pid"
    done
    ! command -v ubus >/dev/null || ubus -S call network.device status "{\"name\":\"$device\"}" 2>/dev/null |
        sed 's/^/ubus /'
done
"""
_UNIT_FOLDER = "/run/systemd/network"


class Manager(StrEnum):
    """A program that configures network devices."""

    NETWORK_MANAGER = "NetworkManager"
    NETWORKD = "systemd-networkd"
    DHCPCD = "dhcpcd"
    IFUPDOWN = "ifupdown"
    NETIFD = "netifd"


@dataclass(frozen=True)
class ManagedDevice:
    """A device that a manager configures. ``state`` is the manager's word for it.

    ``profile`` is the UUID of NetworkManager's active connection, ``autoconnect`` its flag of the device.
    """

    manager: Manager
    state: str
    profile: str = ""
    autoconnect: bool = True

    @property
    def releases(self) -> bool:
        """Whether the manager must release the device. The others leave our address alone."""
        return self.manager in (Manager.NETWORK_MANAGER, Manager.NETWORKD)

    @property
    def settled(self) -> bool:
        """Whether the manager has configured the device. networkd then goes on waiting for an IPv6 router."""
        return self.state == f"{_NM_CONNECTED} (connected)" or self.state.startswith("routable ")

    def taking(self, device: str) -> str:
        """Return the root command that makes the manager release the device. No file outside /run changes."""
        if self.manager is Manager.NETWORK_MANAGER:
            return f"nmcli device set {device} managed no"
        # The name, too: VLANs and bridges have the address of the NIC below them.
        text = f"[Match]\\nName={device}\\nMACAddress=%s\\n[Link]\\nUnmanaged=yes\\n"
        path = _unit(device)
        return (
            f"mkdir -p {_UNIT_FOLDER} && printf {shlex.quote(text)} $(cat /sys/class/net/{device}/address) >{path}"
            f" && chmod 644 {path} && networkctl reload"
        )

    def giving_back(self, device: str) -> str:
        """Return the root command that makes the manager configure the device again."""
        if self.manager is Manager.NETWORKD:
            return f"rm -f {_unit(device)} && networkctl reload"
        command = f"nmcli device set {device} autoconnect {'yes' if self.autoconnect else 'no'} managed yes"
        if self.settled and self.profile:
            # A profile that does not start by itself was started by a person. Without a carrier, it starts later.
            command += f" && {{ nmcli -w 0 connection up uuid {self.profile} ifname {device} >/dev/null 2>&1; :; }}"
        return command

    def __str__(self) -> str:
        return f"{self.manager}: {self.state}" if self.state else str(self.manager)


# Networks of tests (RFC 2544), and of NICs without a network.
_NOT_IN_USE = ("198.18.", "198.19.", "169.254.")


@dataclass(frozen=True)
class Surroundings:
    """Other uses of a device: our own ssh connection, a Wi-Fi association, and the manager that configures it."""

    carries_ssh: bool
    wireless: bool = False
    holding: ManagedDevice | None = None

    @property
    def to_take(self) -> ManagedDevice | None:
        """The manager that must release the device. It keeps a device that carries ssh, or that is associated."""
        kept = self.carries_ssh or self.wireless
        return self.holding if self.holding is not None and self.holding.releases and not kept else None


def reading(devices: Sequence[str]) -> str:
    """Return the command that reads the surroundings of these devices, for any user."""
    return _READ.replace("DEVICES", " ".join(devices))


def parse(text: str, carriers: Collection[str]) -> dict[str, Surroundings]:
    """Parse the output of ``reading``: the surroundings of each device. ``carriers`` are the devices that carry ssh."""
    sections: dict[str, dict[str, list[str]]] = {}
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "device":
            sections[rest] = {}
        elif sections:
            next(reversed(sections.values())).setdefault(word, []).append(rest)
    return {
        device: Surroundings(device in carriers, "wireless" in found, holding_of(device, found))
        for device, found in sections.items()
    }


def routed(text: str) -> frozenset[str]:
    """Return the devices of the routes of ``ip route show``, except routes of tests and link-local routes."""
    found = set()
    for line in text.splitlines():
        words = line.split()
        if "dev" in words[:-1] and not words[0].startswith(_NOT_IN_USE):
            found.add(words[words.index("dev") + 1])
    return frozenset(found)


def holding_of(device: str, found: Mapping[str, Sequence[str]]) -> ManagedDevice | None:
    """Return the manager of a device, from the lines that each manager's command printed. None: no manager."""
    general = dict(line.partition(":")[::2] for line in found.get("nmcli", ()))
    state = general.get("GENERAL.STATE", "")
    number = state.partition(" ")[0]
    if is_count(number) and int(number) > _NM_UNMANAGED:
        profile = general.get("GENERAL.CON-UUID", "").strip("-")
        return ManagedDevice(Manager.NETWORK_MANAGER, state, profile, general.get("GENERAL.AUTOCONNECT") != "no")
    for words in map(str.split, found.get("networkctl", ())):
        if len(words) >= _NETWORKCTL_WORDS and words[-1] not in _NETWORKD_FREE:
            return ManagedDevice(Manager.NETWORKD, " ".join(words[-2:]))
    if any(line.partition("=")[0] == device for line in found.get("ifquery", ())):
        return ManagedDevice(Manager.IFUPDOWN, "up")
    if found.get("dhcpcd"):
        return ManagedDevice(Manager.DHCPCD, "running")
    if any('"present":true' in line.replace(" ", "") for line in found.get("ubus", ())):
        return ManagedDevice(Manager.NETIFD, "")
    return None


def _unit(device: str) -> str:
    # Before all other files: networkd applies the first one that matches.
    return f"{_UNIT_FOLDER}/00-pinet-{device}.network"
