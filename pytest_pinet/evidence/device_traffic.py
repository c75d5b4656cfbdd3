"""Checks that the traffic crossed the NICs under test, and that their links stayed up.

If a node has several NICs in one subnet, Linux answers ARP for all addresses on each NIC. Traffic can then take another
NIC than the one that owns the destination address. iperf3 and ping do not notice this. The devices' byte counters do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.errors import InvalidMeasurement, TrafficError
from pytest_pinet.evidence.counting import NARROW
from pytest_pinet.evidence.interface import InterfaceState, read_interface
from pytest_pinet.execution.shell import Shell

# The device must count at least this share of the payload. Headers only increase the count.
LEAST = 0.98


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

    def check(self, moved: Sequence[Moved], wait: Callable[[Callable[[], bool]], bool]) -> None:
        """Compare the counters with the payload that each device must have moved since ``before``.

        Raises TrafficError if a link went down, InvalidMeasurement if the traffic took another way. ``wait`` polls a
        condition for a while, because some drivers refresh their counters only on a timer.
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

        if self._short(moved) is not None and not wait(complete):
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
