"""Proof that the traffic crossed the NICs under test, and that their links held.

With several NICs in one subnet Linux answers ARP on each for the addresses of all, so that traffic may take another NIC
than the one whose address it goes to; iperf3 and ping see nothing of it. The byte counters of all devices do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.errors import InvalidMeasurement, TrafficError
from pytest_pinet.evidence.counting import NARROW
from pytest_pinet.evidence.interface import InterfaceState, read_interface
from pytest_pinet.shell import Shell

# Payload that must be seen on the wire; headers make it more, never less.
LEAST = 0.98


@dataclass(frozen=True)
class Device:
    """A network device at one end, and how messages call it."""

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
    """Reads all devices before traffic; ``check`` reads them again and compares.

    ``before`` and ``after`` are these readings, the first of them that of the last ``rebase``.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = devices
        self.before = [device.read() for device in devices]
        self.after = self.before

    def rebase(self) -> None:
        """Count from here, bytes and carriers: what was before was told elsewhere, and a driver may have begun anew.

        ``check`` is then given what moved since. Raises LinkError or SshError.
        """
        self.before = [device.read() for device in self._devices]
        self.after = self.before

    def accept_carriers(self) -> None:
        """From here on a carrier that changes is a fault; those before were expected. Bytes count on as before."""
        now = [device.read().carrier_changes for device in self._devices]
        self.before = [replace(old, carrier_changes=new) for old, new in zip(self.before, now, strict=True)]

    def check(self, moved: Sequence[Moved], wait: Callable[[Callable[[], bool]], bool]) -> None:
        """Compare with what each device must have moved since ``before``.

        Raises TrafficError when a link went down, InvalidMeasurement when the traffic took another way. ``wait`` polls
        a condition for a while, since some drivers refresh their counters on a timer only.
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
                f"{self._short(moved)}: the traffic took another way\n  -> look for a second NIC of that node in the "
                "same network (ARP), or for wrong cabling in the lab file"
            )

    def _short(self, moved: Sequence[Moved]) -> str | None:
        """The first device that saw too little, in words."""
        for device, old, new, must in zip(self._devices, self.before, self.after, moved, strict=True):
            received, sent = new.bytes_since(old)
            for verb, seen, payload in (("sent", sent, must.sent), ("received", received, must.received)):
                # A counter that may have started over more than once says nothing.
                if new.narrow and payload >= LEAST * NARROW:
                    continue
                if seen < LEAST * payload:
                    return f"{device.name} {verb} {seen / 1e6:.1f} MB of the {payload / 1e6:.1f} MB that were measured"
        return None
