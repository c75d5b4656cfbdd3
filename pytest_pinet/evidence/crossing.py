"""Proof that the traffic crossed the NICs under test, and that their links held.

With several NICs in one subnet Linux answers ARP on each for the addresses of all, so that traffic may take another NIC
than the one whose address it goes to; iperf3 and ping see nothing of it. The byte counters of both devices do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_pinet.errors import InvalidMeasurement, TrafficError
from pytest_pinet.evidence.interface import InterfaceState, read_interface
from pytest_pinet.model.measurement import Flow
from pytest_pinet.model.traffic import Direction
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


class Crossing:
    """Reads both devices before traffic; ``check`` reads them again and compares."""

    def __init__(self, dut: Device, peer: Device) -> None:
        self._ends = (dut, peer)
        self._before = [end.read() for end in self._ends]

    def check(self, flows: Mapping[Direction, Flow], wait: Callable[[Callable[[], bool]], bool]) -> None:
        """Raises TrafficError when a link went down, InvalidMeasurement when the traffic took another way.

        ``wait`` polls a condition for a while, since some drivers refresh their counters on a timer only.
        """
        after = [end.read() for end in self._ends]
        for end, old, new in zip(self._ends, self._before, after, strict=True):
            if old.carrier_changes != new.carrier_changes:
                raise TrafficError(
                    f"the link of {end.name} went down during the measurement",
                    "check cable, connector, power supply and the node's kernel log",
                )

        def short() -> str | None:
            return self._short(flows, after)

        def complete() -> bool:
            nonlocal after
            after = [end.read() for end in self._ends]
            return short() is None

        if short() is not None and not wait(complete):
            raise InvalidMeasurement(
                f"{short()}: the traffic took another way\n  -> look for a second NIC of that node in the same "
                "network (ARP), or for wrong cabling in the lab file"
            )

    def _short(self, flows: Mapping[Direction, Flow], after: Sequence[InterfaceState]) -> str | None:
        """The first device that saw too little, in words."""
        for direction, flow in flows.items():
            moved = sum(sample.bytes for sample in flow.samples)
            for index, (end, old, new) in enumerate(zip(self._ends, self._before, after, strict=True)):
                sends = (direction is Direction.TX) == (index == 0)
                seen = new.tx_bytes - old.tx_bytes if sends else new.rx_bytes - old.rx_bytes
                if seen < LEAST * moved:
                    verb = "sent" if sends else "received"
                    return f"{end.name} {verb} {seen / 1e6:.1f} MB of the {moved / 1e6:.1f} MB that were measured"
        return None
