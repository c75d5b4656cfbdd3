"""The state of a network device, and the check that the traffic crossed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_pinet.errors import InvalidMeasurement, LinkError, TrafficError
from pytest_pinet.evidence.counting import NARROW, is_count, link_speed, since
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import Shell

_NO_SUCH_DEVICE = 44
_COUNTERS = ("statistics/rx_bytes", "statistics/tx_bytes")
_LOSSES = tuple(f"statistics/{way}_{what}" for what in ("errors", "dropped") for way in ("rx", "tx"))
_KEYS = ("flags", "carrier", "speed", "duplex", "mtu", "address", "carrier_changes", *_COUNTERS, *_LOSSES)
_COMMAND = (
    "cd /sys/class/net/{device} 2>/dev/null || {{ ls /sys/class/net; exit 44; }};"
    # The shell reads the files itself. One process per file took longer on a slow board than all other work.
    ' {{ for k in {keys}; do v=; read -r v <$k; echo "$k=$v"; done;'
    ' v=; read -r v </proc/sys/net/ipv4/tcp_timestamps; echo "timestamps=$v";'
    ' v=; read -r v <duplex; [ "$v" != half ] || {{ cd device/driver && printf driver= && pwd -P; }}; }} 2>/dev/null;'
    " printf machine=; uname -m"
)
_IFF_UP = 1
# These drivers always report half duplex: USB device classes whose commands have no field for duplex
# (drivers/net/usb/usbnet.c, usbnet_get_link_ksettings_internal, leaves it 0).
_DUPLEX_UNKNOWN_TO = ("cdc_ether", "cdc_mbim", "cdc_ncm", "huawei_cdc_ncm", "rndis_host")


@dataclass(frozen=True)
class InterfaceState:
    """The state of one device. None: the driver does not report the value. ``mac`` is lower case with colons.

    ``narrow``: the byte counters may wrap every 4 GiB, as most do on 32-bit kernels.
    """

    admin_up: bool
    carrier: bool
    speed_mbps: int | None
    duplex: str | None
    mtu: int
    mac: str
    carrier_changes: int | None
    tcp_timestamps: bool
    rx_bytes: int
    tx_bytes: int
    rx_errors: int | None = None
    tx_errors: int | None = None
    rx_dropped: int | None = None
    tx_dropped: int | None = None
    narrow: bool = False

    def bytes_since(self, old: InterfaceState) -> tuple[int, int]:
        """Return the received and the sent bytes since an earlier reading. A 32-bit counter may have wrapped once."""
        return since(old.rx_bytes, self.rx_bytes), since(old.tx_bytes, self.tx_bytes)

    def __str__(self) -> str:
        if not self.admin_up:
            return "down"
        if not self.carrier:
            return "no carrier"
        return f"{self.speed_mbps or '?'} Mbit/s {self.duplex or '?'}, MTU {self.mtu}"


def read_interface(shell: Shell, device: str) -> InterfaceState:
    """Read the state of a device. Raises LinkError if there is no such device, SshError if the node does not answer."""
    done = shell.run(_COMMAND.format(device=device, keys=" ".join(_KEYS)))
    if done.returncode == _NO_SUCH_DEVICE:
        there = ", ".join(done.stdout.split()) or "none"
        raise LinkError(
            f"{shell.name} has no network device {device} (it has: {there})",
            "plug the NIC in, load its driver, or correct `device:` in the lab file",
        )
    values = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    missing = {"flags", "mtu", "timestamps", *_COUNTERS} - {key for key, value in values.items() if value}
    if missing:
        raise LinkError(f"{shell.name} does not report {', '.join(sorted(missing))} of its network device {device}")
    duplex = values["duplex"] if values["duplex"] in ("full", "half") else None
    if values.get("driver", "").rpartition("/")[2] in _DUPLEX_UNKNOWN_TO:
        duplex = None
    return InterfaceState(
        admin_up=bool(int(values["flags"], 16) & _IFF_UP),
        # Reading the carrier of a device that is down fails. The value is then empty.
        carrier=values["carrier"] == "1",
        speed_mbps=link_speed(values["speed"]),
        duplex=duplex,
        mtu=int(values["mtu"]),
        mac=values["address"],
        carrier_changes=int(values["carrier_changes"]) if values["carrier_changes"] else None,
        tcp_timestamps=values["timestamps"] != "0",
        rx_bytes=int(values["statistics/rx_bytes"]),
        tx_bytes=int(values["statistics/tx_bytes"]),
        **{
            name.removeprefix("statistics/"): int(values[name]) if is_count(values.get(name, "")) else None
            for name in _LOSSES
        },
        # armv6l, armv7l, i686: the machine of the kernel. The programs can be built for another machine.
        narrow=bool(values.get("machine")) and "64" not in values["machine"],
    )


# If a node has several NICs in one subnet, Linux answers ARP for all addresses on each NIC. Traffic can then take
# another NIC than the one that owns the destination address. iperf3 and ping do not notice this. The devices' byte
# counters do.

# The device must count at least this share of the payload. Headers only increase the count.
LEAST = 0.98
# Some drivers update their counters only once a second.
COUNTER_TIMEOUT_S = 3.0


@dataclass(frozen=True)
class CountedDevice:
    """A network device at one end. ``name`` is the device's name in messages."""

    shell: Shell
    device: str
    name: str

    def read(self) -> InterfaceState:
        return read_interface(self.shell, self.device)


@dataclass(frozen=True)
class Moved:
    """Payload in bytes that all flows together moved through one device."""

    sent: int
    received: int


class Crossing:
    """Compares the byte counters of all devices before and after traffic.

    ``before`` holds the readings of the constructor or of the last ``rebase``. ``after`` holds the latest readings.
    """

    def __init__(self, devices: Sequence[CountedDevice]) -> None:
        self._devices = devices
        self.before = [device.read() for device in devices]
        self.after = self.before

    def rebase(self) -> None:
        """Read all devices again as the new start for bytes and carriers. A driver may have restarted since.

        ``check`` then needs the payload since this call. Raises LinkError or SshError.
        """
        self.before = [device.read() for device in self._devices]
        self.after = self.before

    def accept_carriers(self) -> None:
        """Accept all carrier changes so far, which were expected.

        Later changes are faults. The byte counts keep their start.
        """
        now = [device.read().carrier_changes for device in self._devices]
        self.before = [replace(old, carrier_changes=new) for old, new in zip(self.before, now, strict=True)]

    def check(self, moved: Sequence[Moved]) -> None:
        """Compare the counters with the payload that each device must have moved since ``before``.

        Raises TrafficError if a link went down, InvalidMeasurement if the traffic took another way.
        """
        self.after = [device.read() for device in self._devices]
        for device, old, new in zip(self._devices, self.before, self.after, strict=True):
            if old.carrier_changes != new.carrier_changes:
                raise TrafficError(
                    f"the link of {device.name} went down during the measurement",
                    "check cable, connector, power supply and the node's kernel log",
                )

        def complete() -> bool:
            self.after = [device.read() for device in self._devices]
            return self._short(moved) is None

        if self._short(moved) is not None and not Deadline(COUNTER_TIMEOUT_S).wait_until(complete):
            raise InvalidMeasurement(
                f"{self._short(moved)}: the traffic used another NIC or cable",
                "look for a second NIC of that node in the same network (ARP), or for wrong cabling in the lab file",
            )

    def _short(self, moved: Sequence[Moved]) -> str | None:
        """Return a message about the first device that counted too few bytes; None if there is none."""
        for device, old, new, must in zip(self._devices, self.before, self.after, moved, strict=True):
            received, sent = new.bytes_since(old)
            for verb, seen, payload in (("sent", sent, must.sent), ("received", received, must.received)):
                # A 32-bit counter that may have wrapped more than once says nothing.
                if new.narrow and payload >= LEAST * NARROW:
                    continue
                if seen < LEAST * payload:
                    return f"{device.name} {verb} {seen / 1e6:.1f} MB of the {payload / 1e6:.1f} MB that were measured"
        return None
